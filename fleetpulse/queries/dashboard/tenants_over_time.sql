-- Requests and generated tokens over time of the biggest tenants; the others together stand under an empty name.
-- param top: how many tenants by name
-- reads requests: llm.requests 10s <= 30m, 1m <= 6h, 1h <= 30d, 1d
-- rows: 6000
WITH biggest AS
(
    SELECT tenant
    FROM {requests:Rows}
    WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
    GROUP BY tenant
    ORDER BY sum(event_count) DESC, tenant
    LIMIT {top:UInt32}
)
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    if(tenant IN (biggest), ifNull(tenant, ''), '') AS name,
    sum(event_count) AS requests,
    sum(output_tokens_sum) AS output_tokens
FROM {requests:Rows}
WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY at_ms, name
ORDER BY at_ms, name
LIMIT 6000
