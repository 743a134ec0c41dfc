-- Why records and events of the range were rejected, by topic.
-- rows: 500
SELECT
    topic,
    reason,
    count() AS times,
    sum(events) AS rejected,
    uniq(source) AS sources,
    max(appended_ms) AS newest_ms,
    argMax(detail, appended_ms) AS example
FROM rejected FINAL
WHERE appended_ms >= {from_ms:Int64} AND appended_ms < {to_ms:Int64}
GROUP BY topic, reason
ORDER BY rejected DESC, topic, reason
LIMIT 200
