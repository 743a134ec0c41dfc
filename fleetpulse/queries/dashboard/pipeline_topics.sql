-- By source topic: what was booked in the range, how it was judged, and when the windows job committed last.
-- rows: 100
-- seconds: 10
SELECT
    topic,
    sumIf(events, verdict = 0) AS accepted,
    sumIf(events, verdict = 1) AS late,
    sumIf(events, verdict = 2) AS future,
    sumIf(events, verdict = 3) AS rejected,
    sumIf(events, verdict = 4) AS duplicate,
    sumIf(events, source IS NULL) AS unidentified,
    uniq(source) AS sources,
    max(committed_ms) AS committed_ms
FROM books FINAL
WHERE committed_ms >= {from_ms:Int64} AND committed_ms < {to_ms:Int64}
GROUP BY topic
ORDER BY topic
SETTINGS do_not_merge_across_partitions_select_final = 1
