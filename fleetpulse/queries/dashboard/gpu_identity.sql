-- What a GPU is, where it stands, and which engines it served over a range, the latest first.
-- param gpu_uuid: the GPU
-- reads gpu: gpu.history 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 100
SELECT
    engine_id,
    any(host) AS host,
    any(cluster) AS cluster,
    any(region) AS region,
    any(gpu_model) AS gpu_model,
    any(workload) AS workload,
    max(last_at_ms) AS heard_ms
FROM {gpu:Rows}
WHERE grouping = 'gpu' AND gpu_uuid = {gpu_uuid:String}
    AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY engine_id
ORDER BY heard_ms DESC, engine_id
LIMIT 50
