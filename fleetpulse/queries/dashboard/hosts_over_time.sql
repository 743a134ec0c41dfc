-- The busiest hosts over time: processors and the busiest, memory, network, retransmits, stalls.
-- param top: how many hosts
-- reads hosts: host.samples 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 12000
WITH busiest AS
(
    SELECT host
    FROM {hosts:Rows}
    WHERE grouping = 'host' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({host:String} = '' OR host = {host:String})
    GROUP BY host
    ORDER BY max(cpu_core_busy_max_ppm_max) DESC, sum(toInt128(cpu_busy_ppm_sum)) DESC, host
    LIMIT {top:UInt32}
)
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    host AS name,
    sum(toInt128(cpu_busy_ppm_sum)) / nullIf(sum(cpu_busy_ppm_count), 0) / 1000000 AS cpu_busy,
    max(cpu_core_busy_max_ppm_max) / 1000000 AS core_busy_max,
    sum(toInt128(cpu_pressure_ppm_sum)) / nullIf(sum(cpu_pressure_ppm_count), 0) / 1000000 AS cpu_pressure,
    sum(toInt128(memory_used_bytes_sum)) / nullIf(sum(toInt128(memory_total_bytes_sum)), 0) AS memory,
    1000 * sum(toInt128(network_tx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS network_tx,
    1000 * sum(toInt128(network_rx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS network_rx,
    sum(toInt128(tcp_retransmits_sum)) / nullIf(sum(toInt128(tcp_segments_out_sum)), 0) AS retransmitted
FROM {hosts:Rows}
WHERE grouping = 'host' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({host:String} = '' OR host = {host:String})
    AND host IN (busiest)
GROUP BY at_ms, name
ORDER BY at_ms, name
LIMIT 12000
