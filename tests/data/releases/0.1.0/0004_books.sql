CREATE TABLE IF NOT EXISTS books
(
    committed_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'wall clock of the owner at the commit [ms]',
    partition UInt64 CODEC(ZSTD(1)) COMMENT 'source partition',
    offset_from UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'first source offset of the commit',
    offset_to UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'first source offset after the commit',
    boot UInt64 CODEC(ZSTD(1)) COMMENT 'boot of the source; 0 without identity',
    verdict UInt64 CODEC(ZSTD(1)) COMMENT 'schemas.verdicts.Verdict',
    records UInt64 CODEC(ZSTD(1)) COMMENT 'records with an event of this verdict (of the source and boot)',
    events UInt64 CODEC(ZSTD(1)) COMMENT 'events of this verdict',
    job LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'who committed',
    topic LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'source topic',
    source LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'spool id of the sender; null without identity',
    log_id LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'id of the topic\'s log, made with the topic',
    log_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the derived topic',
    log_offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the derived topic',
    log_row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record\'s block'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(intDiv(committed_ms, 1000), 'UTC'))
ORDER BY (job, topic, partition, offset_from, log_id, log_partition, log_offset, log_row)
TTL toDateTime(intDiv(committed_ms, 1000)) + INTERVAL 2592000 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'per commit of a job: what became of the events of offsets [offset_from, offset_to), by source and verdict; read with FINAL';

CREATE TABLE IF NOT EXISTS producer_books
(
    at_ms SimpleAggregateFunction(max, Int64) CODEC(Delta(8), ZSTD(1)) COMMENT 'wall clock of the producer [ms]',
    boot UInt64 CODEC(ZSTD(1)) COMMENT 'boot of the spool',
    records SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)) COMMENT 'records written to the spool',
    events SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)) COMMENT 'events in them',
    acknowledged_events SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)) COMMENT 'events of records acknowledged by Kafka',
    shed_events SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)) COMMENT 'events never spooled because the spool was full: declared loss',
    source LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'spool id',
    topic LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'topic they are for',
    host SimpleAggregateFunction(max, LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'host of the producer',
    first_at_ms SimpleAggregateFunction(min, Int64) DEFAULT at_ms CODEC(ZSTD(1)) COMMENT 'wall clock of the producer in its first line [ms]'
)
ENGINE = AggregatingMergeTree
PARTITION BY tuple()
ORDER BY (source, boot, topic)
TTL toDateTime(intDiv(at_ms, 1000)) + INTERVAL 34560000 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'per spool, boot and topic: what a producer wrote to its spool so far (cumulative; the greatest row counts); read with FINAL';

CREATE TABLE IF NOT EXISTS rejected
(
    appended_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'append time of the source record [ms]',
    partition UInt64 CODEC(ZSTD(1)) COMMENT 'source partition',
    offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'source offset',
    row Nullable(UInt32) CODEC(Delta(4), ZSTD(1)) COMMENT 'row in the batch; null when the whole record was rejected',
    events UInt64 CODEC(ZSTD(1)) COMMENT 'events this stands for: 1, or the record\'s count',
    bytes_total UInt64 CODEC(ZSTD(1)) COMMENT 'size of the original value [bytes]',
    topic LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'source topic',
    source LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'spool id of the sender; null without identity',
    reason LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'one of schemas.verdicts.REASONS',
    schema LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'schema header as sent; null when unreadable',
    content_type LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'content-type header as sent; null when unreadable',
    detail String CODEC(ZSTD(1)) COMMENT 'which field and value, and what it must be',
    bytes String CODEC(ZSTD(1)) COMMENT 'the value (whole record), or the event as JSON; cut at the limit',
    log_id LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'id of the topic\'s log, made with the topic',
    log_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the derived topic',
    log_offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the derived topic',
    log_row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record\'s block'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(intDiv(appended_ms, 1000), 'UTC'))
ORDER BY (topic, appended_ms, log_id, log_partition, log_offset, log_row)
TTL toDateTime(intDiv(appended_ms, 1000)) + INTERVAL 2592000 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'one row per rejected record, or per rejected event of a record that was readable; read with FINAL';
