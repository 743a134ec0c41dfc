CREATE TABLE IF NOT EXISTS exemplars
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 10 s window, event time, UTC [ms]',
    value_us Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'ttft_us where the metric is ttft, else e2e_us; null where a failed one has none [us]',
    http_status Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'HTTP status answered to the client',
    metric LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what it is an example of: one of the slowest by ttft or e2e, or of those that failed',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'revision or digest of the weights',
    tenant LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'who asked',
    slo_class LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'service class whose objectives apply',
    status LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'how the request ended',
    error_kind LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'why it failed; null when it did not',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    request_id String CODEC(ZSTD(1)) COMMENT 'id of the request, unique in the deployment',
    trace_id Nullable(String) CODEC(ZSTD(1)) COMMENT 'W3C trace id, 32 hex digits',
    log_id LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'id of the topic\'s log, made with the topic',
    log_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the derived topic',
    log_offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the derived topic',
    log_row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record\'s block'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (metric, window_ms, model, log_id, log_partition, log_offset, log_row)
TTL toDateTime(intDiv(window_ms, 1000)) + INTERVAL 604800 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'single requests of a window, engine and model: the slowest two by ttft and by e2e, up to four that failed; read with FINAL';

CREATE TABLE IF NOT EXISTS alerts
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'when the transition happened, event time, UTC [ms]',
    opened_ms Int64 CODEC(ZSTD(1)) COMMENT 'when the alert was opened [ms]',
    since_ms Int64 CODEC(ZSTD(1)) COMMENT 'when what it tells of began [ms]',
    resolved_ms Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'when it was resolved; null while it is open [ms]',
    number UInt64 CODEC(ZSTD(1)) COMMENT 'of this transition within the alert: 1 opens it',
    fingerprint LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'id of the alert: 16 hex digits, of the rule and labels that opened it',
    transition LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'opened, updated or resolved',
    rule LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'rule of the headline',
    severity LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'the worst so far: info, warning or critical',
    summary String CODEC(ZSTD(1)) COMMENT 'one sentence for people',
    record String CODEC(ZSTD(1)) COMMENT 'the whole record as JSON, as schemas.alerts describes it',
    log_id LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'id of the topic\'s log, made with the topic',
    log_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the derived topic',
    log_offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the derived topic',
    log_row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record\'s block'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(toDateTime(intDiv(at_ms, 1000), 'UTC'))
ORDER BY (at_ms, fingerprint, number, log_id, log_partition, log_offset, log_row)
TTL toDateTime(intDiv(at_ms, 1000)) + INTERVAL 34560000 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'every transition of every alert, as told on topic alerts; read with FINAL';
