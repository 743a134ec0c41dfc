-- Alerts that are open at the end of the range, each in its newest state, the worst first, then the newest.
-- Every row says how many there are in all, with those that have no row here. Which are open is read from narrow columns,
-- their records of these alone: a year of transitions is little then.
-- param kept_ms: how far back before the end an alert may have been published last [ms]
-- rows: 2000
SELECT
    fingerprint,
    severity,
    summary,
    rule,
    since_ms,
    opened_ms,
    at_ms,
    number,
    JSONExtract(record, 'muted_until_ms', 'Nullable(Int64)') AS muted_until_ms,
    ifNull(muted_until_ms > {to_ms:Int64}, false) AS muted,
    JSONLength(record, 'members') AS members,
    JSONExtractString(record, 'labels', 'host') AS host,
    JSONExtractString(record, 'labels', 'model') AS model,
    JSONExtractString(record, 'labels', 'gpu_uuid') AS gpu_uuid,
    countIf(severity = 'critical' AND NOT muted) OVER () AS critical_alerts,
    countIf(severity = 'warning' AND NOT muted) OVER () AS warning_alerts,
    countIf(severity = 'info' AND NOT muted) OVER () AS info_alerts,
    countIf(muted) OVER () AS silenced_alerts
FROM {open_at_end:Alerts}
WHERE ({cluster:String} = '' OR JSONExtractString(record, 'labels', 'cluster') = {cluster:String})
    AND ({host:String} = '' OR host = {host:String})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR JSONExtractString(record, 'labels', 'tenant') = {tenant:String})
ORDER BY indexOf(['critical', 'warning', 'info'], severity), opened_ms DESC, fingerprint
LIMIT 1000
