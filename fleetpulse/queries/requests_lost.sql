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
INNER JOIN
(
    SELECT engine_id, at_ms, at_ms - intDiv(ifNull(e2e_us, 0), 1000) AS began_ms, request_id, tenant, model, error_kind,
        output_tokens, trace_id
    FROM llm_requests FINAL
    WHERE intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000)
        AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64} + 900000, 60000)
        AND verdict = 'accepted' AND error_kind IN ('engine_lost', 'network')
        AND ({model:String} = '' OR model = {model:String}) AND ({tenant:String} = '' OR tenant = {tenant:String})
) AS r ON f.engine_id = r.engine_id
WHERE r.at_ms >= f.fault_ms AND r.at_ms < f.fault_ms + 900000
    AND r.began_ms < ifNull(f.recovered_ms, f.fault_ms + 900000)
ORDER BY fault, r.at_ms, request_id
LIMIT 1000
