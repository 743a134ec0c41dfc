-- What happened to engines up to the end of a range, the newest first; before its start, the last that is known.
-- rows: 200
SELECT at_ms, kind, engine_id, host, model, model_version, precision, engine_kind, engine_version, context_tokens_max,
    tensor_parallel, load_ms, parameters, active_parameters, weight_bytes, kv_cache_bytes, kv_cache_tokens, gpu_uuids,
    message
FROM engine_events FINAL
WHERE at_ms < {to_ms:Int64} AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
    AND verdict = 'accepted'
    AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
    AND ({host:String} = '' OR host = {host:String})
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({model:String} = '' OR model = {model:String})
ORDER BY at_ms DESC, engine_id
LIMIT 200
