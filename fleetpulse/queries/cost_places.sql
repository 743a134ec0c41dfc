-- Where GPUs of which type stood in a range: what the prices in force are looked up by.
SELECT region, gpu_model, min(window_ms) AS first_ms, max(window_ms) AS last_ms
FROM gpu_samples_partials FINAL
WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND gpu_model IS NOT NULL
GROUP BY region, gpu_model
ORDER BY region, gpu_model
