CREATE TABLE IF NOT EXISTS usage
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the minute, event time, UTC [ms]',
    requests UInt64 CODEC(ZSTD(1)) COMMENT 'requests that ended in this minute',
    prefill_tokens Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'prompt tokens computed, cached ones left out; null: not told [tokens]',
    cached_tokens Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'prompt tokens served from the prefix cache; null: not told [tokens]',
    decode_tokens Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'generated tokens; null: not told [tokens]',
    kv_token_ms Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'tokens in the KV cache, times how long; null: not told [token-ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    tenant LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'who asked',
    model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'model name as served',
    slo_class LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'service class whose objectives apply',
    status LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'how the request ended',
    log_id LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'id of the topic\'s log, made with the topic',
    log_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the derived topic',
    log_offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the derived topic',
    log_row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record\'s block'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (window_ms, log_id, log_partition, log_offset, log_row)
TTL toDateTime(intDiv(window_ms, 1000)) + INTERVAL 2592000 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'tokens and cache occupancy of requests, by the minute in which the work was done; read with FINAL';
