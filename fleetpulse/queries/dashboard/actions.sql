-- What people did: silences, and runs that change stored results.
-- rows: 1000
SELECT at_ms, done_by, action, about, reason, until_ms, action_id
FROM actions FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
ORDER BY at_ms DESC, log_offset DESC
LIMIT 1000
