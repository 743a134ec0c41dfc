-- One engine over time: its batch, queue, KV cache and tokens, all its models together.
-- reads engines: engine.samples 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
WITH arraySum(mapValues(maxMap(windows_ms))) AS covered_ms, sumMap(running_most) AS most_by_window
SELECT
    at_ms,
    sum(running_total) / nullIf(arraySum(mapValues(maxMap(running_counts))), 0) AS running,
    if(empty(most_by_window), NULL, arrayMax(mapValues(most_by_window))) AS running_max,
    sum(waiting_total) / nullIf(arraySum(mapValues(maxMap(waiting_counts))), 0) AS waiting,
    max(kv_share) AS kv_used,
    sum(thrown_out) AS preemptions,
    1000 * sum(prompt) / nullIf(covered_ms, 0) AS prompt_per_s,
    1000 * sum(hit) / nullIf(covered_ms, 0) AS hit_per_s,
    1000 * sum(generated) / nullIf(covered_ms, 0) AS generated_per_s,
    sum(prompt) AS prompt_tokens,
    sum(hit) AS hit_tokens,
    sum(generated) AS generated_tokens,
    covered_ms AS covered_for_ms
FROM
(
    SELECT
        intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
        model,
        sum(toInt128(running_sum)) AS running_total,
        sumMap(map(window_ms, running_count)) AS running_counts,
        maxMapIf(map(window_ms, assumeNotNull(running_max)), running_max IS NOT NULL) AS running_most,
        sum(toInt128(waiting_sum)) AS waiting_total,
        sumMap(map(window_ms, waiting_count)) AS waiting_counts,
        sum(toInt128(kv_used_ppm_sum)) / nullIf(sum(kv_used_ppm_count), 0) / 1000000 AS kv_share,
        sum(preemptions_sum) AS thrown_out,
        sum(toInt128(prompt_tokens_sum)) AS prompt,
        sum(toInt128(prefix_hit_tokens_sum)) AS hit,
        sum(toInt128(generation_tokens_sum)) AS generated,
        sumMap(map(window_ms, ifNull(interval_ms_sum, 0))) AS windows_ms
    FROM {engines:Rows}
    WHERE grouping = 'engine_sample' AND engine_id = {engine_id:String}
        AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    GROUP BY at_ms, model
)
GROUP BY at_ms
ORDER BY at_ms
LIMIT 5000
