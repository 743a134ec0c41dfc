-- Single requests, the newest first; with an id or a trace id only those.
-- param id: request id or trace id; an empty text takes all
-- param failed: 1 takes only those that were not answered in full
-- param top: how many at most
-- rows: 1000
SELECT
    at_ms, request_id, model, tenant, status, error_kind, ttft_us, tpot_us, e2e_us, input_tokens, output_tokens, engine_id
FROM llm_requests FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
    AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000) AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
    AND verdict = 'accepted'
    AND ({id:String} = '' OR request_id = {id:String} OR trace_id = {id:String})
    AND ({failed:UInt8} = 0 OR NOT {ok:End})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
    AND ({status:String} = '' OR status = {status:String})
    AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
    AND ({host:String} = '' OR host = {host:String})
ORDER BY at_ms DESC, request_id
LIMIT {top:UInt32}
