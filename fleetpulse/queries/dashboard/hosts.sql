-- Hosts of a range whose name holds a text: how busy they were.
-- param search: the text, upper or lower case
-- param top: how many at most
-- reads hosts: host.samples 10s <= 10m, 1m <= 6h, 1h <= 30d, 1d
-- rows: 1000
SELECT
    host,
    any(cluster) AS a_cluster,
    any(region) AS a_region,
    sum(toInt128(cpu_busy_ppm_sum)) / nullIf(sum(cpu_busy_ppm_count), 0) / 1000000 AS cpu_busy,
    sum(toInt128(memory_used_bytes_sum)) / nullIf(sum(toInt128(memory_total_bytes_sum)), 0) AS memory,
    1000 * sum(toInt128(network_tx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS sent,
    1000 * sum(toInt128(network_rx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS received,
    sum(network_errors_sum) AS network_faults,
    max(last_at_ms) AS heard_ms,
    count() OVER () AS hosts
FROM {hosts:Rows}
WHERE grouping = 'host' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND positionCaseInsensitiveUTF8(ifNull(host, ''), {search:String}) > 0
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
GROUP BY host
ORDER BY host
LIMIT {top:UInt32}
