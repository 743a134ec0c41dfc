-- How busy the GPUs of each engine were: the share of time in which a kernel ran.
-- reads gpus: gpu.samples 10s <= 1h, 1h
SELECT
    engine_id AS owner,
    uniqExact(gpu_uuid) AS gpus,
    any(gpu_model) AS gpu_model,
    sum(util_gpu_pct_sum) / nullIf(sum(util_gpu_pct_count), 0) / 100 AS busy
FROM {gpus:Rows}
WHERE grouping = 'gpu' AND engine_id IS NOT NULL AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY engine_id
ORDER BY owner
