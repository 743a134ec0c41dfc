-- The fleet's GPUs by type over a range: how busy, how hot, how much energy, which links have errors or lost lanes.
-- A GPU counts once, with its MIG devices: memory is that of whole GPUs, or of the devices where no whole GPU says it.
-- Adds up rows as they came; gpu_windows shows each window put together, which takes longer.
-- reads gpu: gpu.samples 10s <= 1h, 1m <= 1d, 1h
SELECT
    gpu_model,
    uniqExact(ifNull(parent_uuid, gpu_uuid)) AS gpus,
    round(sum(util_gpu_pct_sum) / nullIf(sum(util_gpu_pct_count), 0), 1) AS util_pct,
    round(sum(toInt128(power_mw_sum)) / nullIf(sum(power_mw_count), 0) / 1000) AS power_w,
    max(temperature_c_max) AS temperature_max_c,
    round(100 * coalesce(
        sumIf(toInt128(memory_used_bytes_sum), parent_uuid IS NULL)
            / nullIf(sumIf(toInt128(memory_total_bytes_sum), parent_uuid IS NULL), 0),
        sum(toInt128(memory_used_bytes_sum)) / nullIf(sum(toInt128(memory_total_bytes_sum)), 0)
    ), 1) AS memory_pct,
    round(sum(toInt128(energy_mj_sum)) / 1000) AS energy_j,
    round(sum(toInt128(dram_active_ppm_sum)) / nullIf(sum(dram_active_ppm_count), 0) / 10000, 1) AS bandwidth_pct,
    uniqExactIf(gpu_uuid, pcie_width_min < pcie_width_max_max) AS narrow_links,
    sum(toInt128(pcie_replays_sum)) AS replays,
    sum(toInt128(nvlink_errors_sum)) AS link_errors
FROM {gpu:Rows}
WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY gpu_model
ORDER BY gpus DESC
