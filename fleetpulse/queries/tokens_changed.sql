-- Prompt tokens, of them cached ones, and generated tokens of each model and tenant in two ranges of one length, and of all together.
SELECT
    one.1 AS dimension,
    one.2 AS name,
    anyIf(one.3, metric = 'input_tokens') AS input_before,
    anyIf(one.4, metric = 'input_tokens') AS input_now,
    anyIf(one.3, metric = 'cached_tokens') AS cached_before,
    anyIf(one.4, metric = 'cached_tokens') AS cached_now,
    anyIf(one.3, metric = 'output_tokens') AS output_before,
    anyIf(one.4, metric = 'output_tokens') AS output_now,
    round(0 + 100 * (output_now - output_before) / nullIf(output_before, 0), 1) AS output_change_pct
FROM
(
    SELECT
        c.metric AS metric,
        arrayJoin([(c.dimension, c.name, c.before, c.now), ('all', '', c.all_before, c.all_now)]) AS one
    FROM who_changed(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, before_from_ms = {before_from_ms:Int64}, before_to_ms = {before_to_ms:Int64}) AS c
    WHERE c.dimension IN ('model', 'tenant') AND c.metric IN ('input_tokens', 'cached_tokens', 'output_tokens')
)
GROUP BY dimension, name
ORDER BY dimension != 'all', dimension, output_now DESC, name
LIMIT 50 BY dimension
