-- Engines of a range whose name, host or model holds a text: how full they were, and what they served.
-- param search: the text, upper or lower case
-- param top: how many at most
-- reads engines: engine.samples 10s <= 10m, 1m <= 6h, 1h <= 30d, 1d
-- rows: 1000
SELECT
    engine_id,
    any(host) AS a_host,
    argMax(model, last_at_ms) AS a_model,
    argMax(model_version, last_at_ms) AS a_version,
    argMax(precision, last_at_ms) AS a_precision,
    any(engine_kind) AS a_kind,
    sum(toInt128(running_sum)) / nullIf(sum(running_count), 0) AS running,
    max(waiting_max) AS waiting,
    max(kv_used_ppm_max) / 1000000 AS kv_used,
    1000 * uniq(ifNull(model, '')) * sum(toInt128(generation_tokens_sum)) / nullIf(sum(toInt128(interval_ms_sum)), 0)
        AS tokens_per_s,
    max(last_at_ms) AS heard_ms,
    count() OVER () AS engines
FROM {engines:Rows}
WHERE grouping = 'engine_sample' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND engine_id IS NOT NULL
    AND (positionCaseInsensitiveUTF8(engine_id, {search:String}) > 0
        OR positionCaseInsensitiveUTF8(ifNull(host, ''), {search:String}) > 0
        OR positionCaseInsensitiveUTF8(ifNull(model, ''), {search:String}) > 0)
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({host:String} = '' OR host = {host:String})
    AND ({model:String} = '' OR model = {model:String})
GROUP BY engine_id
ORDER BY engine_id
LIMIT {top:UInt32}
