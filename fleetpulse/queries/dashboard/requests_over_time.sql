-- Requests and tokens over time, and how requests ended.
-- reads requests: llm.requests 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    {requests:Metric} AS requests,
    {ok:Metric} AS ok,
    {aborted:Metric} AS aborted,
    {client_fault:Metric} AS client_fault,
    {failed:Metric} AS failed,
    sum(output_tokens_sum) AS output_tokens,
    sum(input_tokens_sum) AS input_tokens,
    sum(cached_tokens_sum) AS cached_tokens
FROM {requests:Rows}
WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY at_ms
ORDER BY at_ms
LIMIT 5000
