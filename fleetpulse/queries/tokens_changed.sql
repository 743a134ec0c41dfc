-- Prompt tokens, of them cached ones, and generated tokens of each model and tenant in two ranges of one length, and of all together.
-- `model` or `tenant` is one of them, or empty for all. What was before is null where nothing reported then: it is not known, and not 0.
WITH (
    SELECT covered_ms > 0
    FROM covered_time(from_ms = {before_from_ms:Int64}, to_ms = {before_to_ms:Int64})
) AS reported
SELECT
    one.1 AS dimension,
    one.2 AS name,
    if(reported, anyIf(one.3, metric = 'input_tokens'), NULL) AS input_tokens_before,
    anyIf(one.4, metric = 'input_tokens') AS input_tokens_now,
    if(reported, anyIf(one.3, metric = 'cached_tokens'), NULL) AS cached_tokens_before,
    anyIf(one.4, metric = 'cached_tokens') AS cached_tokens_now,
    if(reported, anyIf(one.3, metric = 'output_tokens'), NULL) AS output_tokens_before,
    anyIf(one.4, metric = 'output_tokens') AS output_tokens_now,
    round(0 + 100 * (output_tokens_now - output_tokens_before) / nullIf(output_tokens_before, 0), 1) AS output_tokens_change_pct
FROM
(
    SELECT
        c.metric AS metric,
        (c.dimension, c.name) AS of,
        arrayJoin([(c.dimension, c.name, c.before, c.now), ('all', '', c.all_before, c.all_now)]) AS one
    FROM who_changed(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, before_from_ms = {before_from_ms:Int64}, before_to_ms = {before_to_ms:Int64}) AS c
    WHERE c.metric IN ('input_tokens', 'cached_tokens', 'output_tokens')
        AND c.dimension IN ('model', 'tenant')
        AND {model:String} IN ('', if(c.dimension = 'model', c.name, NULL))
        AND {tenant:String} IN ('', if(c.dimension = 'tenant', c.name, NULL))
)
GROUP BY dimension, name
HAVING dimension != 'all' OR uniqExact(of) > 1
ORDER BY dimension != 'all', dimension, output_tokens_now DESC, name
LIMIT 50 BY dimension
