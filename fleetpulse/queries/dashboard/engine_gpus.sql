-- GPUs of one engine over a range.
-- reads gpu: gpu.samples 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 1024
SELECT
    gpu_uuid,
    any(gpu_model) AS gpu_type,
    any(parent_uuid) AS part_of_gpu,
    any(host) AS a_host,
    sum(toInt128(util_gpu_pct_sum)) / nullIf(sum(util_gpu_pct_count), 0) / 100 AS busy,
    sum(toInt128(sm_active_ppm_sum)) / nullIf(sum(sm_active_ppm_count), 0) / 1000000 AS sm_active,
    sum(toInt128(tensor_active_ppm_sum)) / nullIf(sum(tensor_active_ppm_count), 0) / 1000000 AS tensor_active,
    argMax(memory_used_bytes_last, last_at_ms) AS memory_used_bytes,
    max(memory_total_bytes_max) AS memory_total_bytes,
    sum(toInt128(power_mw_sum)) / nullIf(sum(power_mw_count), 0) / 1000 AS power_w,
    max(temperature_c_max) AS temperature_max_c
FROM {gpu:Rows}
WHERE grouping = 'gpu' AND engine_id = {engine_id:String}
    AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY gpu_uuid
ORDER BY gpu_uuid
LIMIT 1024
