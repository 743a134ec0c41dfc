-- How requests failed, by tenant and model; the most frequent first.
-- reads requests: llm.requests 10s <= 30m, 1m <= 6h, 1h <= 30d, 1d
-- rows: 200
-- seconds: 5
SELECT tenant, model, status, error_kind, sum(event_count) AS requests
FROM {requests:Identifier} FINAL
WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND status != 'ok'
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY tenant, model, status, error_kind
ORDER BY requests DESC, tenant, model, status, error_kind
LIMIT 100
