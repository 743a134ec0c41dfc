-- Where GPUs of which type stood in a range: what the prices in force are looked up by.
-- Whole hours from their rollup, by which the first and last moment are known to the hour; what lies before and after
-- them from windows of 10 s.
SELECT region, gpu_model, min(first) AS first_ms, max(last) AS last_ms
FROM
(
    SELECT region, gpu_model, window_ms AS first, last_at_ms AS last
    FROM gpu_samples_rollup_1h FINAL
    WHERE grouping = 'gpu' AND gpu_model IS NOT NULL
        AND window_ms >= intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
        AND window_ms < intDiv({to_ms:Int64}, 3600000) * 3600000
    UNION ALL
    SELECT region, gpu_model, window_ms, window_ms
    FROM gpu_samples_partials FINAL
    WHERE grouping = 'gpu' AND gpu_model IS NOT NULL
        AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (window_ms < intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
            OR window_ms >= intDiv({to_ms:Int64}, 3600000) * 3600000)
)
GROUP BY region, gpu_model
ORDER BY region, gpu_model
