-- One host over time: processors and the busiest, memory, disks, network, RDMA.
-- reads hosts: host.samples 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    sum(toInt128(cpu_busy_ppm_sum)) / nullIf(sum(cpu_busy_ppm_count), 0) / 1000000 AS cpu_busy,
    max(cpu_core_busy_max_ppm_max) / 1000000 AS core_busy_max,
    sum(toInt128(cpu_iowait_ppm_sum)) / nullIf(sum(cpu_iowait_ppm_count), 0) / 1000000 AS cpu_iowait,
    sum(toInt128(load_1m_milli_sum)) / nullIf(sum(load_1m_milli_count), 0) / 1000 AS load_1m,
    max(processors_max) AS processors,
    sum(toInt128(memory_used_bytes_sum)) / nullIf(sum(memory_used_bytes_count), 0) AS memory_used_bytes,
    max(memory_total_bytes_max) AS memory_total_bytes,
    sum(toInt128(swap_used_bytes_sum)) / nullIf(sum(swap_used_bytes_count), 0) AS swap_used_bytes,
    sum(toInt128(cpu_pressure_ppm_sum)) / nullIf(sum(cpu_pressure_ppm_count), 0) / 1000000 AS cpu_pressure,
    sum(toInt128(memory_pressure_ppm_sum)) / nullIf(sum(memory_pressure_ppm_count), 0) / 1000000 AS memory_pressure,
    sum(toInt128(io_pressure_ppm_sum)) / nullIf(sum(io_pressure_ppm_count), 0) / 1000000 AS io_pressure,
    sum(toInt128(disk_queue_milli_sum)) / nullIf(sum(disk_queue_milli_count), 0) / 1000 AS disk_queue,
    1000 * sum(toInt128(disk_read_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS disk_read,
    1000 * sum(toInt128(disk_write_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS disk_write,
    1000 * sum(toInt128(network_tx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS network_tx,
    1000 * sum(toInt128(network_rx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS network_rx,
    sum(toInt128(network_errors_sum)) AS network_faults,
    sum(toInt128(tcp_retransmits_sum)) / nullIf(sum(toInt128(tcp_segments_out_sum)), 0) AS retransmitted,
    1000 * sum(toInt128(rdma_tx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS rdma_tx,
    1000 * sum(toInt128(rdma_rx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS rdma_rx,
    sum(toInt128(rdma_errors_sum)) AS rdma_faults
FROM {hosts:Rows}
WHERE grouping = 'host' AND host = {host:String}
    AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY at_ms
ORDER BY at_ms
LIMIT 5000
