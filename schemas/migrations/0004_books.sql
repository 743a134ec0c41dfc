CREATE TABLE IF NOT EXISTS books
(
    `committed_ms` Int64 CODEC(ZSTD(1)) COMMENT 'wall clock of the owner at the commit [ms]',
    `partition` UInt64 CODEC(ZSTD(1)) COMMENT 'source partition',
    `offset_from` UInt64 CODEC(ZSTD(1)) COMMENT 'first source offset of the commit',
    `offset_to` UInt64 CODEC(ZSTD(1)) COMMENT 'first source offset after the commit',
    `boot` UInt64 CODEC(ZSTD(1)) COMMENT 'boot of the source; 0 without identity',
    `verdict` UInt64 CODEC(ZSTD(1)) COMMENT 'schemas.verdicts.Verdict',
    `records` UInt64 CODEC(ZSTD(1)) COMMENT 'records with an event of this verdict (of the source and boot)',
    `events` UInt64 CODEC(ZSTD(1)) COMMENT 'events of this verdict',
    `job` LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'who committed',
    `topic` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'source topic',
    `source` LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'spool id of the sender; null without identity',
    `log_id` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'random id of the log (topic) the row was read from',
    `log_partition` UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the log',
    `log_offset` UInt64 CODEC(Delta, ZSTD(1)) COMMENT 'offset of the record in the partition',
    `log_row` UInt32 CODEC(ZSTD(1)) COMMENT 'row in the record\'s block'
)
ENGINE = ReplacingMergeTree()
ORDER BY (topic, partition, offset_from, log_id, log_partition, log_offset, log_row)
TTL toDateTime(intDiv(committed_ms, 1000), 'UTC') + INTERVAL 2592000 SECOND
COMMENT 'per commit of a job: what became of the events of offsets [offset_from, offset_to), by source and verdict; read with FINAL';

CREATE TABLE IF NOT EXISTS producer_books
(
    `at_ms` Int64 CODEC(Delta, ZSTD(1)) COMMENT 'wall clock of the producer [ms]',
    `boot` UInt64 CODEC(ZSTD(1)) COMMENT 'boot of the spool',
    `records` UInt64 CODEC(ZSTD(1)) COMMENT 'records written to the spool',
    `events` UInt64 CODEC(ZSTD(1)) COMMENT 'events in them',
    `acknowledged_events` UInt64 CODEC(ZSTD(1)) COMMENT 'events of records acknowledged by Kafka',
    `shed_events` UInt64 CODEC(ZSTD(1)) COMMENT 'events never spooled because the spool was full: declared loss',
    `source` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'spool id',
    `topic` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'topic they are for',
    `host` LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host of the producer',
    `log_id` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'random id of the log (topic) the row was read from',
    `log_partition` UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the log',
    `log_offset` UInt64 CODEC(Delta, ZSTD(1)) COMMENT 'offset of the record in the partition',
    `log_row` UInt32 CODEC(ZSTD(1)) COMMENT 'row in the record\'s block'
)
ENGINE = ReplacingMergeTree()
ORDER BY (source, boot, topic, log_id, log_partition, log_offset, log_row)
TTL toDateTime(intDiv(at_ms, 1000), 'UTC') + INTERVAL 2592000 SECOND
COMMENT 'per spool, boot and topic: what a producer wrote to its spool so far (cumulative; the greatest row counts); read with FINAL';

CREATE TABLE IF NOT EXISTS rejected
(
    `appended_ms` Int64 CODEC(Delta, ZSTD(1)) COMMENT 'append time of the source record [ms]',
    `partition` UInt64 CODEC(ZSTD(1)) COMMENT 'source partition',
    `offset` UInt64 CODEC(ZSTD(1)) COMMENT 'source offset',
    `row` Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'row in the batch; null when the whole record was rejected',
    `events` UInt64 CODEC(ZSTD(1)) COMMENT 'events this stands for: 1, or the record\'s count',
    `bytes_total` UInt64 CODEC(ZSTD(1)) COMMENT 'size of the original value [bytes]',
    `topic` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'source topic',
    `source` LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'spool id of the sender; null without identity',
    `reason` LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'one of schemas.verdicts.REASONS',
    `schema` LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'schema header as sent; null when unreadable',
    `content_type` LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'content-type header as sent; null when unreadable',
    `detail` String CODEC(ZSTD(1)) COMMENT 'which field and value, and what it must be',
    `bytes` String CODEC(ZSTD(1)) COMMENT 'the value (whole record), or the event as JSON; cut at the limit',
    `log_id` LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'random id of the log (topic) the row was read from',
    `log_partition` UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the log',
    `log_offset` UInt64 CODEC(Delta, ZSTD(1)) COMMENT 'offset of the record in the partition',
    `log_row` UInt32 CODEC(ZSTD(1)) COMMENT 'row in the record\'s block'
)
ENGINE = ReplacingMergeTree()
ORDER BY (topic, partition, offset, log_id, log_partition, log_offset, log_row)
TTL toDateTime(intDiv(appended_ms, 1000), 'UTC') + INTERVAL 2592000 SECOND
COMMENT 'one row per rejected record, or per rejected event of a record that was readable; read with FINAL';
