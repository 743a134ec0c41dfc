-- How busy the GPUs of each engine were: the share of time in which a kernel ran.
SELECT
    engine_id AS owner,
    uniqExact(gpu_uuid) AS gpus,
    any(gpu_model) AS gpu_model,
    sum(util_gpu_pct_sum) / sum(util_gpu_pct_count) / 100 AS busy
FROM gpu_samples_partials FINAL
WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND engine_id IS NOT NULL
GROUP BY engine_id
ORDER BY owner
