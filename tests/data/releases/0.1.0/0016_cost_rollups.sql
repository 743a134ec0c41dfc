CREATE TABLE IF NOT EXISTS token_costs_rollup_1m
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1m bucket [ms]',
    newest_ms Int64 CODEC(ZSTD(1)) COMMENT 'its latest minute with a bill [ms]',
    bill_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: what the GPUs are for',
    bill_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: region of the GPUs',
    bill_count Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each bill: bills',
    bill_provisional Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each bill: bills that may still change',
    bill_total_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: the bill: what is known of GPU, host and energy; null: nothing had a price',
    bill_gpu_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time at its price; null: no price',
    bill_host_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: overhead of the hosts; null: no price',
    bill_energy_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy at tariff and PUE; null: no price or not measured',
    bill_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time, estimated time included',
    bill_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy; null: not measured',
    bill_unpriced_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time without a price',
    bill_estimated_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time billed for gaps between readings; above 0: the bill is estimated',
    part_name Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: what for',
    part_kind Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: what was paid for',
    part_tenant Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: whose',
    part_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: model',
    part_status Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: how requests ended',
    part_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: region of the GPUs',
    part_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: what idle GPUs are for; else null',
    part_owner Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: engine or host that stood idle; else null',
    part_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: product name of idle GPUs; else null',
    part_amount Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: units each part pays for; null where its kind has none',
    part_cost_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: cost of each part; null: no price',
    part_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: energy of each part; null: not measured',
    part_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: GPU time of each part',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'sum of the versions of its bills; the greatest wins'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY window_ms
TTL toDateTime(intDiv(window_ms, 1000)) + INTERVAL 63072000 SECOND
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1m sums of bills and their parts, computed whole from the bills; read with FINAL';

CREATE TABLE IF NOT EXISTS token_costs_rollup_1h
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1h bucket [ms]',
    newest_ms Int64 CODEC(ZSTD(1)) COMMENT 'its latest minute with a bill [ms]',
    bill_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: what the GPUs are for',
    bill_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: region of the GPUs',
    bill_count Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each bill: bills',
    bill_provisional Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each bill: bills that may still change',
    bill_total_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: the bill: what is known of GPU, host and energy; null: nothing had a price',
    bill_gpu_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time at its price; null: no price',
    bill_host_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: overhead of the hosts; null: no price',
    bill_energy_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy at tariff and PUE; null: no price or not measured',
    bill_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time, estimated time included',
    bill_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy; null: not measured',
    bill_unpriced_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time without a price',
    bill_estimated_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time billed for gaps between readings; above 0: the bill is estimated',
    part_name Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: what for',
    part_kind Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: what was paid for',
    part_tenant Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: whose',
    part_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: model',
    part_status Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: how requests ended',
    part_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: region of the GPUs',
    part_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: what idle GPUs are for; else null',
    part_owner Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: engine or host that stood idle; else null',
    part_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: product name of idle GPUs; else null',
    part_amount Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: units each part pays for; null where its kind has none',
    part_cost_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: cost of each part; null: no price',
    part_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: energy of each part; null: not measured',
    part_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: GPU time of each part',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'sum of the versions of its bills; the greatest wins'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY window_ms
TTL toDateTime(intDiv(window_ms, 1000)) + INTERVAL 63072000 SECOND
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1h sums of bills and their parts, computed whole from the 1m; read with FINAL';

CREATE TABLE IF NOT EXISTS token_costs_rollup_1d
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1d bucket [ms]',
    newest_ms Int64 CODEC(ZSTD(1)) COMMENT 'its latest minute with a bill [ms]',
    bill_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: what the GPUs are for',
    bill_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: region of the GPUs',
    bill_count Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each bill: bills',
    bill_provisional Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each bill: bills that may still change',
    bill_total_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: the bill: what is known of GPU, host and energy; null: nothing had a price',
    bill_gpu_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time at its price; null: no price',
    bill_host_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: overhead of the hosts; null: no price',
    bill_energy_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy at tariff and PUE; null: no price or not measured',
    bill_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time, estimated time included',
    bill_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy; null: not measured',
    bill_unpriced_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time without a price',
    bill_estimated_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time billed for gaps between readings; above 0: the bill is estimated',
    part_name Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: what for',
    part_kind Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: what was paid for',
    part_tenant Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: whose',
    part_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: model',
    part_status Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: how requests ended',
    part_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: region of the GPUs',
    part_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: what idle GPUs are for; else null',
    part_owner Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: engine or host that stood idle; else null',
    part_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: product name of idle GPUs; else null',
    part_amount Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: units each part pays for; null where its kind has none',
    part_cost_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: cost of each part; null: no price',
    part_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: energy of each part; null: not measured',
    part_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: GPU time of each part',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'sum of the versions of its bills; the greatest wins'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY window_ms
TTL toDateTime(intDiv(window_ms, 1000)) + INTERVAL 63072000 SECOND
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1d sums of bills and their parts, computed whole from the 1h; read with FINAL';

INSERT INTO dirty_windows (level, topic, window_ms, writer, noted)
SELECT '1m', 'costs', intDiv(minute_ms, 60000) * 60000 AS bucket_ms, 'migration', 1
FROM token_costs
WHERE minute_ms >= toUnixTimestamp64Milli(now64(3)) - 2592000000
GROUP BY bucket_ms;
