CREATE TABLE IF NOT EXISTS exemplars_slowest_1h
(
    hour_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the hour, event time, UTC [ms]',
    metric LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what it is an example of: one of the slowest by ttft or e2e, or of those that failed',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    model LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'model name as served',
    tenant LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'who asked',
    status LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'how the request ended',
    slowest SimpleAggregateFunction(max, Tuple(value_us Int64, window_ms Int64, request_id String, error_kind Nullable(String))) CODEC(ZSTD(1)) COMMENT 'the request that took longest, by its metric [us], and the start of its window [ms]'
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(intDiv(hour_ms, 1000), 'UTC'))
ORDER BY (metric, hour_ms, host, engine_id, model, tenant, status)
TTL toDateTime(intDiv(hour_ms, 1000)) + INTERVAL 604800 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0, index_granularity = 1024
COMMENT 'the slowest request of an hour, engine, model, tenant and way to end; read with FINAL';

CREATE MATERIALIZED VIEW IF NOT EXISTS exemplars_slowest_1h_copy TO exemplars_slowest_1h AS
SELECT
    intDiv(window_ms, 3600000) * 3600000 AS hour_ms,
    metric, host, engine_id, model, tenant, status,
    max(CAST((assumeNotNull(value_us), window_ms, request_id, error_kind), 'Tuple(value_us Int64, window_ms Int64, request_id String, error_kind Nullable(String))')) AS slowest
FROM exemplars
WHERE metric IN ('ttft', 'e2e') AND value_us IS NOT NULL
GROUP BY hour_ms, metric, host, engine_id, model, tenant, status;

INSERT INTO exemplars_slowest_1h (hour_ms, metric, host, engine_id, model, tenant, status, slowest)
SELECT
    intDiv(window_ms, 3600000) * 3600000 AS hour_ms,
    metric, host, engine_id, model, tenant, status,
    max(CAST((assumeNotNull(value_us), window_ms, request_id, error_kind), 'Tuple(value_us Int64, window_ms Int64, request_id String, error_kind Nullable(String))')) AS slowest
FROM exemplars
WHERE metric IN ('ttft', 'e2e') AND value_us IS NOT NULL
GROUP BY hour_ms, metric, host, engine_id, model, tenant, status;
