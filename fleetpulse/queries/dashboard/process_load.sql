-- Processes of engines and jobs over a range: processors they used, whether one thread bounds them, memory, disks.
-- reads processes: host.processes 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 500
SELECT
    host,
    engine_id,
    process_name,
    any(workload) AS does,
    sum(toInt128(cpu_ppm_sum)) / nullIf(sum(cpu_ppm_count), 0) / 1000000 AS cores,
    max(cpu_thread_max_ppm_max) / 1000000 AS busiest_thread,
    max(memory_rss_bytes_max) AS memory_max_bytes,
    1000 * sum(toInt128(read_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS read_per_s,
    1000 * sum(toInt128(write_bytes_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0) AS write_per_s
FROM {processes:Rows}
WHERE grouping = 'process' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
    AND ({host:String} = '' OR host = {host:String})
GROUP BY host, engine_id, process_name
ORDER BY cores DESC, host, engine_id, process_name
LIMIT 200
