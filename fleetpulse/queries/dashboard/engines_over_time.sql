-- The fullest engines over time: batch, queue, KV cache, generated tokens, all models of an engine together.
-- param top: how many engines
-- reads engines: engine.samples 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 12000
WITH fullest AS
(
    SELECT engine_id
    FROM {engines:Rows}
    WHERE grouping = 'engine_sample' AND engine_id IS NOT NULL AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({host:String} = '' OR host = {host:String})
        AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
        AND ({model:String} = '' OR model = {model:String})
    GROUP BY engine_id
    ORDER BY sum(toInt128(running_sum)) / nullIf(sum(running_count), 0) DESC, engine_id
    LIMIT {top:UInt32}
),
    arraySum(mapValues(maxMap(windows_ms))) AS covered_ms
SELECT
    at_ms,
    name,
    sum(running_total) / nullIf(arraySum(mapValues(maxMap(running_counts))), 0) AS running,
    sum(waiting_total) / nullIf(arraySum(mapValues(maxMap(waiting_counts))), 0) AS waiting,
    max(kv_share) AS kv_used,
    1000 * sum(generated) / nullIf(covered_ms, 0) AS generated_per_s
FROM
(
    SELECT
        intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
        engine_id AS name,
        model,
        sum(toInt128(running_sum)) AS running_total,
        sumMap(map(window_ms, running_count)) AS running_counts,
        sum(toInt128(waiting_sum)) AS waiting_total,
        sumMap(map(window_ms, waiting_count)) AS waiting_counts,
        sum(toInt128(kv_used_ppm_sum)) / nullIf(sum(kv_used_ppm_count), 0) / 1000000 AS kv_share,
        sum(toInt128(generation_tokens_sum)) AS generated,
        sumMap(map(window_ms, ifNull(interval_ms_sum, 0))) AS windows_ms
    FROM {engines:Rows}
    WHERE grouping = 'engine_sample' AND engine_id IS NOT NULL AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({host:String} = '' OR host = {host:String})
        AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
        AND ({model:String} = '' OR model = {model:String})
        AND engine_id IN (fullest)
    GROUP BY at_ms, name, model
)
GROUP BY at_ms, name
ORDER BY at_ms, name
LIMIT 12000
