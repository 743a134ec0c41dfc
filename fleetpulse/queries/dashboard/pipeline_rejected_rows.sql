-- The newest rejected records and events of the range.
-- param reason: only this reason; an empty text takes all
-- rows: 300
SELECT appended_ms, topic, partition, offset, row, reason, detail, source, events, bytes_total
FROM rejected FINAL
WHERE appended_ms >= {from_ms:Int64} AND appended_ms < {to_ms:Int64}
    AND ({reason:String} = '' OR reason = {reason:String})
ORDER BY appended_ms DESC, topic, partition, offset DESC, row DESC
LIMIT 200
