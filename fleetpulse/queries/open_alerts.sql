-- Alerts that were open at the end of the range, opened in it or in the 367 days before its end, the worst and oldest first.
SELECT severity, opened, rule, summary, value, baseline, unit, labels, members, fingerprint
FROM (
    SELECT *
    FROM alert_history
    WHERE at_ms >= least({from_ms:Int64}, {to_ms:Int64} - {kept:Alerts}) AND at_ms < {to_ms:Int64}
    ORDER BY opened_ms DESC, at_ms DESC, number DESC
    LIMIT 1 BY fingerprint
)
WHERE transition != 'resolved'
ORDER BY indexOf(['critical', 'warning', 'info'], severity), opened_ms
