-- Every alert of a range: how bad it was, when it began, how long it lasted, what it came to.
SELECT
    argMax(severity, number) AS worst,
    min(since) AS began,
    min(opened) AS first_told,
    round((argMax(tuple(resolved_ms), number).1 - min(since_ms)) / 1000) AS lasted_s,
    argMax(rule, number) AS headline,
    argMax(summary, number) AS said,
    argMax(labels, number) AS about,
    max(members) AS members_max,
    count() AS transitions,
    fingerprint
FROM alert_history
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
GROUP BY fingerprint, opened_ms
ORDER BY began
