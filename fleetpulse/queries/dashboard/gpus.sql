-- GPUs and MIG devices of a range whose UUID, host or engine holds a text.
-- Which there are is looked up by labels alone; what they did is read for those that are shown.
-- param search: the text, upper or lower case
-- param top: how many at most
-- reads seen: gpu.samples 1m <= 1m, 1h <= 30d, 1d
-- reads gpu: gpu.samples 10s <= 5m, 1m <= 2h, 1h <= 30d, 1d
-- rows: 1000
WITH
    listed AS
    (
        SELECT
            host,
            gpu_uuid,
            any(gpu_model) AS of_model,
            any(parent_uuid) AS of_whole,
            argMax(engine_id, last_at_ms) AS of_engine,
            max(last_at_ms) AS newest_ms,
            count() OVER () AS of_gpus
        FROM {seen:Seen}
        WHERE grouping = 'gpu'
            AND ({search:String} = ''
                OR positionCaseInsensitiveUTF8(gpu_uuid, {search:String}) > 0
                OR positionCaseInsensitiveUTF8(host, {search:String}) > 0
                OR positionCaseInsensitiveUTF8(ifNull(engine_id, ''), {search:String}) > 0)
            AND ({cluster:String} = '' OR cluster = {cluster:String})
            AND ({host:String} = '' OR host = {host:String})
            AND ({gpu_model:String} = '' OR gpu_model = {gpu_model:String})
        GROUP BY host, gpu_uuid
        HAVING newest_ms >= {from_ms:Int64}
        ORDER BY host, gpu_uuid
        LIMIT {top:UInt32}
    ),
    did AS
    (
        SELECT
            host,
            gpu_uuid,
            sum(util_gpu_pct_sum) / nullIf(sum(util_gpu_pct_count), 0) / 100 AS busy,
            max(temperature_c_max) AS temperature_max_c
        FROM {gpu:Rows}
        WHERE gpu_uuid IN (SELECT gpu_uuid FROM listed) AND grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        GROUP BY host, gpu_uuid
    )
SELECT
    listed.host AS host,
    listed.gpu_uuid AS gpu_uuid,
    of_model AS a_model,
    of_whole AS part_of_gpu,
    of_engine AS engine,
    busy,
    temperature_max_c,
    newest_ms AS heard_ms,
    of_gpus AS gpus
FROM listed
LEFT JOIN did ON did.host IS NOT DISTINCT FROM listed.host AND did.gpu_uuid IS NOT DISTINCT FROM listed.gpu_uuid
ORDER BY host, gpu_uuid
