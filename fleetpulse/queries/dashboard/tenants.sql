-- By tenant: requests, tokens, how many failed. The biggest first.
-- Whole hours come from their rollup, what lies before and after them from finer rows.
-- param top: how many tenants at most
-- reads hours: llm.requests 1h <= 60d, 1d
-- reads edges: llm.requests 10s <= 5m, 1m <= 12h, 1h <= 60d, 1d
-- rows: 1000
-- seconds: 5
SELECT
    tenant,
    sum(event_count) AS requests,
    sumIf(event_count, status != 'ok') / requests AS failed,
    sum(input_tokens_sum) AS input_tokens,
    sum(cached_tokens_sum) AS cached_tokens,
    sum(output_tokens_sum) AS output_tokens
FROM
(
    SELECT tenant, status, event_count, input_tokens_sum, cached_tokens_sum, output_tokens_sum
    FROM {hours:Identifier} FINAL
    WHERE grouping = 'service'
        AND window_ms >= intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
        AND window_ms < intDiv({to_ms:Int64}, 3600000) * 3600000
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
    UNION ALL
    SELECT tenant, status, event_count, input_tokens_sum, cached_tokens_sum, output_tokens_sum
    FROM {edges:Identifier} FINAL
    WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (window_ms < intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
            OR window_ms >= intDiv({to_ms:Int64}, 3600000) * 3600000)
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
)
GROUP BY tenant
ORDER BY requests DESC, tenant
LIMIT {top:UInt32}
