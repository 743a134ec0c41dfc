-- How busy the GPUs of each engine were: the share of time in which a kernel ran.
-- Whole hours from their rollup, what lies before and after them from windows of 10 s.
SELECT
    engine_id AS owner,
    uniqExact(gpu_uuid) AS gpus,
    any(gpu_model) AS gpu_model,
    sum(util_gpu_pct_sum) / sum(util_gpu_pct_count) / 100 AS busy
FROM
(
    SELECT engine_id, gpu_uuid, gpu_model, util_gpu_pct_sum, util_gpu_pct_count
    FROM gpu_samples_rollup_1h FINAL
    WHERE grouping = 'gpu' AND engine_id IS NOT NULL
        AND window_ms >= intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
        AND window_ms < intDiv({to_ms:Int64}, 3600000) * 3600000
    UNION ALL
    SELECT engine_id, gpu_uuid, gpu_model, util_gpu_pct_sum, util_gpu_pct_count
    FROM gpu_samples_partials FINAL
    WHERE grouping = 'gpu' AND engine_id IS NOT NULL
        AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (window_ms < intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
            OR window_ms >= intDiv({to_ms:Int64}, 3600000) * 3600000)
)
GROUP BY engine_id
ORDER BY owner
