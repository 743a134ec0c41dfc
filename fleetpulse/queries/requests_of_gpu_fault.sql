-- Whom faults of GPUs hit, and for what money.
-- Requests of the GPU's engine that were open from the fault until the engine answered well again (view fault_impact),
-- and what the engine was billed for these minutes; null where something in it had no price. Failed are those that were
-- lost with the engine.
WITH
    faults AS (SELECT * FROM fault_impact(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64})),
    bills AS (
        SELECT minute_ms, owner, total_nusd
        FROM costs
        WHERE minute_ms > {from_ms:Int64} - 60000 AND minute_ms < {to_ms:Int64} + 900000 AND use = 'engine'
    ),
    spent AS (
        SELECT f.fault_ms AS began_ms, f.engine_id AS engine,
            if(countIf(b.total_nusd IS NULL) = 0, sum(toInt128(b.total_nusd)), NULL) AS nusd
        FROM faults AS f
        INNER JOIN bills AS b ON f.engine_id = b.owner
        WHERE b.minute_ms > f.fault_ms - 60000 AND b.minute_ms <= f.until_ms
        GROUP BY began_ms, engine
    )
SELECT
    f.fault AS fault,
    f.host AS host,
    arrayStringConcat(f.gpu_uuids, ', ') AS gpu_uuid,
    arrayStringConcat(f.kinds, ', ') AS kind,
    f.codes AS codes,
    f.events AS events,
    f.engine_id AS engine,
    (f.recovered_ms - f.fault_ms) / 1000 AS recovered_after_s,
    f.requests AS requests,
    f.failed AS failed,
    f.other_failed AS other_failed,
    f.aborted AS aborted,
    f.client_fault AS client_fault,
    f.tenants AS tenants,
    f.most_of_them AS most_of_them,
    f.input_tokens AS input_tokens,
    f.output_tokens AS output_tokens,
    s.nusd / 1e9 AS dollars
FROM faults AS f
LEFT JOIN spent AS s ON f.fault_ms = s.began_ms AND f.engine_id = s.engine
ORDER BY failed DESC, requests DESC, fault, engine, gpu_uuid
LIMIT 50
