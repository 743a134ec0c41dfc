-- What a GPU is, where it stands, and which engines it served over a range, the latest first.
-- Whole hours come from their rollup, what lies before and after them from finer rows.
-- param gpu_uuid: the GPU
-- reads hours: gpu.samples 1h <= 60d, 1d
-- reads edges: gpu.samples 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 100
-- seconds: 10
SELECT
    engine_id,
    any(host) AS host,
    any(cluster) AS cluster,
    any(region) AS region,
    any(gpu_model) AS gpu_model,
    any(workload) AS workload,
    max(last_at_ms) AS heard_ms
FROM
(
    SELECT engine_id, host, cluster, region, gpu_model, workload, last_at_ms
    FROM {hours:Identifier} FINAL
    PREWHERE gpu_uuid = {gpu_uuid:String}
    WHERE grouping = 'gpu'
        AND window_ms >= intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
        AND window_ms < intDiv({to_ms:Int64}, 3600000) * 3600000
    UNION ALL
    SELECT engine_id, host, cluster, region, gpu_model, workload, last_at_ms
    FROM {edges:Identifier} FINAL
    PREWHERE gpu_uuid = {gpu_uuid:String}
    WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (window_ms < intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
            OR window_ms >= intDiv({to_ms:Int64}, 3600000) * 3600000)
)
GROUP BY engine_id
ORDER BY heard_ms DESC
LIMIT 50
