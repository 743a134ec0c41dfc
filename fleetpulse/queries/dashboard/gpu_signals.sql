-- One GPU over time: all readings, gauges as means, counters as sums.
-- param gpu_uuid: the GPU
-- reads gpu: gpu.history 10s <= 10m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    sum(util_gpu_pct_sum) / nullIf(sum(util_gpu_pct_count), 0) / 100 AS busy,
    sum(util_memory_pct_sum) / nullIf(sum(util_memory_pct_count), 0) / 100 AS memory_busy,
    sum(toInt128(sm_active_ppm_sum)) / nullIf(sum(sm_active_ppm_count), 0) / 1000000 AS sm_active,
    sum(toInt128(tensor_active_ppm_sum)) / nullIf(sum(tensor_active_ppm_count), 0) / 1000000 AS tensor_active,
    sum(toInt128(dram_active_ppm_sum)) / nullIf(sum(dram_active_ppm_count), 0) / 1000000 AS dram_active,
    sum(toInt128(sm_occupancy_ppm_sum)) / nullIf(sum(sm_occupancy_ppm_count), 0) / 1000000 AS sm_occupancy,
    sum(toInt128(memory_used_bytes_sum)) / nullIf(sum(memory_used_bytes_count), 0) AS memory_used_bytes,
    max(memory_total_bytes_max) AS memory_total_bytes,
    sum(toInt128(power_mw_sum)) / nullIf(sum(power_mw_count), 0) / 1000 AS power_w,
    max(power_limit_mw_max) / 1000 AS power_limit_w,
    sum(temperature_c_sum) / nullIf(sum(temperature_c_count), 0) AS temperature_c,
    sum(temperature_memory_c_sum) / nullIf(sum(temperature_memory_c_count), 0) AS temperature_memory_c,
    sum(clock_sm_mhz_sum) / nullIf(sum(clock_sm_mhz_count), 0) AS clock_sm_mhz,
    sum(clock_memory_mhz_sum) / nullIf(sum(clock_memory_mhz_count), 0) AS clock_memory_mhz,
    sum(toInt128(throttled_us_sum))
        / nullIf(1000 * sumIf(toInt128(interval_ms_sum), throttled_us_sum IS NOT NULL), 0) AS throttled,
    sum(toInt128(throttled_fault_us_sum))
        / nullIf(1000 * sumIf(toInt128(interval_ms_sum), throttled_fault_us_sum IS NOT NULL), 0) AS throttled_fault,
    1000 * sum(toInt128(pcie_tx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS pcie_tx,
    1000 * sum(toInt128(pcie_rx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS pcie_rx,
    1000 * sum(toInt128(nvlink_tx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS nvlink_tx,
    1000 * sum(toInt128(nvlink_rx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS nvlink_rx,
    sum(toInt128(pcie_width_sum)) / nullIf(sum(pcie_width_count), 0) AS pcie_lanes,
    sum(toInt128(pcie_width_max_sum)) / nullIf(sum(pcie_width_max_count), 0) AS pcie_lanes_possible,
    sum(toInt128(pcie_generation_sum)) / nullIf(sum(pcie_generation_count), 0) AS pcie_gen,
    sum(toInt128(pcie_replays_sum)) AS replays,
    sum(toInt128(nvlink_errors_sum)) AS link_errors,
    sum(toInt128(energy_mj_sum)) / 1000 AS energy_j
FROM {gpu:Rows}
WHERE grouping = 'gpu' AND gpu_uuid = {gpu_uuid:String}
    AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY at_ms
ORDER BY at_ms
LIMIT 5000
