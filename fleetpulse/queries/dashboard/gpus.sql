-- GPUs of a range whose UUID, host or engine holds a text.
-- param search: the text, upper or lower case
-- param top: how many at most
-- reads gpu: gpu.samples 10s <= 15m, 1m <= 2h, 1h <= 30d, 1d
-- rows: 1000
-- seconds: 10
SELECT
    host,
    gpu_uuid,
    any(gpu_model) AS a_model,
    argMax(engine_id, last_at_ms) AS engine,
    sum(util_gpu_pct_sum) / nullIf(sum(util_gpu_pct_count), 0) / 100 AS busy,
    max(temperature_c_max) AS temperature_max_c,
    max(last_at_ms) AS heard_ms,
    count() OVER () AS gpus
FROM {gpu:Identifier} FINAL
WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND (positionCaseInsensitiveUTF8(gpu_uuid, {search:String}) > 0
        OR positionCaseInsensitiveUTF8(host, {search:String}) > 0
        OR positionCaseInsensitiveUTF8(ifNull(engine_id, ''), {search:String}) > 0)
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({host:String} = '' OR host = {host:String})
    AND ({gpu_model:String} = '' OR gpu_model = {gpu_model:String})
GROUP BY host, gpu_uuid
ORDER BY host, gpu_uuid
LIMIT {top:UInt32}
