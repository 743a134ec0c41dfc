-- Events that were booked over time, by topic, and of all topics those that were not accepted.
-- rows: 6000
-- seconds: 10
SELECT
    intDiv(committed_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    topic,
    sum(events) AS booked,
    sumIf(events, verdict = 3) AS rejected,
    sumIf(events, verdict IN (1, 2)) AS untimely,
    sumIf(events, verdict = 4) AS resent
FROM books FINAL
WHERE committed_ms >= {from_ms:Int64} AND committed_ms < {to_ms:Int64}
GROUP BY at_ms, topic
ORDER BY at_ms, topic
LIMIT 6000
SETTINGS do_not_merge_across_partitions_select_final = 1
