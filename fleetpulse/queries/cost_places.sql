-- Where GPUs of which type stood in a range: what the prices in force are looked up by.
-- reads gpus: gpu.samples 10s <= 1h, 1h
SELECT region, gpu_model, min(window_ms) AS first_ms, max(last_at_ms) AS last_ms
FROM {gpus:Rows}
WHERE grouping = 'gpu' AND gpu_model IS NOT NULL AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY region, gpu_model
ORDER BY region, gpu_model
