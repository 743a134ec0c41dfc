-- Interfaces, RDMA ports, disks and NUMA nodes of a host over a range: what each moved, its errors, how full it is.
-- rows: 500
SELECT
    device_kind,
    device,
    1000 * sum(toInt128(tx_bytes)) / nullIf(sumIf(toInt128(interval_ms), tx_bytes IS NOT NULL), 0) AS sent_per_s,
    1000 * sum(toInt128(rx_bytes)) / nullIf(sumIf(toInt128(interval_ms), rx_bytes IS NOT NULL), 0) AS received_per_s,
    sum(toInt128(errors)) AS faults,
    1000 * sum(toInt128(read_bytes)) / nullIf(sumIf(toInt128(interval_ms), read_bytes IS NOT NULL), 0) AS read_per_s,
    1000 * sum(toInt128(write_bytes)) / nullIf(sumIf(toInt128(interval_ms), write_bytes IS NOT NULL), 0) AS written_per_s,
    sum(toInt128(busy_ms)) / nullIf(sumIf(toInt128(interval_ms), busy_ms IS NOT NULL), 0) AS disk_busy,
    argMax(used_bytes, at_ms) AS held_bytes,
    argMax(total_bytes, at_ms) AS size_bytes
FROM host_devices FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
    AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000) AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
    AND verdict = 'accepted' AND host = {host:String}
GROUP BY device_kind, device
ORDER BY ifNull(faults, 0) DESC, device_kind, device
LIMIT 500
