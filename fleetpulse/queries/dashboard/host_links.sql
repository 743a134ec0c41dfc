-- Links of a host's GPUs over a range: PCIe lanes, generation, bytes and replays; NVLink's bytes and errors.
-- reads gpu: gpu.samples 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 500
SELECT
    host,
    gpu_uuid,
    min(pcie_width_min) AS lanes_min,
    max(pcie_width_max_max) AS lanes_possible,
    max(pcie_generation_max) AS generation,
    1000 * sum(toInt128(pcie_tx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS pcie_sent_per_s,
    1000 * sum(toInt128(pcie_rx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS pcie_received_per_s,
    sum(toInt128(pcie_replays_sum)) AS replays,
    1000 * sum(toInt128(nvlink_tx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS nvlink_sent_per_s,
    1000 * sum(toInt128(nvlink_rx_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS nvlink_received_per_s,
    sum(toInt128(nvlink_errors_sum)) AS link_errors
FROM {gpu:Rows}
WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND host = {host:String}
GROUP BY host, gpu_uuid
ORDER BY ifNull(link_errors, 0) + ifNull(replays, 0) DESC, gpu_uuid
LIMIT 500
