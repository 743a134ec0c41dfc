-- Memory of each GPU of an engine as it was last: in use, by holder, and what the engine reserved of it.
-- Its own processes and others are those of the last reading of the GPU; weights and KV cache are what the engine said
-- of itself, an equal part on each of its GPUs. Null: not known.
-- reads gpu: gpu.samples 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 1024
WITH
    said AS (
        SELECT weight_bytes, kv_cache_bytes, CAST(model, 'Nullable(String)') AS named,
            CAST(precision, 'Nullable(String)') AS width, splitByChar(',', ifNull(gpu_uuids, '')) AS uuids
        FROM engine_events FINAL
        WHERE at_ms < {to_ms:Int64} AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
            AND verdict = 'accepted' AND engine_id = {engine_id:String} AND kind NOT IN ('marked', 'lost')
        ORDER BY at_ms DESC, boot DESC, seq DESC, row DESC
        LIMIT 1
    ),
    gpus AS (
        SELECT
            gpu_uuid,
            any(gpu_model) AS gpu_type,
            any(host) AS a_host,
            argMax(memory_used_bytes_last, last_at_ms) AS used_bytes,
            max(memory_total_bytes_max) AS total_bytes,
            count() OVER () AS of_gpus
        FROM {gpu:Rows}
        WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            AND (engine_id = {engine_id:String} OR gpu_uuid IN (SELECT arrayJoin(uuids) FROM said WHERE uuids != ['']))
        GROUP BY gpu_uuid
    ),
    processes AS (
        SELECT gpu_uuid, at_ms, engine_id, memory_bytes, max(at_ms) OVER (PARTITION BY gpu_uuid) AS newest_ms
        FROM gpu_processes FINAL
        WHERE at_ms >= greatest({from_ms:Int64}, {to_ms:Int64} - 900000) AND at_ms < {to_ms:Int64}
            AND intDiv(at_ms, 60000) >= intDiv(greatest({from_ms:Int64}, {to_ms:Int64} - 900000), 60000)
            AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
            AND verdict = 'accepted' AND gpu_uuid IN (SELECT gpu_uuid FROM gpus)
    ),
    held AS (
        SELECT
            gpu_uuid,
            toNullable(sumIf(toInt128(ifNull(memory_bytes, 0)), ifNull(engine_id, '') = {engine_id:String})) AS own,
            toNullable(sumIf(toInt128(ifNull(memory_bytes, 0)), ifNull(engine_id, '') != {engine_id:String})) AS others,
            countIf(memory_bytes IS NULL) AS unknown
        FROM processes
        WHERE at_ms = newest_ms
        GROUP BY gpu_uuid
    )
SELECT
    g.gpu_uuid AS gpu_uuid,
    g.gpu_type AS gpu_type,
    g.a_host AS a_host,
    (SELECT named FROM said) AS a_model,
    (SELECT width FROM said) AS a_precision,
    g.of_gpus AS of_gpus,
    toInt64(g.total_bytes) AS total_bytes,
    toInt64(g.used_bytes) AS used_bytes,
    if(h.unknown = 0, h.own, NULL) AS engine_bytes,
    toInt64(intDiv((SELECT weight_bytes FROM said), g.of_gpus)) AS weight_bytes,
    toInt64(intDiv((SELECT kv_cache_bytes FROM said), g.of_gpus)) AS kv_cache_bytes,
    if(engine_bytes < weight_bytes + kv_cache_bytes, NULL, engine_bytes - weight_bytes - kv_cache_bytes) AS rest_bytes,
    if(h.unknown = 0, h.others, NULL) AS others_bytes,
    used_bytes - engine_bytes - others_bytes AS left_bytes,
    if(left_bytes < 0, 0, left_bytes) AS unattributed_bytes,
    total_bytes - used_bytes AS free_bytes
FROM gpus AS g
LEFT JOIN held AS h ON g.gpu_uuid = h.gpu_uuid
ORDER BY gpu_uuid
LIMIT 1024
SETTINGS join_use_nulls = 1
