-- The newest transitions of one alert; the first row is its newest state.
-- param fingerprint: of the alert, 16 hex digits
-- param kept_ms: how far back before the end of the range to look [ms]
-- rows: 100
SELECT at_ms, opened_ms, number, transition, severity, rule, summary, record
FROM alerts FINAL
WHERE at_ms >= {to_ms:Int64} - {kept_ms:Int64} AND at_ms < {to_ms:Int64} AND fingerprint = {fingerprint:String}
ORDER BY opened_ms DESC, at_ms DESC, number DESC, log_offset DESC
LIMIT 1 BY opened_ms, number
LIMIT 50
