-- Processes that held GPU memory over a range, each as it was last, those with most memory first.
-- rows: 500
SELECT
    host,
    gpu_uuid,
    pid,
    any(engine_id) AS engine,
    any(workload) AS does,
    any(process_name) AS program,
    any(container_id) AS container,
    any(pod_uid) AS pod,
    argMax(memory_bytes, at_ms) AS held_bytes,
    max(memory_bytes) AS held_max_bytes,
    avg(sm_util_pct) / 100 AS sm_share,
    max(at_ms) AS heard_ms
FROM gpu_processes FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
    AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000) AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
    AND verdict = 'accepted'
    AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
    AND ({host:String} = '' OR host = {host:String})
GROUP BY host, gpu_uuid, pid
ORDER BY held_bytes DESC, host, gpu_uuid, pid
LIMIT 200
