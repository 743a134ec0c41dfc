-- Whom faults of GPUs touched, and for what money.
-- Requests of the GPU's engine from a minute before the fault to five minutes after, and what the engine was billed for
-- these minutes; null where something in it had no price.
WITH
    faults AS (
        SELECT gpu_uuid, kind, min(window_ms) AS fault_ms, sum(event_count) AS events
        FROM gpu_event_windows
        WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND severity != 'info'
        GROUP BY gpu_uuid, kind
    ),
    engines AS (
        SELECT gpu_uuid, argMax(engine_id, window_ms) AS serving
        FROM gpu_windows
        WHERE window_ms >= {from_ms:Int64} - 300000 AND window_ms < {to_ms:Int64} AND engine_id IS NOT NULL
        GROUP BY gpu_uuid
    ),
    requests AS (
        SELECT at_ms, engine_id, tenant, status, input_tokens, output_tokens
        FROM llm_requests FINAL
        WHERE at_ms >= {from_ms:Int64} - 60000 AND at_ms < {to_ms:Int64} + 300000 AND verdict = 'accepted'
    ),
    bills AS (
        SELECT minute_ms, owner, total_nusd
        FROM costs
        WHERE minute_ms >= {from_ms:Int64} - 120000 AND minute_ms < {to_ms:Int64} + 300000 AND use = 'engine'
    ),
    spent AS (
        SELECT f.gpu_uuid AS uuid, f.kind AS fault_kind,
            if(countIf(b.total_nusd IS NULL) = 0, sum(toInt128(b.total_nusd)), NULL) AS nusd
        FROM faults AS f
        INNER JOIN engines AS e ON f.gpu_uuid = e.gpu_uuid
        INNER JOIN bills AS b ON e.serving = b.owner
        WHERE b.minute_ms > f.fault_ms - 120000 AND b.minute_ms < f.fault_ms + 300000
        GROUP BY uuid, fault_kind
    )
SELECT
    f.gpu_uuid AS gpu_uuid,
    f.kind AS kind,
    fromUnixTimestamp64Milli(any(f.fault_ms), 'UTC') AS fault,
    any(f.events) AS events,
    e.serving AS engine,
    count() AS requests,
    countIf(r.status != 'ok') AS failed,
    uniqExact(r.tenant) AS tenants,
    topK(5)(r.tenant) AS most_of_them,
    sum(r.input_tokens) AS input_tokens,
    sum(r.output_tokens) AS output_tokens,
    any(s.nusd) / 1e9 AS dollars
FROM faults AS f
INNER JOIN engines AS e ON f.gpu_uuid = e.gpu_uuid
INNER JOIN requests AS r ON e.serving = r.engine_id
LEFT JOIN spent AS s ON f.gpu_uuid = s.uuid AND f.kind = s.fault_kind
WHERE r.at_ms >= f.fault_ms - 60000 AND r.at_ms < f.fault_ms + 300000
GROUP BY f.gpu_uuid, f.kind, e.serving
ORDER BY failed DESC, requests DESC
LIMIT 50
