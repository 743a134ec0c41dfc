-- Processes of engines and jobs over a range: which use processors most, and whether one thread bounds them.
-- reads processes: host.processes 10s <= 1h, 1m <= 1d, 1h
SELECT
    host,
    engine_id,
    process_name,
    workload,
    round(sum(toInt128(cpu_ppm_sum)) / nullIf(sum(cpu_ppm_count), 0) / 1e6, 2) AS processors_used,
    round(max(cpu_thread_max_ppm_max) / 10000, 1) AS busiest_thread_pct,
    round(max(memory_rss_bytes_max) / 1e9, 2) AS memory_max_gb,
    round(sum(toInt128(read_bytes_sum)) / 1e6, 2) AS read_mb,
    round(sum(toInt128(write_bytes_sum)) / 1e6, 2) AS write_mb
FROM {processes:Rows}
WHERE grouping = 'process' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY host, engine_id, process_name, workload
ORDER BY processors_used DESC, host, engine_id, process_name, workload
LIMIT 100
