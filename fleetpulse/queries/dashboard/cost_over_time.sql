-- What money went to over time, by part of the bills.
-- reads bills: costs 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    if(name = '__overhead__', if(status IS NULL, 'start-up', 'not answered in full'), name) AS what,
    sum(toInt128(cost_nusd)) AS cost
FROM
(
    SELECT window_ms, name, status, cost_nusd
    FROM {bills:Rows} AS r
    ARRAY JOIN
        r.part_name AS name,
        r.part_tenant AS tenant,
        r.part_model AS model,
        r.part_status AS status,
        r.part_region AS region,
        r.part_cost_nusd AS cost_nusd
    WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({region:String} = '' OR region = {region:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND ({model:String} = '' OR model = {model:String})
)
GROUP BY at_ms, what
ORDER BY at_ms, what
LIMIT 5000
