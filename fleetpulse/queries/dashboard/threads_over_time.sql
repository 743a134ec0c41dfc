-- Engines whose processes have the busiest threads, over time: one that is always at work starves the engine's GPUs.
-- param top: how many engines
-- reads processes: host.processes 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 12000
WITH busiest AS
(
    SELECT engine_id
    FROM {processes:Rows}
    WHERE grouping = 'process' AND engine_id IS NOT NULL AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({host:String} = '' OR host = {host:String})
        AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
    GROUP BY engine_id
    ORDER BY max(cpu_thread_max_ppm_max) DESC, engine_id
    LIMIT {top:UInt32}
)
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    engine_id AS name,
    max(cpu_thread_max_ppm_max) / 1000000 AS busiest_thread
FROM {processes:Rows}
WHERE grouping = 'process' AND engine_id IS NOT NULL AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({host:String} = '' OR host = {host:String})
    AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
    AND engine_id IN (busiest)
GROUP BY at_ms, name
ORDER BY at_ms, name
LIMIT 12000
