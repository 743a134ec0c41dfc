-- Every field of one request: by its id, else by that of its trace; the one nearest to a moment first.
-- param id: request id or trace id
-- param near_ms: the moment [ms]
-- rows: 20
SELECT *, count() OVER () AS matches
FROM llm_requests FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
    AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000) AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
    AND (request_id = {id:String} OR trace_id = {id:String})
ORDER BY request_id = {id:String} DESC, abs(at_ms - {near_ms:Int64}), at_ms
LIMIT 20
