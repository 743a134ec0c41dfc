-- Every field of one request.
-- param id: request id or trace id
-- rows: 20
SELECT *
FROM llm_requests FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
    AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000) AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
    AND (request_id = {id:String} OR trace_id = {id:String})
ORDER BY at_ms
LIMIT 20
