-- What happened to GPUs over a range, the newest first, and how often anything did.
-- param gpu_uuid: only this GPU; an empty text takes all
-- rows: 200
SELECT at_ms, severity, kind, code, host, gpu_uuid, message, action, count() OVER () AS faults
FROM gpu_events FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
    AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000) AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
    AND verdict = 'accepted'
    AND ({gpu_uuid:String} = '' OR gpu_uuid = {gpu_uuid:String})
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({host:String} = '' OR host = {host:String})
    AND ({gpu_model:String} = '' OR gpu_model = {gpu_model:String})
ORDER BY at_ms DESC, gpu_uuid
LIMIT 200
