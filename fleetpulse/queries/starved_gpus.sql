-- Engines whose GPUs starve for a processor core over a range, and for how long.
-- Requests wait (more than four), the GPUs are utilized less than half, one thread of the engine's processes is above 90 % of a core:
-- by the minute, as rule gpu_starved_by_core; beyond 7 days by the hour. `of_waiting_pct` is of the time in which they waited.
-- reads gpu: gpu.samples 1m <= 7d, 1h
-- reads engines: engine.samples 1m <= 7d, 1h
-- reads processes: host.processes 1m <= 7d, 1h
SELECT
    engine_id,
    min(of_host) AS a_host,
    round(sumIf(width_ms, starved) / 1000) AS starved_s,
    round(100 * sumIf(width_ms, starved) / sum(width_ms), 1) AS of_waiting_pct,
    round(sumIf(util_sum, starved) / sumIf(util_count, starved), 1) AS util_pct,
    round(sumIf(waiting_sum, starved) / sumIf(waiting_count, starved), 1) AS waiting,
    round(maxIf(thread_ppm, starved) / 10000, 1) AS busiest_thread_pct
FROM
(
    SELECT
        window_ms,
        width_ms,
        engine_id,
        min(host) AS of_host,
        sum(util_total) AS util_sum,
        sum(util_known) AS util_count,
        sum(waiting_total) AS waiting_sum,
        sum(waiting_known) AS waiting_count,
        max(thread_max) AS thread_ppm,
        ifNull(util_sum / nullIf(util_count, 0) < 50 AND thread_ppm > 900000, false) AS starved
    FROM
    (
        SELECT window_ms, width_ms, engine_id, host, toInt128(ifNull(util_gpu_pct_sum, 0)) AS util_total,
            toInt64(util_gpu_pct_count) AS util_known, toInt128(0) AS waiting_total, toInt64(0) AS waiting_known,
            toInt64(-1) AS thread_max
        FROM {gpu:Rows}
        WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            AND engine_id IS NOT NULL
        UNION ALL
        SELECT window_ms, width_ms, engine_id, host, 0, 0, toInt128(ifNull(waiting_sum, 0)), toInt64(waiting_count), -1
        FROM {engines:Rows}
        WHERE grouping = 'engine_sample' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            AND engine_id IS NOT NULL
        UNION ALL
        SELECT window_ms, width_ms, engine_id, host, 0, 0, 0, 0, ifNull(cpu_thread_max_ppm_max, -1)
        FROM {processes:Rows}
        WHERE grouping = 'process' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            AND engine_id IS NOT NULL
    )
    GROUP BY window_ms, width_ms, engine_id
    HAVING waiting_sum > 4 * waiting_count
)
GROUP BY engine_id
HAVING starved_s > 0
ORDER BY starved_s DESC, engine_id
LIMIT 100
