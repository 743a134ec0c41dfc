-- Requests that faults of GPUs lost, one by one: of which fault, whose, when they began and ended, what had been generated.
-- What `requests_of_gpu_fault` counts as failed (view fault_impact).
SELECT
    f.fault AS fault,
    arrayStringConcat(f.gpu_uuids, ', ') AS gpu_uuid,
    arrayStringConcat(f.kinds, ', ') AS kind,
    f.codes AS codes,
    f.engine_id AS engine,
    r.request_id AS request_id,
    r.tenant AS tenant,
    r.model AS model,
    r.error_kind AS error_kind,
    fromUnixTimestamp64Milli(r.began_ms, 'UTC') AS began,
    fromUnixTimestamp64Milli(r.at_ms, 'UTC') AS ended,
    r.output_tokens AS output_tokens,
    r.trace_id AS trace_id
FROM fault_impact(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}) AS f
ARRAY JOIN f.lost AS r
WHERE ({model:String} = '' OR r.model = {model:String}) AND ({tenant:String} = '' OR r.tenant = {tenant:String})
ORDER BY fault, r.at_ms, request_id
LIMIT 1000
