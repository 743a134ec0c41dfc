-- GPUs whose links have errors, or fewer lanes than they could have, over a range; the worst first.
-- reads gpu: gpu.samples 10s <= 1h, 1m <= 1d, 1h
SELECT
    host,
    gpu_uuid,
    min(engine_id) AS an_engine,
    min(pcie_width_min) AS lanes_min,
    max(pcie_width_max_max) AS lanes_possible,
    max(pcie_generation_max) AS generation,
    sum(toInt128(pcie_replays_sum)) AS replays,
    sum(toInt128(nvlink_errors_sum)) AS link_errors
FROM {gpu:Rows}
WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY host, gpu_uuid
HAVING lanes_min < lanes_possible OR replays > 0 OR link_errors > 0
ORDER BY lanes_possible - lanes_min DESC, ifNull(link_errors, 0) + ifNull(replays, 0) DESC, host, gpu_uuid
LIMIT 100
