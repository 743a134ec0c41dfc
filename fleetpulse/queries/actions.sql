-- What people did in a range: silences, and runs that change stored results; who, when, what and why.
SELECT
    fromUnixTimestamp64Milli(at_ms, 'UTC') AS at,
    done_by,
    action,
    about,
    reason,
    if(until_ms IS NULL, NULL, fromUnixTimestamp64Milli(assumeNotNull(until_ms), 'UTC')) AS until,
    action_id
FROM actions FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
ORDER BY at_ms DESC, log_offset DESC
LIMIT 10000
