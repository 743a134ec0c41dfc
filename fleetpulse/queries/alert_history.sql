-- Every alert of a range, also one that was open as it began (of the 367 days before its end): how bad it was, when it began, how long it lasted, what it came to.
SELECT
    argMax(severity, number) AS worst,
    min(since) AS began,
    min(opened) AS first_told,
    round((argMax(tuple(resolved_ms), number).1 - min(since_ms)) / 1000) AS lasted_s,
    argMax(rule, number) AS headline,
    argMax(summary, number) AS said,
    argMax(labels, number) AS about,
    max(members) AS members_max,
    countIf(at_ms >= {from_ms:Int64}) AS transitions,
    fingerprint
FROM (
    SELECT * FROM alert_history WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
    UNION ALL
    SELECT * FROM (
        SELECT *
        FROM alert_history
        WHERE at_ms >= {to_ms:Int64} - {kept:Alerts} AND at_ms < {from_ms:Int64}
        ORDER BY opened_ms DESC, at_ms DESC, number DESC
        LIMIT 1 BY fingerprint
    )
    WHERE transition != 'resolved'
)
GROUP BY fingerprint, opened_ms
ORDER BY began, fingerprint
