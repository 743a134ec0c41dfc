CREATE TABLE IF NOT EXISTS gpu_shares
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the minute, event time, UTC [ms]',
    readings UInt64 CODEC(ZSTD(1)) COMMENT 'readings of processes of the engine on the GPU',
    memory_readings UInt64 CODEC(ZSTD(1)) COMMENT 'those that told how much memory the process holds',
    memory_bytes Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of the memory told; null: none was [bytes]',
    sm_readings UInt64 CODEC(ZSTD(1)) COMMENT 'those that told how busy the process kept the GPU',
    sm_util_pct Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of the shares of time told; null: none was [%]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    gpu_uuid LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU or MIG device',
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
COMMENT 'what engines that share a GPU held of it, by minute: readings of their processes, added up; read with FINAL';
