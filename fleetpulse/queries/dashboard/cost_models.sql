-- What each model cost, and a million of its tokens: prices times tokens are the cost of its requests, failed ones in it.
-- What is of no request (nobody 1) has a row for each part of the bills, so that the rows add up to the bills.
-- reads bills: costs 1m <= 6h, 1h <= 60d, 1d
-- rows: 500
SELECT
    if(status IS NULL, ifNull(name, ''), ifNull(of_model, '')) AS model,
    status IS NULL AS nobody,
    sum(toInt128(cost_nusd)) AS cost,
    {uncached_tokens:Metric} AS tokens_in,
    {output_tokens:Metric} AS tokens_out,
    {usd_per_million_uncached:Metric} AS per_million_in,
    {usd_per_million_output:Metric} AS per_million_out,
    sumIf(toInt128(cost_nusd), status IS NOT NULL AND {aborted:End}) AS aborted,
    sumIf(toInt128(cost_nusd), status IS NOT NULL AND {unanswered:End}) AS unanswered,
    sum(toInt128(meter_mj)) AS used_mj,
    {kwh_per_million_output:Metric} AS kwh_per_million_out,
    {g_per_million_output:Metric} AS g_per_million_out
FROM
(
    SELECT of_model, name, status, kind, amount, cost_nusd, meter_mj, carbon_ug
    FROM {bills:Rows} AS r
    ARRAY JOIN
        r.part_name AS name,
        r.part_kind AS kind,
        r.part_tenant AS tenant,
        r.part_model AS of_model,
        r.part_status AS status,
        r.part_region AS region,
        r.part_amount AS amount,
        r.part_cost_nusd AS cost_nusd,
        arrayResize(r.part_meter_mj, length(r.part_name), NULL) AS meter_mj,
        arrayResize(r.part_carbon_ug, length(r.part_name), NULL) AS carbon_ug
    WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({region:String} = '' OR region = {region:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND ({model:String} = '' OR of_model = {model:String})
)
GROUP BY model, nobody
ORDER BY nobody, cost DESC, model
LIMIT 200
