-- Every host that was measured (not simulated) over a range.
-- reads hosts: host.samples 10s <= 1h, 1m <= 1d, 1h
SELECT
    host,
    round(sum(toInt128(cpu_busy_ppm_sum)) / nullIf(sum(cpu_busy_ppm_count), 0) / 10000, 1) AS cpu_pct,
    round(max(cpu_core_busy_max_ppm_max) / 10000, 1) AS busiest_core_pct,
    round(sum(toInt128(load_1m_milli_sum)) / nullIf(sum(load_1m_milli_count), 0) / 1000, 2) AS load_1m,
    round(max(memory_used_bytes_max) / 1e9, 2) AS memory_used_max_gb,
    round(sum(toInt128(network_tx_bytes_sum)) / 1e6, 2) AS network_tx_mb,
    round(100 * sum(toInt128(tcp_retransmits_sum)) / nullIf(sum(toInt128(tcp_segments_out_sum)), 0), 2) AS retransmits_pct,
    round(sum(toInt128(rdma_tx_bytes_sum)) / 1e6, 2) AS rdma_tx_mb,
    sum(toInt128(rdma_errors_sum)) AS rdma_faults,
    round(sum(toInt128(disk_write_bytes_sum)) / 1e6, 2) AS disk_write_mb
FROM {hosts:Rows}
WHERE grouping = 'host' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND origin = 'measured'
GROUP BY host
ORDER BY host
