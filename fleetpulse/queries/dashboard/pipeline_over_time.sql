-- Events that were booked over time, by topic, and of all topics those that were not accepted.
-- Whole minutes and hours come from rollups; what lies before the first whole minute and the last two minutes from the lines.
-- reads minutes: books 1m <= 7d, 1h <= 60d, 1d
-- rows: 6000
SELECT
    intDiv(committed_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    topic,
    sum(events) AS booked,
    sumIf(events, verdict = 3) AS rejected,
    sumIf(events, verdict IN (1, 2)) AS untimely,
    sumIf(events, verdict = 4) AS duplicate
FROM
(
    SELECT r.window_ms AS committed_ms, r.topic AS topic, r.verdict AS verdict, r.events AS events
    FROM {minutes:Rows} AS r
    UNION ALL
    SELECT b.committed_ms AS committed_ms, b.topic AS topic, b.verdict AS verdict, b.events AS events
    FROM books AS b FINAL
    WHERE b.committed_ms >= {from_ms:Int64} AND b.committed_ms < {to_ms:Int64}
        AND b.committed_ms < {minutes:First}
    UNION ALL
    SELECT b.committed_ms AS committed_ms, b.topic AS topic, b.verdict AS verdict, b.events AS events
    FROM books AS b FINAL
    WHERE b.committed_ms >= {from_ms:Int64} AND b.committed_ms < {to_ms:Int64}
        AND b.committed_ms >= greatest({minutes:First}, {minutes:Over})
)
GROUP BY at_ms, topic
ORDER BY at_ms, topic
LIMIT 6000
SETTINGS do_not_merge_across_partitions_select_final = 1
