-- The GPUs of one engine together, over time: work, memory, power.
-- reads gpu: gpu.samples 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    uniq(gpu_uuid) AS gpus,
    sum(toInt128(util_gpu_pct_sum)) / nullIf(sum(util_gpu_pct_count), 0) / 100 AS busy,
    sum(toInt128(sm_active_ppm_sum)) / nullIf(sum(sm_active_ppm_count), 0) / 1000000 AS sm_active,
    sum(toInt128(tensor_active_ppm_sum)) / nullIf(sum(tensor_active_ppm_count), 0) / 1000000 AS tensor_active,
    uniqIf(gpu_uuid, memory_used_bytes_count > 0)
        * sum(toInt128(memory_used_bytes_sum)) / nullIf(sum(memory_used_bytes_count), 0) AS memory_used_bytes,
    uniqIf(gpu_uuid, memory_total_bytes_count > 0)
        * sum(toInt128(memory_total_bytes_sum)) / nullIf(sum(memory_total_bytes_count), 0) AS memory_total_bytes,
    uniqIf(gpu_uuid, power_mw_count > 0)
        * sum(toInt128(power_mw_sum)) / nullIf(sum(power_mw_count), 0) / 1000 AS power_w,
    sum(toInt128(throttled_us_sum))
        / nullIf(1000 * sumIf(toInt128(interval_ms_sum), throttled_us_sum IS NOT NULL), 0) AS throttled
FROM {gpu:Rows}
WHERE grouping = 'gpu' AND engine_id = {engine_id:String}
    AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY at_ms
ORDER BY at_ms
LIMIT 5000
