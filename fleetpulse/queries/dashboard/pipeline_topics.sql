-- By source topic: what was booked in the range, how it was judged, and when the windows job committed last.
-- rows: 100
-- seconds: 10
SELECT
    topic,
    sumIf(events, verdict = 0) AS accepted,
    sumIf(events, verdict IN (1, 2)) AS untimely,
    sumIf(events, verdict = 3) AS rejected,
    sumIf(events, verdict = 4) AS duplicate,
    sumIf(events, source IS NULL) AS unidentified,
    uniq(source) AS sources,
    max(committed_ms) AS last_commit_ms
FROM books FINAL
WHERE committed_ms >= {from_ms:Int64} AND committed_ms < {to_ms:Int64}
GROUP BY topic
ORDER BY topic
SETTINGS do_not_merge_across_partitions_select_final = 1
