-- One rejected record or event with its first bytes, as hex digits.
-- param topic: source topic
-- param partition: source partition
-- param offset: source offset
-- param row: row in the batch; -1 where the whole record was rejected
-- param bytes_max: how many of its bytes at most
-- rows: 2
SELECT
    appended_ms, topic, partition, offset, row, reason, detail, source, events, schema, content_type, bytes_total,
    hex(substring(bytes, 1, {bytes_max:UInt32})) AS first_bytes
FROM rejected FINAL
WHERE appended_ms >= {from_ms:Int64} AND appended_ms < {to_ms:Int64} AND topic = {topic:String}
    AND partition = {partition:UInt64} AND offset = {offset:UInt64} AND ifNull(toInt64(row), -1) = {row:Int64}
LIMIT 1
