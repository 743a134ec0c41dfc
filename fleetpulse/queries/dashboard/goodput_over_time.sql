-- Judged requests and those that met all objectives of their class, over time, as windows hold them.
-- reads requests: llm.requests 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS bucket_at_ms,
    {judged:Metric} AS judged,
    {good:Metric} AS good
FROM {requests:Rows}
WHERE grouping = 'service' AND judged_requests_sum IS NOT NULL
    AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY bucket_at_ms
ORDER BY bucket_at_ms
LIMIT 5000
