-- Written by `make migration`. Read it, change it where you know better, and commit it.

CREATE TABLE IF NOT EXISTS actions
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'when it was recorded, by the broker\'s clock [ms]',
    until_ms Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'when the silence ends; null where it is none [ms]',
    action LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'silence, unsilence, or run: a command that changes stored results',
    done_by String CODEC(ZSTD(1)) COMMENT 'who: a user of the dashboard, or user and host of a command line',
    about String CODEC(ZSTD(1)) COMMENT 'labels of the silence; the command line of a run',
    reason String CODEC(ZSTD(1)) COMMENT 'why, in the words of who did it',
    action_id String CODEC(ZSTD(1)) COMMENT 'id of the silence or run',
    record String CODEC(ZSTD(1)) COMMENT 'the whole record as JSON',
    log_id LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'id of the topic\'s log, made with the topic',
    log_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the derived topic',
    log_offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the derived topic',
    log_row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record\'s block'
)
ENGINE = ${engine_prefix}ReplacingMergeTree
PARTITION BY toYYYYMM(toDateTime(intDiv(at_ms, 1000), 'UTC'))
ORDER BY (at_ms, log_id, log_partition, log_offset, log_row)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'what people did: silences, and runs that change stored results, as recorded on topic alert.commands; read with FINAL';
