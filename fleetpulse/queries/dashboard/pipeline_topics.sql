-- By source topic: what was booked in the range, how it was judged, and when the windows job committed last.
-- Whole minutes and hours come from rollups; what lies before the first whole minute and the last two minutes from the lines.
-- reads minutes: books 1m <= 7d, 1h <= 60d, 1d
-- rows: 100
SELECT
    topic,
    sumIf(events, verdict = 0) AS accepted,
    sumIf(events, verdict IN (1, 2)) AS untimely,
    sumIf(events, verdict = 3) AS rejected,
    sumIf(events, verdict = 4) AS duplicate,
    sumIf(events, identified = 0) AS unidentified,
    max(committed_ms) AS last_commit_ms
FROM
(
    SELECT r.topic AS topic, r.verdict AS verdict, r.identified AS identified, r.events AS events,
        r.last_commit_ms AS committed_ms
    FROM {minutes:Rows} AS r
    UNION ALL
    SELECT b.topic AS topic, b.verdict AS verdict, toUInt8(b.source IS NOT NULL) AS identified, b.events AS events,
        b.committed_ms AS committed_ms
    FROM books AS b FINAL
    WHERE b.committed_ms >= {from_ms:Int64} AND b.committed_ms < {to_ms:Int64}
        AND b.committed_ms < {minutes:First}
    UNION ALL
    SELECT b.topic AS topic, b.verdict AS verdict, toUInt8(b.source IS NOT NULL) AS identified, b.events AS events,
        b.committed_ms AS committed_ms
    FROM books AS b FINAL
    WHERE b.committed_ms >= {from_ms:Int64} AND b.committed_ms < {to_ms:Int64}
        AND b.committed_ms >= greatest({minutes:First}, {minutes:Over})
)
GROUP BY topic
ORDER BY topic
SETTINGS do_not_merge_across_partitions_select_final = 1
