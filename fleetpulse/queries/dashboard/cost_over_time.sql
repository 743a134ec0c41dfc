-- What money went to over time, by part of the bills.
-- param width_ms: width of a point, whole minutes [ms]
-- rows: 5000
-- seconds: 5
SELECT
    intDiv(minute_ms, {width_ms:Int64}) * {width_ms:Int64} AS at_ms,
    if(part = '__overhead__', if(status IS NULL, 'start-up', 'failed'), part) AS what,
    sum(cost_nusd) AS cost
FROM cost_parts
WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
    AND ({region:String} = '' OR region = {region:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
    AND ({model:String} = '' OR model = {model:String})
GROUP BY at_ms, what
ORDER BY at_ms, what
LIMIT 5000
