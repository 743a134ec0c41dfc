-- Every alert of the range, also one that was open as it began (of the 367 days before its end): how bad, when it began, how long it lasted, what it came to.
-- rows: 2000
SELECT * EXCEPT (newest), count() OVER () AS alerts_known, countIf(transitions > 0) OVER () AS alerts_transitioned
FROM
(
    SELECT
        fingerprint,
        opened_ms,
        argMax(severity, number) AS worst,
        argMax(summary, number) AS said,
        argMax(rule, number) AS headline,
        min(since_ms) AS began_ms,
        argMax(tuple(resolved_ms), number).1 AS ended_ms,
        ended_ms - began_ms AS lasted_ms,
        countIf(at_ms >= {from_ms:Int64}) AS transitions,
        argMax(record, number) AS newest
    FROM
    (
        SELECT *
        FROM alerts FINAL
        WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
        ORDER BY log_offset DESC
        LIMIT 1 BY fingerprint, opened_ms, number
        UNION ALL
        SELECT *
        FROM {open_at_begin:Alerts}
    )
    GROUP BY fingerprint, opened_ms
)
WHERE ({cluster:String} = '' OR JSONExtractString(newest, 'labels', 'cluster') = {cluster:String})
    AND ({host:String} = '' OR JSONExtractString(newest, 'labels', 'host') = {host:String})
    AND ({model:String} = '' OR JSONExtractString(newest, 'labels', 'model') = {model:String})
    AND ({tenant:String} = '' OR JSONExtractString(newest, 'labels', 'tenant') = {tenant:String})
ORDER BY opened_ms DESC, fingerprint
LIMIT 1000
