-- Models by what they did over a range; of many, those with most requests whose name holds a text.
-- Whole hours come from their rollup, what lies before and after them from finer rows.
-- param search: what the name must hold, upper or lower case
-- param top: how many models at most
-- reads hours: llm.requests 1h <= 60d, 1d
-- reads edges: llm.requests 10s <= 5m, 1m <= 12h, 1h <= 60d, 1d
-- rows: 1000
-- seconds: 10
SELECT
    model,
    sum(event_count) AS requests,
    sumIf(event_count, status NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client') AS failed,
    failed / requests AS failed_share,
    sum(output_tokens_sum) AS output_tokens,
    sum(input_tokens_sum) AS input_tokens,
    count() OVER () AS models
FROM
(
    SELECT model, status, error_kind, event_count, output_tokens_sum, input_tokens_sum
    FROM {hours:Identifier} FINAL
    WHERE grouping = 'service'
        AND window_ms >= intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
        AND window_ms < intDiv({to_ms:Int64}, 3600000) * 3600000
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND positionCaseInsensitiveUTF8(model, {search:String}) > 0
    UNION ALL
    SELECT model, status, error_kind, event_count, output_tokens_sum, input_tokens_sum
    FROM {edges:Identifier} FINAL
    WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (window_ms < intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
            OR window_ms >= intDiv({to_ms:Int64}, 3600000) * 3600000)
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND positionCaseInsensitiveUTF8(model, {search:String}) > 0
)
GROUP BY model
ORDER BY requests DESC, model
LIMIT {top:UInt32}
