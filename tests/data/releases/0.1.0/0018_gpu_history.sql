CREATE TABLE IF NOT EXISTS gpu_history_1m
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1m bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'product name',
    workload LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what the GPU is used for',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    parent_uuid LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU that this MIG device is a part of',
    mig_profile LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'size of the MIG device, such as 1g.10gb',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    util_gpu_pct_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of util_gpu_pct that were known',
    util_gpu_pct_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of time a kernel ran [%]',
    util_memory_pct_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of util_memory_pct that were known',
    util_memory_pct_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of time memory was read or written [%]',
    power_mw_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of power_mw that were known',
    power_mw_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: power draw [mW]',
    power_limit_mw_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of power_limit_mw that were known',
    power_limit_mw_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: enforced power limit [mW]',
    power_limit_mw_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: enforced power limit [mW]',
    temperature_c_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of temperature_c that were known',
    temperature_c_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: core temperature [C]',
    temperature_c_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: core temperature [C]',
    temperature_memory_c_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of temperature_memory_c that were known',
    temperature_memory_c_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory temperature [C]',
    clock_sm_mhz_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of clock_sm_mhz that were known',
    clock_sm_mhz_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: SM clock [MHz]',
    clock_memory_mhz_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of clock_memory_mhz that were known',
    clock_memory_mhz_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory clock [MHz]',
    sm_active_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of sm_active_ppm that were known',
    sm_active_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of SMs with a resident warp [ppm]',
    tensor_active_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of tensor_active_ppm that were known',
    tensor_active_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of cycles the tensor cores worked [ppm]',
    memory_used_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_used_bytes that were known',
    memory_used_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory in use, reserved excluded [bytes]',
    memory_total_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_total_bytes that were known',
    memory_total_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: physical memory [bytes]',
    memory_total_bytes_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: physical memory [bytes]',
    interval_ms_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time the differences of this sample cover [ms]',
    energy_mj_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: energy since the previous reading [mJ]',
    throttled_us_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time clocks were held down by power or heat [us]',
    pcie_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent over PCIe [bytes]',
    pcie_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received over PCIe [bytes]',
    nvlink_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent over NVLink [bytes]',
    nvlink_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received over NVLink [bytes]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, gpu_uuid, window_ms, cluster, region, host, engine_id, placement_group, gpu_model, workload, origin, parent_uuid, mig_profile)
TTL toDateTime(intDiv(window_ms, 1000)) + INTERVAL 34560000 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1m rows of gpu.samples sorted by GPU, a copy of part of their rollup; read with FINAL';

CREATE TABLE IF NOT EXISTS gpu_history_1h
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1h bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'product name',
    workload LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what the GPU is used for',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    parent_uuid LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU that this MIG device is a part of',
    mig_profile LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'size of the MIG device, such as 1g.10gb',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    util_gpu_pct_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of util_gpu_pct that were known',
    util_gpu_pct_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of time a kernel ran [%]',
    util_memory_pct_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of util_memory_pct that were known',
    util_memory_pct_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of time memory was read or written [%]',
    power_mw_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of power_mw that were known',
    power_mw_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: power draw [mW]',
    power_limit_mw_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of power_limit_mw that were known',
    power_limit_mw_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: enforced power limit [mW]',
    power_limit_mw_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: enforced power limit [mW]',
    temperature_c_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of temperature_c that were known',
    temperature_c_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: core temperature [C]',
    temperature_c_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: core temperature [C]',
    temperature_memory_c_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of temperature_memory_c that were known',
    temperature_memory_c_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory temperature [C]',
    clock_sm_mhz_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of clock_sm_mhz that were known',
    clock_sm_mhz_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: SM clock [MHz]',
    clock_memory_mhz_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of clock_memory_mhz that were known',
    clock_memory_mhz_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory clock [MHz]',
    sm_active_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of sm_active_ppm that were known',
    sm_active_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of SMs with a resident warp [ppm]',
    tensor_active_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of tensor_active_ppm that were known',
    tensor_active_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of cycles the tensor cores worked [ppm]',
    memory_used_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_used_bytes that were known',
    memory_used_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory in use, reserved excluded [bytes]',
    memory_total_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_total_bytes that were known',
    memory_total_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: physical memory [bytes]',
    memory_total_bytes_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: physical memory [bytes]',
    interval_ms_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time the differences of this sample cover [ms]',
    energy_mj_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: energy since the previous reading [mJ]',
    throttled_us_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time clocks were held down by power or heat [us]',
    pcie_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent over PCIe [bytes]',
    pcie_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received over PCIe [bytes]',
    nvlink_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent over NVLink [bytes]',
    nvlink_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received over NVLink [bytes]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, gpu_uuid, window_ms, cluster, region, host, engine_id, placement_group, gpu_model, workload, origin, parent_uuid, mig_profile)
TTL toDateTime(intDiv(window_ms, 1000)) + INTERVAL 34560000 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1h rows of gpu.samples sorted by GPU, a copy of part of their rollup; read with FINAL';

CREATE MATERIALIZED VIEW IF NOT EXISTS gpu_history_1m_copy TO gpu_history_1m AS
SELECT window_ms, grouping, cluster, region, host, engine_id, placement_group, gpu_uuid, gpu_model, workload, origin, parent_uuid, mig_profile, event_count, last_at_ms, definition_version, util_gpu_pct_count, util_gpu_pct_sum, util_memory_pct_count, util_memory_pct_sum, power_mw_count, power_mw_sum, power_limit_mw_count, power_limit_mw_sum, power_limit_mw_max, temperature_c_count, temperature_c_sum, temperature_c_max, temperature_memory_c_count, temperature_memory_c_sum, clock_sm_mhz_count, clock_sm_mhz_sum, clock_memory_mhz_count, clock_memory_mhz_sum, sm_active_ppm_count, sm_active_ppm_sum, tensor_active_ppm_count, tensor_active_ppm_sum, memory_used_bytes_count, memory_used_bytes_sum, memory_total_bytes_count, memory_total_bytes_sum, memory_total_bytes_max, interval_ms_sum, energy_mj_sum, throttled_us_sum, pcie_tx_bytes_sum, pcie_rx_bytes_sum, nvlink_tx_bytes_sum, nvlink_rx_bytes_sum, version
FROM gpu_samples_rollup_1m;

CREATE MATERIALIZED VIEW IF NOT EXISTS gpu_history_1h_copy TO gpu_history_1h AS
SELECT window_ms, grouping, cluster, region, host, engine_id, placement_group, gpu_uuid, gpu_model, workload, origin, parent_uuid, mig_profile, event_count, last_at_ms, definition_version, util_gpu_pct_count, util_gpu_pct_sum, util_memory_pct_count, util_memory_pct_sum, power_mw_count, power_mw_sum, power_limit_mw_count, power_limit_mw_sum, power_limit_mw_max, temperature_c_count, temperature_c_sum, temperature_c_max, temperature_memory_c_count, temperature_memory_c_sum, clock_sm_mhz_count, clock_sm_mhz_sum, clock_memory_mhz_count, clock_memory_mhz_sum, sm_active_ppm_count, sm_active_ppm_sum, tensor_active_ppm_count, tensor_active_ppm_sum, memory_used_bytes_count, memory_used_bytes_sum, memory_total_bytes_count, memory_total_bytes_sum, memory_total_bytes_max, interval_ms_sum, energy_mj_sum, throttled_us_sum, pcie_tx_bytes_sum, pcie_rx_bytes_sum, nvlink_tx_bytes_sum, nvlink_rx_bytes_sum, version
FROM gpu_samples_rollup_1h;

INSERT INTO gpu_history_1m (window_ms, grouping, cluster, region, host, engine_id, placement_group, gpu_uuid, gpu_model, workload, origin, parent_uuid, mig_profile, event_count, last_at_ms, definition_version, util_gpu_pct_count, util_gpu_pct_sum, util_memory_pct_count, util_memory_pct_sum, power_mw_count, power_mw_sum, power_limit_mw_count, power_limit_mw_sum, power_limit_mw_max, temperature_c_count, temperature_c_sum, temperature_c_max, temperature_memory_c_count, temperature_memory_c_sum, clock_sm_mhz_count, clock_sm_mhz_sum, clock_memory_mhz_count, clock_memory_mhz_sum, sm_active_ppm_count, sm_active_ppm_sum, tensor_active_ppm_count, tensor_active_ppm_sum, memory_used_bytes_count, memory_used_bytes_sum, memory_total_bytes_count, memory_total_bytes_sum, memory_total_bytes_max, interval_ms_sum, energy_mj_sum, throttled_us_sum, pcie_tx_bytes_sum, pcie_rx_bytes_sum, nvlink_tx_bytes_sum, nvlink_rx_bytes_sum, version)
SELECT window_ms, grouping, cluster, region, host, engine_id, placement_group, gpu_uuid, gpu_model, workload, origin, parent_uuid, mig_profile, event_count, last_at_ms, definition_version, util_gpu_pct_count, util_gpu_pct_sum, util_memory_pct_count, util_memory_pct_sum, power_mw_count, power_mw_sum, power_limit_mw_count, power_limit_mw_sum, power_limit_mw_max, temperature_c_count, temperature_c_sum, temperature_c_max, temperature_memory_c_count, temperature_memory_c_sum, clock_sm_mhz_count, clock_sm_mhz_sum, clock_memory_mhz_count, clock_memory_mhz_sum, sm_active_ppm_count, sm_active_ppm_sum, tensor_active_ppm_count, tensor_active_ppm_sum, memory_used_bytes_count, memory_used_bytes_sum, memory_total_bytes_count, memory_total_bytes_sum, memory_total_bytes_max, interval_ms_sum, energy_mj_sum, throttled_us_sum, pcie_tx_bytes_sum, pcie_rx_bytes_sum, nvlink_tx_bytes_sum, nvlink_rx_bytes_sum, version
FROM gpu_samples_rollup_1m
WHERE window_ms >= toUnixTimestamp64Milli(now64(3)) - 86400000;

INSERT INTO gpu_history_1h (window_ms, grouping, cluster, region, host, engine_id, placement_group, gpu_uuid, gpu_model, workload, origin, parent_uuid, mig_profile, event_count, last_at_ms, definition_version, util_gpu_pct_count, util_gpu_pct_sum, util_memory_pct_count, util_memory_pct_sum, power_mw_count, power_mw_sum, power_limit_mw_count, power_limit_mw_sum, power_limit_mw_max, temperature_c_count, temperature_c_sum, temperature_c_max, temperature_memory_c_count, temperature_memory_c_sum, clock_sm_mhz_count, clock_sm_mhz_sum, clock_memory_mhz_count, clock_memory_mhz_sum, sm_active_ppm_count, sm_active_ppm_sum, tensor_active_ppm_count, tensor_active_ppm_sum, memory_used_bytes_count, memory_used_bytes_sum, memory_total_bytes_count, memory_total_bytes_sum, memory_total_bytes_max, interval_ms_sum, energy_mj_sum, throttled_us_sum, pcie_tx_bytes_sum, pcie_rx_bytes_sum, nvlink_tx_bytes_sum, nvlink_rx_bytes_sum, version)
SELECT window_ms, grouping, cluster, region, host, engine_id, placement_group, gpu_uuid, gpu_model, workload, origin, parent_uuid, mig_profile, event_count, last_at_ms, definition_version, util_gpu_pct_count, util_gpu_pct_sum, util_memory_pct_count, util_memory_pct_sum, power_mw_count, power_mw_sum, power_limit_mw_count, power_limit_mw_sum, power_limit_mw_max, temperature_c_count, temperature_c_sum, temperature_c_max, temperature_memory_c_count, temperature_memory_c_sum, clock_sm_mhz_count, clock_sm_mhz_sum, clock_memory_mhz_count, clock_memory_mhz_sum, sm_active_ppm_count, sm_active_ppm_sum, tensor_active_ppm_count, tensor_active_ppm_sum, memory_used_bytes_count, memory_used_bytes_sum, memory_total_bytes_count, memory_total_bytes_sum, memory_total_bytes_max, interval_ms_sum, energy_mj_sum, throttled_us_sum, pcie_tx_bytes_sum, pcie_rx_bytes_sum, nvlink_tx_bytes_sum, nvlink_rx_bytes_sum, version
FROM gpu_samples_rollup_1h;
