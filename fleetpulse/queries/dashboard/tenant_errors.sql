-- How requests ended that were not answered in full, by tenant and model; the most frequent first.
-- reads requests: llm.requests 10s <= 5m, 1m <= 2h, 1h <= 60d, 1d
-- rows: 200
SELECT tenant, model, status, error_kind, sum(event_count) AS requests
FROM
(
    SELECT tenant, model, status, error_kind, event_count
    FROM {requests:Rows}
    WHERE grouping = 'service'
        AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND NOT {ok:End}
)
GROUP BY tenant, model, status, error_kind
ORDER BY requests DESC, tenant, model, status, error_kind
LIMIT 100
