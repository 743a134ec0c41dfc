-- The whole fleet over time: how many GPUs reported, utilization, power, share of time throttled.
-- A GPU counts once, with its MIG devices: memory is that of whole GPUs, or of the devices where no whole GPU says it;
-- power is of the GPUs that say theirs.
-- reads gpu: gpu.samples 10s <= 10m, 1m <= 2h, 1h <= 30d, 1d
-- rows: 5000
-- kept: 5
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    uniq(ifNull(parent_uuid, gpu_uuid)) AS gpus,
    sum(util_gpu_pct_sum) / nullIf(sum(util_gpu_pct_count), 0) / 100 AS busy,
    coalesce(
        sumIf(toInt128(memory_used_bytes_sum), parent_uuid IS NULL)
            / nullIf(sumIf(toInt128(memory_total_bytes_sum), parent_uuid IS NULL), 0),
        sum(toInt128(memory_used_bytes_sum)) / nullIf(sum(toInt128(memory_total_bytes_sum)), 0)
    ) AS memory,
    uniqIf(gpu_uuid, power_mw_count > 0)
        * sum(toInt128(power_mw_sum)) / nullIf(sum(power_mw_count), 0) / 1000 AS power_w,
    sum(toInt128(throttled_us_sum))
        / nullIf(1000 * sumIf(toInt128(interval_ms_sum), throttled_us_sum IS NOT NULL), 0) AS throttled,
    sum(toInt128(energy_mj_sum)) / 1000 AS energy_j
FROM {gpu:Rows}
WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({host:String} = '' OR host = {host:String})
    AND ({gpu_model:String} = '' OR gpu_model = {gpu_model:String})
GROUP BY at_ms
ORDER BY at_ms
LIMIT 5000
