-- How requests failed, by tenant and model; the most frequent first.
-- Whole hours come from their rollup, what lies before and after them from finer rows.
-- reads hours: llm.requests 1h <= 60d, 1d
-- reads edges: llm.requests 10s <= 5m, 1m <= 12h, 1h <= 60d, 1d
-- rows: 200
-- seconds: 5
SELECT tenant, model, status, error_kind, sum(event_count) AS requests
FROM
(
    SELECT tenant, model, status, error_kind, event_count
    FROM {hours:Identifier} FINAL
    WHERE grouping = 'service'
        AND window_ms >= intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
        AND window_ms < intDiv({to_ms:Int64}, 3600000) * 3600000
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND status != 'ok'
    UNION ALL
    SELECT tenant, model, status, error_kind, event_count
    FROM {edges:Identifier} FINAL
    WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (window_ms < intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
            OR window_ms >= intDiv({to_ms:Int64}, 3600000) * 3600000)
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND status != 'ok'
)
GROUP BY tenant, model, status, error_kind
ORDER BY requests DESC, tenant, model, status, error_kind
LIMIT 100
