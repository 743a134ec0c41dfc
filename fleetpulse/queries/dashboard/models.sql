-- Models by what they did over a range; of many, those with most requests whose name holds a text.
-- param search: what the name must hold, upper or lower case
-- param top: how many models at most
-- reads requests: llm.requests 10s <= 5m, 1m <= 2h, 1h <= 60d, 1d
-- rows: 1000
SELECT
    model,
    {requests:Metric} AS requests,
    {ok:Metric} AS ok,
    {aborted:Metric} AS aborted,
    {client_fault:Metric} AS client_fault,
    {failed:Metric} AS failed,
    {failed_share:Metric} AS failed_share,
    sum(output_tokens_sum) AS output_tokens,
    sum(input_tokens_sum) AS input_tokens,
    count() OVER () AS models
FROM
(
    SELECT model, status, error_kind, event_count, output_tokens_sum, input_tokens_sum
    FROM {requests:Rows}
    WHERE grouping = 'service'
        AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND positionCaseInsensitiveUTF8(model, {search:String}) > 0
)
GROUP BY model
ORDER BY requests DESC, model
LIMIT {top:UInt32}
