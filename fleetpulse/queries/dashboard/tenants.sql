-- By tenant: requests, tokens, how many failed. The biggest first, with how many there are.
-- param top: how many tenants at most
-- reads requests: llm.requests 10s <= 5m, 1m <= 2h, 1h <= 60d, 1d
-- rows: 1000
SELECT
    tenant,
    {requests:Metric} AS requests,
    {ok:Metric} AS ok,
    {aborted:Metric} AS aborted,
    {client_fault:Metric} AS client_fault,
    {failed:Metric} AS failed,
    {failed_share:Metric} AS failed_share,
    sum(input_tokens_sum) AS input_tokens,
    sum(cached_tokens_sum) AS cached_tokens,
    sum(output_tokens_sum) AS output_tokens,
    count() OVER () AS tenants
FROM
(
    SELECT tenant, status, error_kind, event_count, input_tokens_sum, cached_tokens_sum, output_tokens_sum
    FROM {requests:Rows}
    WHERE grouping = 'service'
        AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
)
GROUP BY tenant
ORDER BY requests DESC, tenant
LIMIT {top:UInt32}
