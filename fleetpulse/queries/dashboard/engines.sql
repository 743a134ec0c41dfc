-- Engines of a range whose name, host or model holds a text: how full they were, and what they served, all models of an engine together.
-- param search: the text, upper or lower case; the one that is called just so stands first
-- param top: how many at most
-- reads engines: engine.samples 10s <= 10m, 1m <= 6h, 1h <= 30d, 1d
-- rows: 1000
WITH arraySum(mapValues(maxMap(windows_ms))) AS covered_ms
SELECT
    engine_id,
    any(of_host) AS a_host,
    argMax(model, (last_ms, model)) AS a_model,
    argMax(of_version, (last_ms, model)) AS a_version,
    argMax(of_precision, (last_ms, model)) AS a_precision,
    any(of_kind) AS a_kind,
    sum(toFloat64(mean_running) * arraySum(mapValues(windows_ms))) / nullIf(covered_ms, 0) AS running,
    max(most_waiting) AS waiting,
    max(most_kv) / 1000000 AS kv_used,
    1000 * sum(toInt128(tokens)) / nullIf(covered_ms, 0) AS tokens_per_s,
    max(last_ms) AS heard_ms,
    count() OVER () AS engines
FROM
(
    SELECT
        engine_id,
        model,
        any(host) AS of_host,
        any(engine_kind) AS of_kind,
        argMax(model_version, last_at_ms) AS of_version,
        argMax(precision, last_at_ms) AS of_precision,
        max(last_at_ms) AS last_ms,
        sum(toInt128(running_sum)) / nullIf(sum(running_count), 0) AS mean_running,
        max(waiting_max) AS most_waiting,
        max(kv_used_ppm_max) AS most_kv,
        sum(toInt128(generation_tokens_sum)) AS tokens,
        sumMap(map(window_ms, assumeNotNull(interval_ms_sum))) AS windows_ms
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
    GROUP BY engine_id, model
)
GROUP BY engine_id
ORDER BY engine_id = {search:String} DESC, engine_id
LIMIT {top:UInt32}
