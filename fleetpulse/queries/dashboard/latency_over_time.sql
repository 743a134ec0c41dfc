-- Percentiles of one latency over time: 50, 95 and 99.
-- param bins: column with the sketch
-- reads requests: llm.requests 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    fp_quantiles_linear([0.5, 0.95, 0.99], sumMap({bins:Identifier})) AS percentiles,
    arraySum(mapValues(sumMap({bins:Identifier}))) AS counted
FROM {requests:Rows}
WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY at_ms
HAVING notEmpty(percentiles)
ORDER BY at_ms
LIMIT 5000
