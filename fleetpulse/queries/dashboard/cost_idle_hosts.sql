-- Hosts by what their GPUs cost while no model was loaded, and engines by what they cost while no token was computed.
-- reads bills: costs 1m <= 6h, 1h <= 60d, 1d
-- rows: 200
SELECT owner, min(use) AS what, min(gpu_model) AS a_gpu, sum(gpu_ms) AS gpu_time_ms, sum(toInt128(cost_nusd)) AS cost
FROM
(
    SELECT owner, use, gpu_model, gpu_ms, cost_nusd
    FROM {bills:Rows} AS r
    ARRAY JOIN
        r.part_use AS use,
        r.part_owner AS owner,
        r.part_gpu_model AS gpu_model,
        r.part_region AS region,
        r.part_gpu_ms AS gpu_ms,
        r.part_cost_nusd AS cost_nusd
    WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND owner IS NOT NULL
        AND ({region:String} = '' OR region = {region:String})
)
GROUP BY owner
ORDER BY cost DESC, owner
LIMIT 100
