-- Each 10 s window of each engine: its running batch, its queue, its KV cache, tokens a second.
SELECT
    window_ms,
    cluster,
    host,
    engine_id,
    model,
    sum(running_sum) / nullIf(sum(running_count), 0) AS running,
    sum(waiting_sum) / nullIf(sum(waiting_count), 0) AS waiting,
    sum(toInt128(kv_used_ppm_sum)) / nullIf(sum(kv_used_ppm_count), 0) / 1e6 AS kv_used,
    sum(preemptions_sum) / 10 AS preemptions_per_s,
    sum(generation_tokens_sum) / 10 AS generation_tokens_per_s
FROM engine_samples_partials FINAL
WHERE grouping = 'engine_sample' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY window_ms, cluster, host, engine_id, model
ORDER BY window_ms, host, engine_id, model
