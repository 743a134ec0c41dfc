-- Which tenant, model, version, host or engine explains most of a change between two ranges of one length.
-- At most eight of each. `metric` is one of requests, failed, input_tokens, cached_tokens, output_tokens, ttft_p99_us, tpot_p99_us, e2e_p99_us and
-- cost_nusd (view who_changed); `unit` is that of the amounts: latencies are in ms, money in dollars.
WITH multiIf(endsWith({metric:String}, '_us'), 1e3, endsWith({metric:String}, '_nusd'), 1e9, 1) AS scale
SELECT
    dimension,
    name,
    c.before / scale AS before,
    c.now / scale AS now,
    multiIf(endsWith(metric, '_us'), 'ms', endsWith(metric, '_nusd'), '$', endsWith(metric, '_tokens'), 'tokens', 'requests') AS unit,
    round(0 + 100 * c.explains, 1) AS explains_pct,
    c.all_before / scale AS all_before,
    c.all_now / scale AS all_now
FROM who_changed(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, before_from_ms = {before_from_ms:Int64}, before_to_ms = {before_to_ms:Int64}) AS c
WHERE metric = {metric:String} AND (c.before != 0 OR c.now != 0)
ORDER BY abs(c.explains) DESC, dimension, name
LIMIT 8 BY dimension
LIMIT 40
