-- Each 10 s window of each engine: its running batch, its queue, its KV cache, tokens a second.
-- Where rows of 10 s are no longer kept, each minute.
-- reads engines: engine.samples 10s <= 400d, 1m
SELECT
    window_ms,
    cluster,
    host,
    engine_id,
    model,
    sum(running_sum) / nullIf(sum(running_count), 0) AS running,
    sum(waiting_sum) / nullIf(sum(waiting_count), 0) AS waiting,
    sum(toInt128(kv_used_ppm_sum)) / nullIf(sum(kv_used_ppm_count), 0) / 1e6 AS kv_used,
    sum(preemptions_sum) / (width_ms / 1000) AS preemptions_per_s,
    sum(generation_tokens_sum) / (width_ms / 1000) AS generation_tokens_per_s
FROM {engines:Rows}
WHERE grouping = 'engine_sample'
GROUP BY window_ms, width_ms, cluster, host, engine_id, model
ORDER BY window_ms, host, engine_id, model
