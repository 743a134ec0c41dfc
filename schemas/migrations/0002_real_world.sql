-- Written by `make migration`. Read it, change it where you know better, and commit it.

CREATE OR REPLACE FUNCTION fp_quantile_linear AS (q, bins) -> if(empty(bins), NULL, if(mapKeys(bins)[arrayFirstIndex(fp_seen -> fp_seen > floor(q * (arraySum(mapValues(bins)) - 1)), arrayCumSum(mapValues(bins)))] = -1, 0., 2. * pow(pow(2., 1. / 32), mapKeys(bins)[arrayFirstIndex(fp_seen -> fp_seen > floor(q * (arraySum(mapValues(bins)) - 1)), arrayCumSum(mapValues(bins)))]) / (pow(2., 1. / 32) + 1.)) * (1. - ((q * (arraySum(mapValues(bins)) - 1)) - floor(q * (arraySum(mapValues(bins)) - 1)))) + if(mapKeys(bins)[arrayFirstIndex(fp_seen -> fp_seen > ceil(q * (arraySum(mapValues(bins)) - 1)), arrayCumSum(mapValues(bins)))] = -1, 0., 2. * pow(pow(2., 1. / 32), mapKeys(bins)[arrayFirstIndex(fp_seen -> fp_seen > ceil(q * (arraySum(mapValues(bins)) - 1)), arrayCumSum(mapValues(bins)))]) / (pow(2., 1. / 32) + 1.)) * ((q * (arraySum(mapValues(bins)) - 1)) - floor(q * (arraySum(mapValues(bins)) - 1))));

CREATE OR REPLACE FUNCTION fp_quantiles_linear AS (qs, bins) -> if(empty(bins), [], arrayMap((fp_keys, fp_sums) -> arrayMap(fp_place -> arrayMap((fp_below, fp_above) -> if(fp_below = -1, 0., 2. * pow(pow(2., 1. / 32), fp_below) / (pow(2., 1. / 32) + 1.)) * (1. - (fp_place - floor(fp_place))) + if(fp_above = -1, 0., 2. * pow(pow(2., 1. / 32), fp_above) / (pow(2., 1. / 32) + 1.)) * (fp_place - floor(fp_place)), [fp_keys[arrayFirstIndex(fp_seen -> fp_seen > floor(fp_place), fp_sums)]], [fp_keys[arrayFirstIndex(fp_seen -> fp_seen > ceil(fp_place), fp_sums)]])[1], arrayMap(fp_q -> fp_q * (fp_sums[-1] - 1), qs)), [mapKeys(bins)], [arrayCumSum(mapValues(bins))])[1]);

CREATE FUNCTION IF NOT EXISTS p AS (q, bins) -> fp_quantile_linear(q + throwIf(NOT (q BETWEEN 0 AND 1), 'p(q, bins): q is a share, such as 0.99 for p99'), sumMap(bins));

ALTER TABLE llm_requests
    MODIFY COLUMN tpot_us Nullable(UInt32) CODEC(T64, LZ4) COMMENT 'first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    ADD COLUMN IF NOT EXISTS reported_by LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'who measured it' AFTER tokens_from,
    ADD COLUMN IF NOT EXISTS model_requested Nullable(String) CODEC(ZSTD(1)) COMMENT 'model name the client sent, where no engine confirmed it' AFTER trace_id,
    ADD COLUMN IF NOT EXISTS user_hash Nullable(String) CODEC(ZSTD(1)) COMMENT 'keyed hash of the user the client named; never the name itself' AFTER model_requested;

ALTER TABLE gpu_samples
    ADD COLUMN IF NOT EXISTS pcie_generation Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'PCIe generation of the link now' AFTER tensor_active_ppm,
    ADD COLUMN IF NOT EXISTS pcie_width Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'PCIe lanes in use [lanes]' AFTER pcie_generation,
    ADD COLUMN IF NOT EXISTS pcie_width_max Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width,
    ADD COLUMN IF NOT EXISTS throttled_fault_us Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'time clocks were throttled by anything but the power limit [us]' AFTER throttled_us,
    ADD COLUMN IF NOT EXISTS pcie_generation_max Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'PCIe generation that GPU and slot can do' AFTER dram_active_ppm,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'memory that the engines on it may take [bytes]' AFTER recovery_action;

ALTER TABLE host_samples
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'busiest logical processor: share of its time not idle [ppm]' AFTER cpu_iowait_ppm,
    MODIFY COLUMN network_tx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'sent, all interfaces with hardware [bytes]',
    MODIFY COLUMN network_rx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'received, all interfaces with hardware [bytes]',
    ADD COLUMN IF NOT EXISTS tcp_retransmits Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'TCP segments sent again' AFTER swap_out_bytes,
    ADD COLUMN IF NOT EXISTS tcp_segments_out Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'TCP segments sent, repeats left out' AFTER tcp_retransmits,
    ADD COLUMN IF NOT EXISTS rdma_tx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'sent, all InfiniBand and RoCE ports [bytes]' AFTER tcp_segments_out,
    ADD COLUMN IF NOT EXISTS rdma_rx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'received, all InfiniBand and RoCE ports [bytes]' AFTER rdma_tx_bytes,
    ADD COLUMN IF NOT EXISTS rdma_errors Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'errors of all these ports, both ways' AFTER rdma_rx_bytes;

ALTER TABLE gpu_processes
    ADD COLUMN IF NOT EXISTS pod_name LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the Kubernetes pod it runs in' AFTER pod_uid,
    ADD COLUMN IF NOT EXISTS pod_namespace LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'namespace of that pod' AFTER pod_name;

ALTER TABLE host_devices
    MODIFY COLUMN tx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'sent by the interface or port [bytes]',
    MODIFY COLUMN rx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'received by the interface or port [bytes]',
    MODIFY COLUMN errors Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'its errors and drops, both ways',
    MODIFY COLUMN device LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the device, such as eth0 or mlx5_0/1';

ALTER TABLE host_devices
    MODIFY COMMENT 'raw: one reading of one network interface, disk, NUMA node or RDMA port, every ten seconds by default; read with FINAL';

ALTER TABLE engine_events
    ADD COLUMN IF NOT EXISTS load_ms Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'start of the process to ready to serve [ms]' AFTER tensor_parallel,
    ADD COLUMN IF NOT EXISTS parameters Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'parameters of the model' AFTER load_ms,
    ADD COLUMN IF NOT EXISTS active_parameters Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'parameters that one token uses: fewer with experts' AFTER parameters,
    ADD COLUMN IF NOT EXISTS weight_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'memory of the weights [bytes]' AFTER active_parameters,
    ADD COLUMN IF NOT EXISTS kv_cache_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'memory reserved for the KV cache [bytes]' AFTER weight_bytes,
    ADD COLUMN IF NOT EXISTS kv_cache_tokens Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'tokens that the KV cache has room for [tokens]' AFTER kv_cache_bytes,
    ADD COLUMN IF NOT EXISTS pod_name LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the Kubernetes pod it runs in' AFTER origin,
    ADD COLUMN IF NOT EXISTS pod_namespace LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'namespace of that pod' AFTER pod_name;

CREATE TABLE IF NOT EXISTS host_processes
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'moment of the reading [ms]',
    cpu_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_thread_max_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'busiest thread: share of one processor [ppm]',
    memory_rss_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'resident memory [bytes]',
    interval_ms Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'time the differences of this sample cover [ms]',
    read_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'read from disks [bytes]',
    write_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'written to disks [bytes]',
    pid Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'process id as the host sees it',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    process_name LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the program',
    workload LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what the process does',
    origin LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    container_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'container it runs in',
    pod_uid LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'Kubernetes pod it runs in',
    pod_name LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the Kubernetes pod it runs in',
    pod_namespace LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'namespace of that pod',
    source LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'spool id of the sender; log-<log id> without identity',
    boot UInt64 CODEC(ZSTD(1)) COMMENT 'boot of the sender; the partition without identity',
    seq UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the record within the boot; the offset without identity',
    row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record',
    appended_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'append time of the record [ms]',
    partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the source topic',
    offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the source topic',
    verdict LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'accepted, late or future',
    first UInt64 MATERIALIZED bitNot(offset) CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest for the first of all copies of an event'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0, min_bytes_for_wide_part = 67108864, auto_statistics_types = ''
COMMENT 'raw: one reading of one process of an engine or a training job on its host, once a second by default; read with FINAL';

CREATE TABLE IF NOT EXISTS training_steps
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'end of the step [ms]',
    step_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'end of the previous step to end of this one [us]',
    loss_micro Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'training loss [1e-6]',
    checkpoint_age_ms Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'end of the latest checkpoint to end of the step [ms]',
    samples Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'samples of this rank in the step',
    tokens Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'tokens of this rank in the step [tokens]',
    step Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'number of the step, as the job counts',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    job LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'training job',
    rank LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'rank of the process in the job',
    model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'model that is trained',
    origin LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    source LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'spool id of the sender; log-<log id> without identity',
    boot UInt64 CODEC(ZSTD(1)) COMMENT 'boot of the sender; the partition without identity',
    seq UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the record within the boot; the offset without identity',
    row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record',
    appended_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'append time of the record [ms]',
    partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the source topic',
    offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the source topic',
    verdict LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'accepted, late or future',
    first UInt64 MATERIALIZED bitNot(offset) CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest for the first of all copies of an event'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0, min_bytes_for_wide_part = 67108864, auto_statistics_types = ''
COMMENT 'raw: one step of one rank of a training job; read with FINAL';

CREATE TABLE IF NOT EXISTS custom_metrics
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'moment of the value [ms]',
    value_micro Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'level; null where it is a counter [1e-6]',
    increase_micro Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'increase since the last value; null where it is a level [1e-6]',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    service LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'application that reported it',
    metric LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the metric',
    unit LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'unit of the value, as the application names it',
    attributes LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what tells its series apart: sorted key=value, separated by commas',
    origin LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    source LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'spool id of the sender; log-<log id> without identity',
    boot UInt64 CODEC(ZSTD(1)) COMMENT 'boot of the sender; the partition without identity',
    seq UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the record within the boot; the offset without identity',
    row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record',
    appended_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'append time of the record [ms]',
    partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the source topic',
    offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the source topic',
    verdict LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'accepted, late or future',
    first UInt64 MATERIALIZED bitNot(offset) CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest for the first of all copies of an event'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0, min_bytes_for_wide_part = 67108864, auto_statistics_types = ''
COMMENT 'raw: one value of one metric that an application defined: a level, or an increase since the previous one; read with FINAL';

ALTER TABLE llm_requests_partials
    MODIFY COLUMN tpot_us_sum Int64 CODEC(T64, LZ4) COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    MODIFY COLUMN tpot_us_min Nullable(Int64) CODEC(T64, LZ4) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    MODIFY COLUMN tpot_us_max Nullable(Int64) CODEC(T64, LZ4) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    ADD COLUMN IF NOT EXISTS judged_requests_sum Nullable(Int64) CODEC(T64, LZ4) COMMENT 'sum of: requests that count for the objectives of their class [requests]' AFTER reasoning_tokens_sum,
    ADD COLUMN IF NOT EXISTS good_requests_sum Nullable(Int64) CODEC(T64, LZ4) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]' AFTER judged_requests_sum,
    ADD COLUMN IF NOT EXISTS good_tokens_sum Nullable(Int64) CODEC(T64, LZ4) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]' AFTER good_requests_sum,
    MODIFY COLUMN tpot_us_bins Map(Int16, UInt64) CODEC(T64, ZSTD(1)) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    ADD COLUMN IF NOT EXISTS source_offset_to UInt64 CODEC(T64, LZ4) COMMENT 'first source offset after the commit that made the row; 0 where 0.1.0 inserted it' AFTER source_partition;

ALTER TABLE gpu_samples_partials
    ADD COLUMN IF NOT EXISTS pcie_generation_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_generation that were known' AFTER tensor_active_ppm_last,
    ADD COLUMN IF NOT EXISTS pcie_generation_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe generation of the link now' AFTER pcie_generation_count,
    ADD COLUMN IF NOT EXISTS pcie_generation_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe generation of the link now' AFTER pcie_generation_sum,
    ADD COLUMN IF NOT EXISTS pcie_generation_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe generation of the link now' AFTER pcie_generation_min,
    ADD COLUMN IF NOT EXISTS pcie_generation_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe generation of the link now' AFTER pcie_generation_max,
    ADD COLUMN IF NOT EXISTS pcie_width_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width that were known' AFTER pcie_generation_last,
    ADD COLUMN IF NOT EXISTS pcie_width_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes in use [lanes]' AFTER pcie_width_count,
    ADD COLUMN IF NOT EXISTS pcie_width_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe lanes in use [lanes]' AFTER pcie_width_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe lanes in use [lanes]' AFTER pcie_width_min,
    ADD COLUMN IF NOT EXISTS pcie_width_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe lanes in use [lanes]' AFTER pcie_width_max,
    ADD COLUMN IF NOT EXISTS pcie_width_max_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width_max that were known' AFTER pcie_width_last,
    ADD COLUMN IF NOT EXISTS pcie_width_max_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_count,
    ADD COLUMN IF NOT EXISTS pcie_width_max_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_max_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_min,
    ADD COLUMN IF NOT EXISTS pcie_width_max_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_max,
    ADD COLUMN IF NOT EXISTS throttled_fault_us_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time clocks were throttled by anything but the power limit [us]' AFTER throttled_us_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of sm_occupancy_ppm that were known' AFTER nvlink_rx_bytes_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_count,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_min,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_max,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of dram_active_ppm that were known' AFTER sm_occupancy_ppm_last,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_count,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_sum,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_min,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_max,
    ADD COLUMN IF NOT EXISTS pcie_replays_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: PCIe replays since the previous reading' AFTER dram_active_ppm_last,
    ADD COLUMN IF NOT EXISTS nvlink_errors_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: NVLink errors since the previous reading' AFTER pcie_replays_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_engine_bytes that were known' AFTER nvlink_errors_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_count,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_min,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_max,
    ADD COLUMN IF NOT EXISTS source_offset_to UInt64 CODEC(ZSTD(1)) COMMENT 'first source offset after the commit that made the row; 0 where 0.1.0 inserted it' AFTER source_partition;

ALTER TABLE gpu_events_partials
    ADD COLUMN IF NOT EXISTS source_offset_to UInt64 CODEC(ZSTD(1)) COMMENT 'first source offset after the commit that made the row; 0 where 0.1.0 inserted it' AFTER source_partition;

ALTER TABLE host_samples_partials
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_core_busy_max_ppm that were known' AFTER cpu_iowait_ppm_last,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_count,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_sum,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_min,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_max,
    MODIFY COLUMN network_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent, all interfaces with hardware [bytes]',
    MODIFY COLUMN network_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received, all interfaces with hardware [bytes]',
    ADD COLUMN IF NOT EXISTS tcp_retransmits_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: TCP segments sent again' AFTER swap_out_bytes_sum,
    ADD COLUMN IF NOT EXISTS tcp_segments_out_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: TCP segments sent, repeats left out' AFTER tcp_retransmits_sum,
    ADD COLUMN IF NOT EXISTS rdma_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent, all InfiniBand and RoCE ports [bytes]' AFTER tcp_segments_out_sum,
    ADD COLUMN IF NOT EXISTS rdma_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received, all InfiniBand and RoCE ports [bytes]' AFTER rdma_tx_bytes_sum,
    ADD COLUMN IF NOT EXISTS rdma_errors_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: errors of all these ports, both ways' AFTER rdma_rx_bytes_sum,
    ADD COLUMN IF NOT EXISTS source_offset_to UInt64 CODEC(ZSTD(1)) COMMENT 'first source offset after the commit that made the row; 0 where 0.1.0 inserted it' AFTER source_partition;

ALTER TABLE engine_samples_partials
    ADD COLUMN IF NOT EXISTS running_bins Map(Int16, UInt64) CODEC(ZSTD(1)) COMMENT 'sketch of: requests being computed [requests]' AFTER origin,
    ADD COLUMN IF NOT EXISTS source_offset_to UInt64 CODEC(ZSTD(1)) COMMENT 'first source offset after the commit that made the row; 0 where 0.1.0 inserted it' AFTER source_partition;

CREATE TABLE IF NOT EXISTS host_processes_partials
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 10 s window, event time, UTC [ms]',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    cpu_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_ppm that were known',
    cpu_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_thread_max_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_thread_max_ppm that were known',
    cpu_thread_max_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: busiest thread: share of one processor [ppm]',
    memory_rss_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_rss_bytes that were known',
    memory_rss_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: resident memory [bytes]',
    memory_rss_bytes_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: resident memory [bytes]',
    memory_rss_bytes_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: resident memory [bytes]',
    memory_rss_bytes_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: resident memory [bytes]',
    interval_ms_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time the differences of this sample cover [ms]',
    read_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: read from disks [bytes]',
    write_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: written to disks [bytes]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    process_name LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the program',
    workload LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what the process does',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    source_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the source topic the events came from',
    source_offset_to UInt64 CODEC(ZSTD(1)) COMMENT 'first source offset after the commit that made the row; 0 where 0.1.0 inserted it',
    log_id LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'id of the topic\'s log, made with the topic',
    log_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the derived topic',
    log_offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the derived topic',
    log_row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record\'s block'
)
ENGINE = ${engine_prefix}ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, log_id, log_partition, log_offset, log_row)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0, min_bytes_for_wide_part = 67108864, auto_statistics_types = '', vertical_merge_algorithm_min_rows_to_activate = 8192, merge_max_block_size = 65536
COMMENT 'additive 10 s rows of host.processes; read with FINAL';

CREATE TABLE IF NOT EXISTS training_steps_partials
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 10 s window, event time, UTC [ms]',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    step_us_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of step_us that were known',
    step_us_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: end of the previous step to end of this one [us]',
    step_us_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: end of the previous step to end of this one [us]',
    step_us_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: end of the previous step to end of this one [us]',
    loss_micro_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of loss_micro that were known',
    loss_micro_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: training loss [1e-6]',
    loss_micro_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: training loss [1e-6]',
    loss_micro_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: training loss [1e-6]',
    loss_micro_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: training loss [1e-6]',
    checkpoint_age_ms_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of checkpoint_age_ms that were known',
    checkpoint_age_ms_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: end of the latest checkpoint to end of the step [ms]',
    samples_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: samples of this rank in the step',
    tokens_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: tokens of this rank in the step [tokens]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    job LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'training job',
    rank LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'rank of the process in the job',
    model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'model that is trained',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    step_us_bins Map(Int16, UInt64) CODEC(ZSTD(1)) COMMENT 'sketch of: end of the previous step to end of this one [us]',
    source_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the source topic the events came from',
    source_offset_to UInt64 CODEC(ZSTD(1)) COMMENT 'first source offset after the commit that made the row; 0 where 0.1.0 inserted it',
    log_id LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'id of the topic\'s log, made with the topic',
    log_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the derived topic',
    log_offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the derived topic',
    log_row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record\'s block'
)
ENGINE = ${engine_prefix}ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, log_id, log_partition, log_offset, log_row)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0, min_bytes_for_wide_part = 67108864, auto_statistics_types = '', vertical_merge_algorithm_min_rows_to_activate = 8192, merge_max_block_size = 65536
COMMENT 'additive 10 s rows of training.steps; read with FINAL';

CREATE TABLE IF NOT EXISTS custom_metrics_partials
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 10 s window, event time, UTC [ms]',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    value_micro_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of value_micro that were known',
    value_micro_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: level; null where it is a counter [1e-6]',
    value_micro_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: level; null where it is a counter [1e-6]',
    value_micro_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: level; null where it is a counter [1e-6]',
    value_micro_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: level; null where it is a counter [1e-6]',
    increase_micro_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: increase since the last value; null where it is a level [1e-6]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    service LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'application that reported it',
    metric LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the metric',
    unit LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'unit of the value, as the application names it',
    attributes LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what tells its series apart: sorted key=value, separated by commas',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    source_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the source topic the events came from',
    source_offset_to UInt64 CODEC(ZSTD(1)) COMMENT 'first source offset after the commit that made the row; 0 where 0.1.0 inserted it',
    log_id LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'id of the topic\'s log, made with the topic',
    log_partition UInt32 CODEC(ZSTD(1)) COMMENT 'partition of the derived topic',
    log_offset UInt64 CODEC(Delta(8), ZSTD(1)) COMMENT 'offset in the derived topic',
    log_row UInt32 CODEC(Delta(4), ZSTD(1)) COMMENT 'row within the record\'s block'
)
ENGINE = ${engine_prefix}ReplacingMergeTree
PARTITION BY toYYYYMMDD(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, log_id, log_partition, log_offset, log_row)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0, min_bytes_for_wide_part = 67108864, auto_statistics_types = '', vertical_merge_algorithm_min_rows_to_activate = 8192, merge_max_block_size = 65536
COMMENT 'additive 10 s rows of custom.metrics; read with FINAL';

ALTER TABLE producer_books
    ADD COLUMN IF NOT EXISTS seq_to SimpleAggregateFunction(max, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'first sequence number of the boot that the row does not cover; null: of 0.1.0' AFTER shed_events,
    ADD COLUMN IF NOT EXISTS seq_events SimpleAggregateFunction(max, Nullable(UInt64)) CODEC(ZSTD(1)) COMMENT 'events before seq_to, the same as events; null: landed by 0.1.0, seq_to of a row before' AFTER seq_to,
    ADD COLUMN IF NOT EXISTS clock_skew_ms SimpleAggregateFunction(anyLast, Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'the host\'s clock less the broker\'s, by acknowledgements; null: not known [ms]' AFTER seq_events;

ALTER TABLE rejected
    ADD COLUMN IF NOT EXISTS boot Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'boot of the sender; null without identity' AFTER bytes_total,
    ADD COLUMN IF NOT EXISTS seq Nullable(UInt64) CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the record within the boot; null without identity' AFTER boot;

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

ALTER TABLE llm_requests_rollup_1m
    MODIFY COLUMN tpot_us_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    MODIFY COLUMN tpot_us_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    MODIFY COLUMN tpot_us_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    ADD COLUMN IF NOT EXISTS judged_requests_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: requests that count for the objectives of their class [requests]' AFTER reasoning_tokens_sum,
    ADD COLUMN IF NOT EXISTS good_requests_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]' AFTER judged_requests_sum,
    ADD COLUMN IF NOT EXISTS good_tokens_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]' AFTER good_requests_sum,
    MODIFY COLUMN tpot_us_bins Map(Int16, UInt64) CODEC(LZ4) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]';

ALTER TABLE llm_requests_rollup_1h
    MODIFY COLUMN tpot_us_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    MODIFY COLUMN tpot_us_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    MODIFY COLUMN tpot_us_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    ADD COLUMN IF NOT EXISTS judged_requests_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: requests that count for the objectives of their class [requests]' AFTER reasoning_tokens_sum,
    ADD COLUMN IF NOT EXISTS good_requests_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]' AFTER judged_requests_sum,
    ADD COLUMN IF NOT EXISTS good_tokens_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]' AFTER good_requests_sum,
    MODIFY COLUMN tpot_us_bins Map(Int16, UInt64) CODEC(LZ4) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]';

ALTER TABLE llm_requests_rollup_1d
    MODIFY COLUMN tpot_us_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    MODIFY COLUMN tpot_us_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    MODIFY COLUMN tpot_us_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    ADD COLUMN IF NOT EXISTS judged_requests_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: requests that count for the objectives of their class [requests]' AFTER reasoning_tokens_sum,
    ADD COLUMN IF NOT EXISTS good_requests_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]' AFTER judged_requests_sum,
    ADD COLUMN IF NOT EXISTS good_tokens_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]' AFTER good_requests_sum,
    MODIFY COLUMN tpot_us_bins Map(Int16, UInt64) CODEC(LZ4) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]';

ALTER TABLE gpu_samples_rollup_1m
    ADD COLUMN IF NOT EXISTS pcie_generation_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_generation that were known' AFTER tensor_active_ppm_last,
    ADD COLUMN IF NOT EXISTS pcie_generation_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe generation of the link now' AFTER pcie_generation_count,
    ADD COLUMN IF NOT EXISTS pcie_generation_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe generation of the link now' AFTER pcie_generation_sum,
    ADD COLUMN IF NOT EXISTS pcie_generation_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe generation of the link now' AFTER pcie_generation_min,
    ADD COLUMN IF NOT EXISTS pcie_generation_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe generation of the link now' AFTER pcie_generation_max,
    ADD COLUMN IF NOT EXISTS pcie_width_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width that were known' AFTER pcie_generation_last,
    ADD COLUMN IF NOT EXISTS pcie_width_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes in use [lanes]' AFTER pcie_width_count,
    ADD COLUMN IF NOT EXISTS pcie_width_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe lanes in use [lanes]' AFTER pcie_width_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe lanes in use [lanes]' AFTER pcie_width_min,
    ADD COLUMN IF NOT EXISTS pcie_width_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe lanes in use [lanes]' AFTER pcie_width_max,
    ADD COLUMN IF NOT EXISTS pcie_width_max_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width_max that were known' AFTER pcie_width_last,
    ADD COLUMN IF NOT EXISTS pcie_width_max_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_count,
    ADD COLUMN IF NOT EXISTS pcie_width_max_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_max_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_min,
    ADD COLUMN IF NOT EXISTS pcie_width_max_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_max,
    ADD COLUMN IF NOT EXISTS throttled_fault_us_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time clocks were throttled by anything but the power limit [us]' AFTER throttled_us_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of sm_occupancy_ppm that were known' AFTER nvlink_rx_bytes_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_count,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_min,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_max,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of dram_active_ppm that were known' AFTER sm_occupancy_ppm_last,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_count,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_sum,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_min,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_max,
    ADD COLUMN IF NOT EXISTS pcie_replays_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: PCIe replays since the previous reading' AFTER dram_active_ppm_last,
    ADD COLUMN IF NOT EXISTS nvlink_errors_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: NVLink errors since the previous reading' AFTER pcie_replays_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_engine_bytes that were known' AFTER nvlink_errors_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_count,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_min,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_max;

ALTER TABLE gpu_samples_rollup_1h
    ADD COLUMN IF NOT EXISTS pcie_generation_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_generation that were known' AFTER tensor_active_ppm_last,
    ADD COLUMN IF NOT EXISTS pcie_generation_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe generation of the link now' AFTER pcie_generation_count,
    ADD COLUMN IF NOT EXISTS pcie_generation_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe generation of the link now' AFTER pcie_generation_sum,
    ADD COLUMN IF NOT EXISTS pcie_generation_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe generation of the link now' AFTER pcie_generation_min,
    ADD COLUMN IF NOT EXISTS pcie_generation_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe generation of the link now' AFTER pcie_generation_max,
    ADD COLUMN IF NOT EXISTS pcie_width_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width that were known' AFTER pcie_generation_last,
    ADD COLUMN IF NOT EXISTS pcie_width_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes in use [lanes]' AFTER pcie_width_count,
    ADD COLUMN IF NOT EXISTS pcie_width_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe lanes in use [lanes]' AFTER pcie_width_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe lanes in use [lanes]' AFTER pcie_width_min,
    ADD COLUMN IF NOT EXISTS pcie_width_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe lanes in use [lanes]' AFTER pcie_width_max,
    ADD COLUMN IF NOT EXISTS pcie_width_max_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width_max that were known' AFTER pcie_width_last,
    ADD COLUMN IF NOT EXISTS pcie_width_max_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_count,
    ADD COLUMN IF NOT EXISTS pcie_width_max_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_max_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_min,
    ADD COLUMN IF NOT EXISTS pcie_width_max_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_max,
    ADD COLUMN IF NOT EXISTS throttled_fault_us_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time clocks were throttled by anything but the power limit [us]' AFTER throttled_us_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of sm_occupancy_ppm that were known' AFTER nvlink_rx_bytes_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_count,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_min,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_max,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of dram_active_ppm that were known' AFTER sm_occupancy_ppm_last,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_count,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_sum,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_min,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_max,
    ADD COLUMN IF NOT EXISTS pcie_replays_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: PCIe replays since the previous reading' AFTER dram_active_ppm_last,
    ADD COLUMN IF NOT EXISTS nvlink_errors_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: NVLink errors since the previous reading' AFTER pcie_replays_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_engine_bytes that were known' AFTER nvlink_errors_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_count,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_min,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_max;

ALTER TABLE gpu_samples_rollup_1d
    ADD COLUMN IF NOT EXISTS pcie_generation_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_generation that were known' AFTER tensor_active_ppm_last,
    ADD COLUMN IF NOT EXISTS pcie_generation_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe generation of the link now' AFTER pcie_generation_count,
    ADD COLUMN IF NOT EXISTS pcie_generation_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe generation of the link now' AFTER pcie_generation_sum,
    ADD COLUMN IF NOT EXISTS pcie_generation_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe generation of the link now' AFTER pcie_generation_min,
    ADD COLUMN IF NOT EXISTS pcie_generation_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe generation of the link now' AFTER pcie_generation_max,
    ADD COLUMN IF NOT EXISTS pcie_width_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width that were known' AFTER pcie_generation_last,
    ADD COLUMN IF NOT EXISTS pcie_width_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes in use [lanes]' AFTER pcie_width_count,
    ADD COLUMN IF NOT EXISTS pcie_width_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe lanes in use [lanes]' AFTER pcie_width_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe lanes in use [lanes]' AFTER pcie_width_min,
    ADD COLUMN IF NOT EXISTS pcie_width_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe lanes in use [lanes]' AFTER pcie_width_max,
    ADD COLUMN IF NOT EXISTS pcie_width_max_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width_max that were known' AFTER pcie_width_last,
    ADD COLUMN IF NOT EXISTS pcie_width_max_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_count,
    ADD COLUMN IF NOT EXISTS pcie_width_max_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_max_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_min,
    ADD COLUMN IF NOT EXISTS pcie_width_max_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_max,
    ADD COLUMN IF NOT EXISTS throttled_fault_us_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time clocks were throttled by anything but the power limit [us]' AFTER throttled_us_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of sm_occupancy_ppm that were known' AFTER nvlink_rx_bytes_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_count,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_min,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_max,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of dram_active_ppm that were known' AFTER sm_occupancy_ppm_last,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_count,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_sum,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_min,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_max,
    ADD COLUMN IF NOT EXISTS pcie_replays_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: PCIe replays since the previous reading' AFTER dram_active_ppm_last,
    ADD COLUMN IF NOT EXISTS nvlink_errors_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: NVLink errors since the previous reading' AFTER pcie_replays_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_engine_bytes that were known' AFTER nvlink_errors_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_count,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_min,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_max;

ALTER TABLE host_samples_rollup_1m
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_core_busy_max_ppm that were known' AFTER cpu_iowait_ppm_last,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_count,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_sum,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_min,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_max,
    MODIFY COLUMN network_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent, all interfaces with hardware [bytes]',
    MODIFY COLUMN network_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received, all interfaces with hardware [bytes]',
    ADD COLUMN IF NOT EXISTS tcp_retransmits_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: TCP segments sent again' AFTER swap_out_bytes_sum,
    ADD COLUMN IF NOT EXISTS tcp_segments_out_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: TCP segments sent, repeats left out' AFTER tcp_retransmits_sum,
    ADD COLUMN IF NOT EXISTS rdma_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent, all InfiniBand and RoCE ports [bytes]' AFTER tcp_segments_out_sum,
    ADD COLUMN IF NOT EXISTS rdma_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received, all InfiniBand and RoCE ports [bytes]' AFTER rdma_tx_bytes_sum,
    ADD COLUMN IF NOT EXISTS rdma_errors_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: errors of all these ports, both ways' AFTER rdma_rx_bytes_sum;

ALTER TABLE host_samples_rollup_1h
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_core_busy_max_ppm that were known' AFTER cpu_iowait_ppm_last,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_count,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_sum,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_min,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_max,
    MODIFY COLUMN network_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent, all interfaces with hardware [bytes]',
    MODIFY COLUMN network_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received, all interfaces with hardware [bytes]',
    ADD COLUMN IF NOT EXISTS tcp_retransmits_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: TCP segments sent again' AFTER swap_out_bytes_sum,
    ADD COLUMN IF NOT EXISTS tcp_segments_out_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: TCP segments sent, repeats left out' AFTER tcp_retransmits_sum,
    ADD COLUMN IF NOT EXISTS rdma_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent, all InfiniBand and RoCE ports [bytes]' AFTER tcp_segments_out_sum,
    ADD COLUMN IF NOT EXISTS rdma_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received, all InfiniBand and RoCE ports [bytes]' AFTER rdma_tx_bytes_sum,
    ADD COLUMN IF NOT EXISTS rdma_errors_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: errors of all these ports, both ways' AFTER rdma_rx_bytes_sum;

ALTER TABLE host_samples_rollup_1d
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_core_busy_max_ppm that were known' AFTER cpu_iowait_ppm_last,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_count,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_sum,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_min,
    ADD COLUMN IF NOT EXISTS cpu_core_busy_max_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: busiest logical processor: share of its time not idle [ppm]' AFTER cpu_core_busy_max_ppm_max,
    MODIFY COLUMN network_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent, all interfaces with hardware [bytes]',
    MODIFY COLUMN network_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received, all interfaces with hardware [bytes]',
    ADD COLUMN IF NOT EXISTS tcp_retransmits_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: TCP segments sent again' AFTER swap_out_bytes_sum,
    ADD COLUMN IF NOT EXISTS tcp_segments_out_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: TCP segments sent, repeats left out' AFTER tcp_retransmits_sum,
    ADD COLUMN IF NOT EXISTS rdma_tx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: sent, all InfiniBand and RoCE ports [bytes]' AFTER tcp_segments_out_sum,
    ADD COLUMN IF NOT EXISTS rdma_rx_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: received, all InfiniBand and RoCE ports [bytes]' AFTER rdma_tx_bytes_sum,
    ADD COLUMN IF NOT EXISTS rdma_errors_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: errors of all these ports, both ways' AFTER rdma_rx_bytes_sum;

ALTER TABLE engine_samples_rollup_1m
    ADD COLUMN IF NOT EXISTS running_bins Map(Int16, UInt64) CODEC(LZ4) COMMENT 'sketch of: requests being computed [requests]' AFTER finished_requests_sum;

ALTER TABLE engine_samples_rollup_1h
    ADD COLUMN IF NOT EXISTS running_bins Map(Int16, UInt64) CODEC(LZ4) COMMENT 'sketch of: requests being computed [requests]' AFTER finished_requests_sum;

ALTER TABLE engine_samples_rollup_1d
    ADD COLUMN IF NOT EXISTS running_bins Map(Int16, UInt64) CODEC(LZ4) COMMENT 'sketch of: requests being computed [requests]' AFTER finished_requests_sum;

CREATE TABLE IF NOT EXISTS host_processes_rollup_1m
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1m bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    process_name LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the program',
    workload LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what the process does',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    cpu_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_ppm that were known',
    cpu_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_thread_max_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_thread_max_ppm that were known',
    cpu_thread_max_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: busiest thread: share of one processor [ppm]',
    memory_rss_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_rss_bytes that were known',
    memory_rss_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: resident memory [bytes]',
    memory_rss_bytes_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: resident memory [bytes]',
    memory_rss_bytes_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: resident memory [bytes]',
    memory_rss_bytes_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: resident memory [bytes]',
    interval_ms_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time the differences of this sample cover [ms]',
    read_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: read from disks [bytes]',
    write_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: written to disks [bytes]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, cluster, region, host, engine_id, placement_group, process_name, workload, origin)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1m rows of host.processes, computed whole from the 10 s rows; read with FINAL';

CREATE TABLE IF NOT EXISTS host_processes_rollup_1h
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1h bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    process_name LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the program',
    workload LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what the process does',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    cpu_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_ppm that were known',
    cpu_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_thread_max_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_thread_max_ppm that were known',
    cpu_thread_max_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: busiest thread: share of one processor [ppm]',
    memory_rss_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_rss_bytes that were known',
    memory_rss_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: resident memory [bytes]',
    memory_rss_bytes_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: resident memory [bytes]',
    memory_rss_bytes_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: resident memory [bytes]',
    memory_rss_bytes_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: resident memory [bytes]',
    interval_ms_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time the differences of this sample cover [ms]',
    read_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: read from disks [bytes]',
    write_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: written to disks [bytes]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, cluster, region, host, engine_id, placement_group, process_name, workload, origin)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1h rows of host.processes, computed whole from the 1m rows; read with FINAL';

CREATE TABLE IF NOT EXISTS host_processes_rollup_1d
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1d bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    process_name LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the program',
    workload LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what the process does',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    cpu_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_ppm that were known',
    cpu_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_thread_max_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of cpu_thread_max_ppm that were known',
    cpu_thread_max_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: busiest thread: share of one processor [ppm]',
    memory_rss_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_rss_bytes that were known',
    memory_rss_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: resident memory [bytes]',
    memory_rss_bytes_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: resident memory [bytes]',
    memory_rss_bytes_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: resident memory [bytes]',
    memory_rss_bytes_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: resident memory [bytes]',
    interval_ms_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time the differences of this sample cover [ms]',
    read_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: read from disks [bytes]',
    write_bytes_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: written to disks [bytes]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, cluster, region, host, engine_id, placement_group, process_name, workload, origin)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1d rows of host.processes, computed whole from the 1h rows; read with FINAL';

CREATE TABLE IF NOT EXISTS training_steps_rollup_1m
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1m bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    job LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'training job',
    rank LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'rank of the process in the job',
    model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'model that is trained',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    step_us_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of step_us that were known',
    step_us_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: end of the previous step to end of this one [us]',
    step_us_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: end of the previous step to end of this one [us]',
    step_us_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: end of the previous step to end of this one [us]',
    loss_micro_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of loss_micro that were known',
    loss_micro_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: training loss [1e-6]',
    loss_micro_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: training loss [1e-6]',
    loss_micro_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: training loss [1e-6]',
    loss_micro_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: training loss [1e-6]',
    checkpoint_age_ms_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of checkpoint_age_ms that were known',
    checkpoint_age_ms_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: end of the latest checkpoint to end of the step [ms]',
    samples_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: samples of this rank in the step',
    tokens_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: tokens of this rank in the step [tokens]',
    step_us_bins Map(Int16, UInt64) CODEC(LZ4) COMMENT 'sketch of: end of the previous step to end of this one [us]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, cluster, region, host, engine_id, placement_group, job, rank, model, origin)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1m rows of training.steps, computed whole from the 10 s rows; read with FINAL';

CREATE TABLE IF NOT EXISTS training_steps_rollup_1h
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1h bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    job LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'training job',
    rank LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'rank of the process in the job',
    model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'model that is trained',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    step_us_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of step_us that were known',
    step_us_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: end of the previous step to end of this one [us]',
    step_us_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: end of the previous step to end of this one [us]',
    step_us_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: end of the previous step to end of this one [us]',
    loss_micro_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of loss_micro that were known',
    loss_micro_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: training loss [1e-6]',
    loss_micro_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: training loss [1e-6]',
    loss_micro_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: training loss [1e-6]',
    loss_micro_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: training loss [1e-6]',
    checkpoint_age_ms_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of checkpoint_age_ms that were known',
    checkpoint_age_ms_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: end of the latest checkpoint to end of the step [ms]',
    samples_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: samples of this rank in the step',
    tokens_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: tokens of this rank in the step [tokens]',
    step_us_bins Map(Int16, UInt64) CODEC(LZ4) COMMENT 'sketch of: end of the previous step to end of this one [us]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, cluster, region, host, engine_id, placement_group, job, rank, model, origin)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1h rows of training.steps, computed whole from the 1m rows; read with FINAL';

CREATE TABLE IF NOT EXISTS training_steps_rollup_1d
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1d bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    job LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'training job',
    rank LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'rank of the process in the job',
    model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'model that is trained',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    step_us_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of step_us that were known',
    step_us_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: end of the previous step to end of this one [us]',
    step_us_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: end of the previous step to end of this one [us]',
    step_us_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: end of the previous step to end of this one [us]',
    loss_micro_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of loss_micro that were known',
    loss_micro_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: training loss [1e-6]',
    loss_micro_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: training loss [1e-6]',
    loss_micro_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: training loss [1e-6]',
    loss_micro_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: training loss [1e-6]',
    checkpoint_age_ms_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of checkpoint_age_ms that were known',
    checkpoint_age_ms_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: end of the latest checkpoint to end of the step [ms]',
    samples_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: samples of this rank in the step',
    tokens_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: tokens of this rank in the step [tokens]',
    step_us_bins Map(Int16, UInt64) CODEC(LZ4) COMMENT 'sketch of: end of the previous step to end of this one [us]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, cluster, region, host, engine_id, placement_group, job, rank, model, origin)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1d rows of training.steps, computed whole from the 1h rows; read with FINAL';

CREATE TABLE IF NOT EXISTS custom_metrics_rollup_1m
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1m bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    service LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'application that reported it',
    metric LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the metric',
    unit LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'unit of the value, as the application names it',
    attributes LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what tells its series apart: sorted key=value, separated by commas',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    value_micro_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of value_micro that were known',
    value_micro_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: level; null where it is a counter [1e-6]',
    value_micro_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: level; null where it is a counter [1e-6]',
    value_micro_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: level; null where it is a counter [1e-6]',
    value_micro_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: level; null where it is a counter [1e-6]',
    increase_micro_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: increase since the last value; null where it is a level [1e-6]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, cluster, region, host, service, metric, unit, attributes, origin)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1m rows of custom.metrics, computed whole from the 10 s rows; read with FINAL';

CREATE TABLE IF NOT EXISTS custom_metrics_rollup_1h
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1h bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    service LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'application that reported it',
    metric LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the metric',
    unit LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'unit of the value, as the application names it',
    attributes LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what tells its series apart: sorted key=value, separated by commas',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    value_micro_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of value_micro that were known',
    value_micro_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: level; null where it is a counter [1e-6]',
    value_micro_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: level; null where it is a counter [1e-6]',
    value_micro_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: level; null where it is a counter [1e-6]',
    value_micro_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: level; null where it is a counter [1e-6]',
    increase_micro_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: increase since the last value; null where it is a level [1e-6]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, cluster, region, host, service, metric, unit, attributes, origin)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1h rows of custom.metrics, computed whole from the 1m rows; read with FINAL';

CREATE TABLE IF NOT EXISTS custom_metrics_rollup_1d
(
    window_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'start of the 1d bucket, event time, UTC [ms]',
    grouping LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the grouping set',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    service LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'application that reported it',
    metric LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the metric',
    unit LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'unit of the value, as the application names it',
    attributes LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what tells its series apart: sorted key=value, separated by commas',
    origin LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 CODEC(ZSTD(1)) COMMENT 'events in this row',
    last_at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 CODEC(ZSTD(1)) COMMENT 'version of the metric definitions',
    value_micro_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of value_micro that were known',
    value_micro_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: level; null where it is a counter [1e-6]',
    value_micro_min Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'least: level; null where it is a counter [1e-6]',
    value_micro_max Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'greatest: level; null where it is a counter [1e-6]',
    value_micro_last Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'latest: level; null where it is a counter [1e-6]',
    increase_micro_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: increase since the last value; null where it is a level [1e-6]',
    version UInt64 CODEC(ZSTD(1)) COMMENT 'partial rows behind this row; the greatest wins'
)
ENGINE = ${engine_prefix}ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))
ORDER BY (grouping, window_ms, cluster, region, host, service, metric, unit, attributes, origin)
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT '1d rows of custom.metrics, computed whole from the 1h rows; read with FINAL';

ALTER TABLE token_costs
    ADD COLUMN IF NOT EXISTS meter_mj Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'energy at the meter, with PUE; null: not measured, or no PUE [mJ]' AFTER energy_mj,
    ADD COLUMN IF NOT EXISTS carbon_ug Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'CO2e of its energy with PUE; null: not measured, or no intensity of the grid [ug]' AFTER meter_mj,
    ADD COLUMN IF NOT EXISTS part_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'CO2e of each part; null: not measured, or no intensity of the grid [ug]' AFTER part_energy_mj;

ALTER TABLE token_costs_replaced
    ADD COLUMN IF NOT EXISTS meter_mj Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'energy at the meter, with PUE; null: not measured, or no PUE [mJ]' AFTER energy_mj,
    ADD COLUMN IF NOT EXISTS carbon_ug Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'CO2e of its energy with PUE; null: not measured, or no intensity of the grid [ug]' AFTER meter_mj,
    ADD COLUMN IF NOT EXISTS part_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'CO2e of each part; null: not measured, or no intensity of the grid [ug]' AFTER part_energy_mj;

ALTER TABLE token_costs_rollup_1m
    ADD COLUMN IF NOT EXISTS bill_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: product name of the GPUs; null where they are of several' AFTER bill_region,
    ADD COLUMN IF NOT EXISTS bill_prices_version Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: version of the prices that it was billed with' AFTER bill_gpu_model,
    ADD COLUMN IF NOT EXISTS bill_weights_version Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: version of the weights that parts were split by' AFTER bill_prices_version,
    ADD COLUMN IF NOT EXISTS bill_definition_version Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: version of the metric definitions' AFTER bill_weights_version,
    ADD COLUMN IF NOT EXISTS bill_meter_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy at the meter, with PUE; null: not measured, or no PUE' AFTER bill_estimated_gpu_ms,
    ADD COLUMN IF NOT EXISTS bill_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: CO2e of its energy with PUE; null: not measured, or no intensity of the grid' AFTER bill_meter_mj,
    ADD COLUMN IF NOT EXISTS bill_unpriced_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy without a price' AFTER bill_carbon_ug,
    ADD COLUMN IF NOT EXISTS bill_unmeasured_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time whose energy was not measured' AFTER bill_unpriced_energy_mj,
    ADD COLUMN IF NOT EXISTS part_slo_class Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: service class' AFTER part_gpu_model,
    ADD COLUMN IF NOT EXISTS part_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: CO2e of each part; null: not measured, or no intensity of the grid' AFTER part_gpu_ms,
    ADD COLUMN IF NOT EXISTS part_meter_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: energy of the part at the meter, with the bill\'s PUE' AFTER part_carbon_ug,
    ADD COLUMN IF NOT EXISTS line_tenant Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: whose' AFTER part_meter_mj,
    ADD COLUMN IF NOT EXISTS line_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: model' AFTER line_tenant,
    ADD COLUMN IF NOT EXISTS line_slo_class Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: service class' AFTER line_model,
    ADD COLUMN IF NOT EXISTS line_status Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: how requests ended' AFTER line_slo_class,
    ADD COLUMN IF NOT EXISTS line_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: region of the GPUs' AFTER line_status,
    ADD COLUMN IF NOT EXISTS line_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: product name of the GPUs; null where they are of several' AFTER line_region,
    ADD COLUMN IF NOT EXISTS line_unpriced Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: yes: the bill lacks a cost; else null' AFTER line_gpu_model,
    ADD COLUMN IF NOT EXISTS line_unmetered Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: yes: the bill lacks energy at the meter; else null' AFTER line_unpriced,
    ADD COLUMN IF NOT EXISTS line_uncounted Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: yes: the bill lacks CO2e; else null' AFTER line_unmetered,
    ADD COLUMN IF NOT EXISTS line_requests Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each line: requests that ended in this minute' AFTER line_uncounted,
    ADD COLUMN IF NOT EXISTS line_prefill_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each line: prompt tokens computed; null: not reported' AFTER line_requests,
    ADD COLUMN IF NOT EXISTS line_cached_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each line: prompt tokens from the prefix cache; null: not reported' AFTER line_prefill_tokens,
    ADD COLUMN IF NOT EXISTS line_decode_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each line: generated tokens; null: not reported' AFTER line_cached_tokens,
    ADD COLUMN IF NOT EXISTS owner_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: what the GPUs are for' AFTER line_decode_tokens,
    ADD COLUMN IF NOT EXISTS owner_name Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: engine id; the host where no engine holds the GPU' AFTER owner_use,
    ADD COLUMN IF NOT EXISTS owner_host Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: host of the GPUs; null where they are on several' AFTER owner_name,
    ADD COLUMN IF NOT EXISTS owner_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: product name of the GPUs; null where they are of several' AFTER owner_host,
    ADD COLUMN IF NOT EXISTS owner_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: region of the GPUs' AFTER owner_gpu_model,
    ADD COLUMN IF NOT EXISTS owner_total_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: the bill: what is known of GPU, host and energy; null: nothing had a price' AFTER owner_region,
    ADD COLUMN IF NOT EXISTS owner_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: GPU time, estimated time included' AFTER owner_total_nusd,
    ADD COLUMN IF NOT EXISTS owner_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: energy; null: not measured' AFTER owner_gpu_ms,
    ADD COLUMN IF NOT EXISTS owner_meter_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: energy at the meter, with PUE; null: not measured, or no PUE' AFTER owner_energy_mj,
    ADD COLUMN IF NOT EXISTS owner_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: CO2e of its energy with PUE; null: not measured, or no intensity of the grid' AFTER owner_meter_mj,
    ADD COLUMN IF NOT EXISTS owner_part_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: what the GPUs are for' AFTER owner_carbon_ug,
    ADD COLUMN IF NOT EXISTS owner_part_owner Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: engine id; the host where no engine holds the GPU' AFTER owner_part_use,
    ADD COLUMN IF NOT EXISTS owner_part_name Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: what for' AFTER owner_part_owner,
    ADD COLUMN IF NOT EXISTS owner_part_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: model' AFTER owner_part_name,
    ADD COLUMN IF NOT EXISTS owner_part_status Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: how requests ended' AFTER owner_part_model,
    ADD COLUMN IF NOT EXISTS owner_part_cost_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and part: cost of each part; null: no price' AFTER owner_part_status,
    ADD COLUMN IF NOT EXISTS owner_part_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and part: GPU time of each part' AFTER owner_part_cost_nusd,
    ADD COLUMN IF NOT EXISTS owner_line_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: what the GPUs are for' AFTER owner_part_gpu_ms,
    ADD COLUMN IF NOT EXISTS owner_line_owner Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: engine id; the host where no engine holds the GPU' AFTER owner_line_use,
    ADD COLUMN IF NOT EXISTS owner_line_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: model' AFTER owner_line_owner,
    ADD COLUMN IF NOT EXISTS owner_line_unpriced Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: yes: the bill lacks a cost; else null' AFTER owner_line_model,
    ADD COLUMN IF NOT EXISTS owner_line_requests Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each owner and line: requests that ended in this minute' AFTER owner_line_unpriced,
    ADD COLUMN IF NOT EXISTS owner_line_prefill_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and line: prompt tokens computed; null: not reported' AFTER owner_line_requests,
    ADD COLUMN IF NOT EXISTS owner_line_cached_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and line: prompt tokens from the prefix cache; null: not reported' AFTER owner_line_prefill_tokens,
    ADD COLUMN IF NOT EXISTS owner_line_decode_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and line: generated tokens; null: not reported' AFTER owner_line_cached_tokens,
    ADD COLUMN IF NOT EXISTS oldest_ms Int64 CODEC(ZSTD(1)) COMMENT 'its first minute with a bill [ms]' AFTER version,
    ADD COLUMN IF NOT EXISTS detail UInt8 CODEC(ZSTD(1)) COMMENT '1: all lists are there; 0: as release 0.1.0 wrote it' AFTER oldest_ms;

ALTER TABLE token_costs_rollup_1h
    ADD COLUMN IF NOT EXISTS bill_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: product name of the GPUs; null where they are of several' AFTER bill_region,
    ADD COLUMN IF NOT EXISTS bill_prices_version Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: version of the prices that it was billed with' AFTER bill_gpu_model,
    ADD COLUMN IF NOT EXISTS bill_weights_version Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: version of the weights that parts were split by' AFTER bill_prices_version,
    ADD COLUMN IF NOT EXISTS bill_definition_version Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: version of the metric definitions' AFTER bill_weights_version,
    ADD COLUMN IF NOT EXISTS bill_meter_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy at the meter, with PUE; null: not measured, or no PUE' AFTER bill_estimated_gpu_ms,
    ADD COLUMN IF NOT EXISTS bill_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: CO2e of its energy with PUE; null: not measured, or no intensity of the grid' AFTER bill_meter_mj,
    ADD COLUMN IF NOT EXISTS bill_unpriced_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy without a price' AFTER bill_carbon_ug,
    ADD COLUMN IF NOT EXISTS bill_unmeasured_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time whose energy was not measured' AFTER bill_unpriced_energy_mj,
    ADD COLUMN IF NOT EXISTS part_slo_class Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: service class' AFTER part_gpu_model,
    ADD COLUMN IF NOT EXISTS part_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: CO2e of each part; null: not measured, or no intensity of the grid' AFTER part_gpu_ms,
    ADD COLUMN IF NOT EXISTS part_meter_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: energy of the part at the meter, with the bill\'s PUE' AFTER part_carbon_ug,
    ADD COLUMN IF NOT EXISTS line_tenant Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: whose' AFTER part_meter_mj,
    ADD COLUMN IF NOT EXISTS line_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: model' AFTER line_tenant,
    ADD COLUMN IF NOT EXISTS line_slo_class Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: service class' AFTER line_model,
    ADD COLUMN IF NOT EXISTS line_status Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: how requests ended' AFTER line_slo_class,
    ADD COLUMN IF NOT EXISTS line_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: region of the GPUs' AFTER line_status,
    ADD COLUMN IF NOT EXISTS line_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: product name of the GPUs; null where they are of several' AFTER line_region,
    ADD COLUMN IF NOT EXISTS line_unpriced Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: yes: the bill lacks a cost; else null' AFTER line_gpu_model,
    ADD COLUMN IF NOT EXISTS line_unmetered Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: yes: the bill lacks energy at the meter; else null' AFTER line_unpriced,
    ADD COLUMN IF NOT EXISTS line_uncounted Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: yes: the bill lacks CO2e; else null' AFTER line_unmetered,
    ADD COLUMN IF NOT EXISTS line_requests Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each line: requests that ended in this minute' AFTER line_uncounted,
    ADD COLUMN IF NOT EXISTS line_prefill_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each line: prompt tokens computed; null: not reported' AFTER line_requests,
    ADD COLUMN IF NOT EXISTS line_cached_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each line: prompt tokens from the prefix cache; null: not reported' AFTER line_prefill_tokens,
    ADD COLUMN IF NOT EXISTS line_decode_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each line: generated tokens; null: not reported' AFTER line_cached_tokens,
    ADD COLUMN IF NOT EXISTS owner_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: what the GPUs are for' AFTER line_decode_tokens,
    ADD COLUMN IF NOT EXISTS owner_name Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: engine id; the host where no engine holds the GPU' AFTER owner_use,
    ADD COLUMN IF NOT EXISTS owner_host Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: host of the GPUs; null where they are on several' AFTER owner_name,
    ADD COLUMN IF NOT EXISTS owner_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: product name of the GPUs; null where they are of several' AFTER owner_host,
    ADD COLUMN IF NOT EXISTS owner_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: region of the GPUs' AFTER owner_gpu_model,
    ADD COLUMN IF NOT EXISTS owner_total_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: the bill: what is known of GPU, host and energy; null: nothing had a price' AFTER owner_region,
    ADD COLUMN IF NOT EXISTS owner_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: GPU time, estimated time included' AFTER owner_total_nusd,
    ADD COLUMN IF NOT EXISTS owner_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: energy; null: not measured' AFTER owner_gpu_ms,
    ADD COLUMN IF NOT EXISTS owner_meter_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: energy at the meter, with PUE; null: not measured, or no PUE' AFTER owner_energy_mj,
    ADD COLUMN IF NOT EXISTS owner_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: CO2e of its energy with PUE; null: not measured, or no intensity of the grid' AFTER owner_meter_mj,
    ADD COLUMN IF NOT EXISTS owner_part_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: what the GPUs are for' AFTER owner_carbon_ug,
    ADD COLUMN IF NOT EXISTS owner_part_owner Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: engine id; the host where no engine holds the GPU' AFTER owner_part_use,
    ADD COLUMN IF NOT EXISTS owner_part_name Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: what for' AFTER owner_part_owner,
    ADD COLUMN IF NOT EXISTS owner_part_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: model' AFTER owner_part_name,
    ADD COLUMN IF NOT EXISTS owner_part_status Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: how requests ended' AFTER owner_part_model,
    ADD COLUMN IF NOT EXISTS owner_part_cost_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and part: cost of each part; null: no price' AFTER owner_part_status,
    ADD COLUMN IF NOT EXISTS owner_part_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and part: GPU time of each part' AFTER owner_part_cost_nusd,
    ADD COLUMN IF NOT EXISTS owner_line_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: what the GPUs are for' AFTER owner_part_gpu_ms,
    ADD COLUMN IF NOT EXISTS owner_line_owner Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: engine id; the host where no engine holds the GPU' AFTER owner_line_use,
    ADD COLUMN IF NOT EXISTS owner_line_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: model' AFTER owner_line_owner,
    ADD COLUMN IF NOT EXISTS owner_line_unpriced Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: yes: the bill lacks a cost; else null' AFTER owner_line_model,
    ADD COLUMN IF NOT EXISTS owner_line_requests Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each owner and line: requests that ended in this minute' AFTER owner_line_unpriced,
    ADD COLUMN IF NOT EXISTS owner_line_prefill_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and line: prompt tokens computed; null: not reported' AFTER owner_line_requests,
    ADD COLUMN IF NOT EXISTS owner_line_cached_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and line: prompt tokens from the prefix cache; null: not reported' AFTER owner_line_prefill_tokens,
    ADD COLUMN IF NOT EXISTS owner_line_decode_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and line: generated tokens; null: not reported' AFTER owner_line_cached_tokens,
    ADD COLUMN IF NOT EXISTS oldest_ms Int64 CODEC(ZSTD(1)) COMMENT 'its first minute with a bill [ms]' AFTER version,
    ADD COLUMN IF NOT EXISTS detail UInt8 CODEC(ZSTD(1)) COMMENT '1: all lists are there; 0: as release 0.1.0 wrote it' AFTER oldest_ms;

ALTER TABLE token_costs_rollup_1d
    ADD COLUMN IF NOT EXISTS bill_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: product name of the GPUs; null where they are of several' AFTER bill_region,
    ADD COLUMN IF NOT EXISTS bill_prices_version Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: version of the prices that it was billed with' AFTER bill_gpu_model,
    ADD COLUMN IF NOT EXISTS bill_weights_version Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: version of the weights that parts were split by' AFTER bill_prices_version,
    ADD COLUMN IF NOT EXISTS bill_definition_version Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each bill: version of the metric definitions' AFTER bill_weights_version,
    ADD COLUMN IF NOT EXISTS bill_meter_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy at the meter, with PUE; null: not measured, or no PUE' AFTER bill_estimated_gpu_ms,
    ADD COLUMN IF NOT EXISTS bill_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: CO2e of its energy with PUE; null: not measured, or no intensity of the grid' AFTER bill_meter_mj,
    ADD COLUMN IF NOT EXISTS bill_unpriced_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: energy without a price' AFTER bill_carbon_ug,
    ADD COLUMN IF NOT EXISTS bill_unmeasured_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each bill: GPU time whose energy was not measured' AFTER bill_unpriced_energy_mj,
    ADD COLUMN IF NOT EXISTS part_slo_class Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each part: service class' AFTER part_gpu_model,
    ADD COLUMN IF NOT EXISTS part_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: CO2e of each part; null: not measured, or no intensity of the grid' AFTER part_gpu_ms,
    ADD COLUMN IF NOT EXISTS part_meter_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each part: energy of the part at the meter, with the bill\'s PUE' AFTER part_carbon_ug,
    ADD COLUMN IF NOT EXISTS line_tenant Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: whose' AFTER part_meter_mj,
    ADD COLUMN IF NOT EXISTS line_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: model' AFTER line_tenant,
    ADD COLUMN IF NOT EXISTS line_slo_class Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: service class' AFTER line_model,
    ADD COLUMN IF NOT EXISTS line_status Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: how requests ended' AFTER line_slo_class,
    ADD COLUMN IF NOT EXISTS line_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: region of the GPUs' AFTER line_status,
    ADD COLUMN IF NOT EXISTS line_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: product name of the GPUs; null where they are of several' AFTER line_region,
    ADD COLUMN IF NOT EXISTS line_unpriced Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: yes: the bill lacks a cost; else null' AFTER line_gpu_model,
    ADD COLUMN IF NOT EXISTS line_unmetered Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: yes: the bill lacks energy at the meter; else null' AFTER line_unpriced,
    ADD COLUMN IF NOT EXISTS line_uncounted Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each line: yes: the bill lacks CO2e; else null' AFTER line_unmetered,
    ADD COLUMN IF NOT EXISTS line_requests Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each line: requests that ended in this minute' AFTER line_uncounted,
    ADD COLUMN IF NOT EXISTS line_prefill_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each line: prompt tokens computed; null: not reported' AFTER line_requests,
    ADD COLUMN IF NOT EXISTS line_cached_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each line: prompt tokens from the prefix cache; null: not reported' AFTER line_prefill_tokens,
    ADD COLUMN IF NOT EXISTS line_decode_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each line: generated tokens; null: not reported' AFTER line_cached_tokens,
    ADD COLUMN IF NOT EXISTS owner_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: what the GPUs are for' AFTER line_decode_tokens,
    ADD COLUMN IF NOT EXISTS owner_name Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: engine id; the host where no engine holds the GPU' AFTER owner_use,
    ADD COLUMN IF NOT EXISTS owner_host Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: host of the GPUs; null where they are on several' AFTER owner_name,
    ADD COLUMN IF NOT EXISTS owner_gpu_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: product name of the GPUs; null where they are of several' AFTER owner_host,
    ADD COLUMN IF NOT EXISTS owner_region Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner: region of the GPUs' AFTER owner_gpu_model,
    ADD COLUMN IF NOT EXISTS owner_total_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: the bill: what is known of GPU, host and energy; null: nothing had a price' AFTER owner_region,
    ADD COLUMN IF NOT EXISTS owner_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: GPU time, estimated time included' AFTER owner_total_nusd,
    ADD COLUMN IF NOT EXISTS owner_energy_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: energy; null: not measured' AFTER owner_gpu_ms,
    ADD COLUMN IF NOT EXISTS owner_meter_mj Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: energy at the meter, with PUE; null: not measured, or no PUE' AFTER owner_energy_mj,
    ADD COLUMN IF NOT EXISTS owner_carbon_ug Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner: CO2e of its energy with PUE; null: not measured, or no intensity of the grid' AFTER owner_meter_mj,
    ADD COLUMN IF NOT EXISTS owner_part_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: what the GPUs are for' AFTER owner_carbon_ug,
    ADD COLUMN IF NOT EXISTS owner_part_owner Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: engine id; the host where no engine holds the GPU' AFTER owner_part_use,
    ADD COLUMN IF NOT EXISTS owner_part_name Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: what for' AFTER owner_part_owner,
    ADD COLUMN IF NOT EXISTS owner_part_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: model' AFTER owner_part_name,
    ADD COLUMN IF NOT EXISTS owner_part_status Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and part: how requests ended' AFTER owner_part_model,
    ADD COLUMN IF NOT EXISTS owner_part_cost_nusd Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and part: cost of each part; null: no price' AFTER owner_part_status,
    ADD COLUMN IF NOT EXISTS owner_part_gpu_ms Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and part: GPU time of each part' AFTER owner_part_cost_nusd,
    ADD COLUMN IF NOT EXISTS owner_line_use Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: what the GPUs are for' AFTER owner_part_gpu_ms,
    ADD COLUMN IF NOT EXISTS owner_line_owner Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: engine id; the host where no engine holds the GPU' AFTER owner_line_use,
    ADD COLUMN IF NOT EXISTS owner_line_model Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: model' AFTER owner_line_owner,
    ADD COLUMN IF NOT EXISTS owner_line_unpriced Array(LowCardinality(Nullable(String))) CODEC(ZSTD(1)) COMMENT 'of each owner and line: yes: the bill lacks a cost; else null' AFTER owner_line_model,
    ADD COLUMN IF NOT EXISTS owner_line_requests Array(Int64) CODEC(ZSTD(1)) COMMENT 'of each owner and line: requests that ended in this minute' AFTER owner_line_unpriced,
    ADD COLUMN IF NOT EXISTS owner_line_prefill_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and line: prompt tokens computed; null: not reported' AFTER owner_line_requests,
    ADD COLUMN IF NOT EXISTS owner_line_cached_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and line: prompt tokens from the prefix cache; null: not reported' AFTER owner_line_prefill_tokens,
    ADD COLUMN IF NOT EXISTS owner_line_decode_tokens Array(Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'of each owner and line: generated tokens; null: not reported' AFTER owner_line_cached_tokens,
    ADD COLUMN IF NOT EXISTS oldest_ms Int64 CODEC(ZSTD(1)) COMMENT 'its first minute with a bill [ms]' AFTER version,
    ADD COLUMN IF NOT EXISTS detail UInt8 CODEC(ZSTD(1)) COMMENT '1: all lists are there; 0: as release 0.1.0 wrote it' AFTER oldest_ms;

ALTER TABLE gpu_history_1m
    ADD COLUMN IF NOT EXISTS pcie_generation_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_generation that were known' AFTER tensor_active_ppm_sum,
    ADD COLUMN IF NOT EXISTS pcie_generation_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe generation of the link now' AFTER pcie_generation_count,
    ADD COLUMN IF NOT EXISTS pcie_width_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width that were known' AFTER pcie_generation_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes in use [lanes]' AFTER pcie_width_count,
    ADD COLUMN IF NOT EXISTS pcie_width_max_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width_max that were known' AFTER pcie_width_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_max_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_count,
    ADD COLUMN IF NOT EXISTS throttled_fault_us_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time clocks were throttled by anything but the power limit [us]' AFTER throttled_us_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of sm_occupancy_ppm that were known' AFTER nvlink_rx_bytes_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_count,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of dram_active_ppm that were known' AFTER sm_occupancy_ppm_sum,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_count,
    ADD COLUMN IF NOT EXISTS pcie_replays_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: PCIe replays since the previous reading' AFTER dram_active_ppm_sum,
    ADD COLUMN IF NOT EXISTS nvlink_errors_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: NVLink errors since the previous reading' AFTER pcie_replays_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_engine_bytes that were known' AFTER nvlink_errors_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_count;

ALTER TABLE gpu_history_1h
    ADD COLUMN IF NOT EXISTS pcie_generation_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_generation that were known' AFTER tensor_active_ppm_sum,
    ADD COLUMN IF NOT EXISTS pcie_generation_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe generation of the link now' AFTER pcie_generation_count,
    ADD COLUMN IF NOT EXISTS pcie_width_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width that were known' AFTER pcie_generation_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes in use [lanes]' AFTER pcie_width_count,
    ADD COLUMN IF NOT EXISTS pcie_width_max_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of pcie_width_max that were known' AFTER pcie_width_sum,
    ADD COLUMN IF NOT EXISTS pcie_width_max_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: PCIe lanes that GPU and slot have [lanes]' AFTER pcie_width_max_count,
    ADD COLUMN IF NOT EXISTS throttled_fault_us_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: time clocks were throttled by anything but the power limit [us]' AFTER throttled_us_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of sm_occupancy_ppm that were known' AFTER nvlink_rx_bytes_sum,
    ADD COLUMN IF NOT EXISTS sm_occupancy_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: resident warps of those that fit [ppm]' AFTER sm_occupancy_ppm_count,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of dram_active_ppm that were known' AFTER sm_occupancy_ppm_sum,
    ADD COLUMN IF NOT EXISTS dram_active_ppm_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: share of the memory bandwidth in use [ppm]' AFTER dram_active_ppm_count,
    ADD COLUMN IF NOT EXISTS pcie_replays_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: PCIe replays since the previous reading' AFTER dram_active_ppm_sum,
    ADD COLUMN IF NOT EXISTS nvlink_errors_sum Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'sum of: NVLink errors since the previous reading' AFTER pcie_replays_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_count UInt64 CODEC(ZSTD(1)) COMMENT 'values of memory_engine_bytes that were known' AFTER nvlink_errors_sum,
    ADD COLUMN IF NOT EXISTS memory_engine_bytes_sum Int64 CODEC(ZSTD(1)) COMMENT 'sum of: memory that the engines on it may take [bytes]' AFTER memory_engine_bytes_count;

ALTER TABLE gpu_history_1m_copy
    MODIFY QUERY SELECT window_ms, grouping, cluster, region, host, engine_id, placement_group, gpu_uuid, gpu_model, workload, origin, parent_uuid, mig_profile, event_count, last_at_ms, definition_version, util_gpu_pct_count, util_gpu_pct_sum, util_memory_pct_count, util_memory_pct_sum, power_mw_count, power_mw_sum, power_limit_mw_count, power_limit_mw_sum, power_limit_mw_max, temperature_c_count, temperature_c_sum, temperature_c_max, temperature_memory_c_count, temperature_memory_c_sum, clock_sm_mhz_count, clock_sm_mhz_sum, clock_memory_mhz_count, clock_memory_mhz_sum, sm_active_ppm_count, sm_active_ppm_sum, tensor_active_ppm_count, tensor_active_ppm_sum, pcie_generation_count, pcie_generation_sum, pcie_width_count, pcie_width_sum, pcie_width_max_count, pcie_width_max_sum, memory_used_bytes_count, memory_used_bytes_sum, memory_total_bytes_count, memory_total_bytes_sum, memory_total_bytes_max, interval_ms_sum, energy_mj_sum, throttled_us_sum, throttled_fault_us_sum, pcie_tx_bytes_sum, pcie_rx_bytes_sum, nvlink_tx_bytes_sum, nvlink_rx_bytes_sum, sm_occupancy_ppm_count, sm_occupancy_ppm_sum, dram_active_ppm_count, dram_active_ppm_sum, pcie_replays_sum, nvlink_errors_sum, memory_engine_bytes_count, memory_engine_bytes_sum, version
FROM gpu_samples_rollup_1m;

ALTER TABLE gpu_history_1h_copy
    MODIFY QUERY SELECT window_ms, grouping, cluster, region, host, engine_id, placement_group, gpu_uuid, gpu_model, workload, origin, parent_uuid, mig_profile, event_count, last_at_ms, definition_version, util_gpu_pct_count, util_gpu_pct_sum, util_memory_pct_count, util_memory_pct_sum, power_mw_count, power_mw_sum, power_limit_mw_count, power_limit_mw_sum, power_limit_mw_max, temperature_c_count, temperature_c_sum, temperature_c_max, temperature_memory_c_count, temperature_memory_c_sum, clock_sm_mhz_count, clock_sm_mhz_sum, clock_memory_mhz_count, clock_memory_mhz_sum, sm_active_ppm_count, sm_active_ppm_sum, tensor_active_ppm_count, tensor_active_ppm_sum, pcie_generation_count, pcie_generation_sum, pcie_width_count, pcie_width_sum, pcie_width_max_count, pcie_width_max_sum, memory_used_bytes_count, memory_used_bytes_sum, memory_total_bytes_count, memory_total_bytes_sum, memory_total_bytes_max, interval_ms_sum, energy_mj_sum, throttled_us_sum, throttled_fault_us_sum, pcie_tx_bytes_sum, pcie_rx_bytes_sum, nvlink_tx_bytes_sum, nvlink_rx_bytes_sum, sm_occupancy_ppm_count, sm_occupancy_ppm_sum, dram_active_ppm_count, dram_active_ppm_sum, pcie_replays_sum, nvlink_errors_sum, memory_engine_bytes_count, memory_engine_bytes_sum, version
FROM gpu_samples_rollup_1h;

CREATE OR REPLACE VIEW request_windows
(
    window DateTime('UTC') COMMENT 'start of the 10 s window, event time',
    window_ms Int64 COMMENT 'start of the 10 s window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    tenant LowCardinality(Nullable(String)) COMMENT 'who sent the request',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class whose objectives apply',
    status LowCardinality(Nullable(String)) COMMENT 'how the request ended',
    error_kind LowCardinality(Nullable(String)) COMMENT 'why it failed; null when it did not',
    start LowCardinality(Nullable(String)) COMMENT 'cold when the engine had to load the model for it',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    input_bucket LowCardinality(Nullable(String)) COMMENT 'length of the prompt in tokens, in steps of four',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    ttft_us_count UInt64 COMMENT 'values of ttft_us that were known',
    ttft_us_sum Int64 COMMENT 'sum of: received to first token that carries content [us]',
    ttft_us_min Nullable(Int64) COMMENT 'least: received to first token that carries content [us]',
    ttft_us_max Nullable(Int64) COMMENT 'greatest: received to first token that carries content [us]',
    tpot_us_count UInt64 COMMENT 'values of tpot_us that were known',
    tpot_us_sum Int64 COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_min Nullable(Int64) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_max Nullable(Int64) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_count UInt64 COMMENT 'values of e2e_us that were known',
    e2e_us_sum Int64 COMMENT 'sum of: received to last byte [us]',
    e2e_us_min Nullable(Int64) COMMENT 'least: received to last byte [us]',
    e2e_us_max Nullable(Int64) COMMENT 'greatest: received to last byte [us]',
    queue_us_count UInt64 COMMENT 'values of queue_us that were known',
    queue_us_sum Int64 COMMENT 'sum of: received to scheduled by the engine [us]',
    queue_us_min Nullable(Int64) COMMENT 'least: received to scheduled by the engine [us]',
    queue_us_max Nullable(Int64) COMMENT 'greatest: received to scheduled by the engine [us]',
    input_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens, cached ones included [tokens]',
    cached_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens served from the prefix cache [tokens]',
    output_tokens_sum Nullable(Int64) COMMENT 'sum of: generated tokens, reasoning included [tokens]',
    reasoning_tokens_sum Nullable(Int64) COMMENT 'sum of: reasoning tokens inside the output [tokens]',
    judged_requests_sum Nullable(Int64) COMMENT 'sum of: requests that count for the objectives of their class [requests]',
    good_requests_sum Nullable(Int64) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]',
    good_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]',
    ttft_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to first token that carries content [us]',
    tpot_us_bins Map(Int16, UInt64) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to last byte [us]',
    queue_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to scheduled by the engine [us]',
    itl_bins Map(Int16, UInt64) COMMENT 'sketch of inter-token gaps inside the request [us]',
    ttft_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, ttft_us_bins), of: received to first token that carries content [us]',
    tpot_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, e2e_us_bins), of: received to last byte [us]',
    queue_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, queue_us_bins), of: received to scheduled by the engine [us]',
    itl_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, itl_bins), of: inter-token gaps inside the request [us]',
    requests_ok UInt64 COMMENT 'requests: answered in full',
    requests_aborted UInt64 COMMENT 'requests: the client went away before the end',
    requests_client_fault UInt64 COMMENT 'requests: rejected for what the client sent: 4xx other than 408 and 429, `error_kind` client',
    requests_failed UInt64 COMMENT 'requests: failed on our side: errors of server, engine and network, timeouts, rejections for overload'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.ttft_us_bins) AS fp_ttft_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.tpot_us_bins) AS fp_tpot_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.e2e_us_bins) AS fp_e2e_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.queue_us_bins) AS fp_queue_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.itl_bins) AS fp_itl_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.tenant AS tenant,
    m.slo_class AS slo_class,
    m.status AS status,
    m.error_kind AS error_kind,
    m.start AS start,
    m.origin AS origin,
    m.input_bucket AS input_bucket,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.ttft_us_count AS ttft_us_count,
    m.ttft_us_sum AS ttft_us_sum,
    m.ttft_us_min AS ttft_us_min,
    m.ttft_us_max AS ttft_us_max,
    m.tpot_us_count AS tpot_us_count,
    m.tpot_us_sum AS tpot_us_sum,
    m.tpot_us_min AS tpot_us_min,
    m.tpot_us_max AS tpot_us_max,
    m.e2e_us_count AS e2e_us_count,
    m.e2e_us_sum AS e2e_us_sum,
    m.e2e_us_min AS e2e_us_min,
    m.e2e_us_max AS e2e_us_max,
    m.queue_us_count AS queue_us_count,
    m.queue_us_sum AS queue_us_sum,
    m.queue_us_min AS queue_us_min,
    m.queue_us_max AS queue_us_max,
    m.input_tokens_sum AS input_tokens_sum,
    m.cached_tokens_sum AS cached_tokens_sum,
    m.output_tokens_sum AS output_tokens_sum,
    m.reasoning_tokens_sum AS reasoning_tokens_sum,
    m.judged_requests_sum AS judged_requests_sum,
    m.good_requests_sum AS good_requests_sum,
    m.good_tokens_sum AS good_tokens_sum,
    m.ttft_us_bins AS ttft_us_bins,
    m.tpot_us_bins AS tpot_us_bins,
    m.e2e_us_bins AS e2e_us_bins,
    m.queue_us_bins AS queue_us_bins,
    m.itl_bins AS itl_bins,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[1]) AS ttft_us_p50,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[2]) AS ttft_us_p90,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[3]) AS ttft_us_p95,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[4]) AS ttft_us_p99,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[1]) AS tpot_us_p50,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[2]) AS tpot_us_p90,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[3]) AS tpot_us_p95,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[4]) AS tpot_us_p99,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[1]) AS e2e_us_p50,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[2]) AS e2e_us_p90,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[3]) AS e2e_us_p95,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[4]) AS e2e_us_p99,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[1]) AS queue_us_p50,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[2]) AS queue_us_p90,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[3]) AS queue_us_p95,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[4]) AS queue_us_p99,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[1]) AS itl_us_p50,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[2]) AS itl_us_p90,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[3]) AS itl_us_p95,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[4]) AS itl_us_p99,
    if(ifNull(status, '') = 'ok', m.event_count, 0) AS requests_ok,
    if(ifNull(status, '') = 'aborted', m.event_count, 0) AS requests_aborted,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') = 'client', m.event_count, 0) AS requests_client_fault,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client', m.event_count, 0) AS requests_failed
FROM (
    SELECT
        p.window_ms AS window_ms,
        p.cluster AS cluster,
        p.region AS region,
        p.model AS model,
        p.model_version AS model_version,
        p.precision AS precision,
        p.tenant AS tenant,
        p.slo_class AS slo_class,
        p.status AS status,
        p.error_kind AS error_kind,
        p.start AS start,
        p.origin AS origin,
        p.input_bucket AS input_bucket,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.ttft_us_count) AS ttft_us_count,
        sum(p.ttft_us_sum) AS ttft_us_sum,
        min(p.ttft_us_min) AS ttft_us_min,
        max(p.ttft_us_max) AS ttft_us_max,
        sum(p.tpot_us_count) AS tpot_us_count,
        sum(p.tpot_us_sum) AS tpot_us_sum,
        min(p.tpot_us_min) AS tpot_us_min,
        max(p.tpot_us_max) AS tpot_us_max,
        sum(p.e2e_us_count) AS e2e_us_count,
        sum(p.e2e_us_sum) AS e2e_us_sum,
        min(p.e2e_us_min) AS e2e_us_min,
        max(p.e2e_us_max) AS e2e_us_max,
        sum(p.queue_us_count) AS queue_us_count,
        sum(p.queue_us_sum) AS queue_us_sum,
        min(p.queue_us_min) AS queue_us_min,
        max(p.queue_us_max) AS queue_us_max,
        sum(p.input_tokens_sum) AS input_tokens_sum,
        sum(p.cached_tokens_sum) AS cached_tokens_sum,
        sum(p.output_tokens_sum) AS output_tokens_sum,
        sum(p.reasoning_tokens_sum) AS reasoning_tokens_sum,
        sum(p.judged_requests_sum) AS judged_requests_sum,
        sum(p.good_requests_sum) AS good_requests_sum,
        sum(p.good_tokens_sum) AS good_tokens_sum,
        sumMap(p.ttft_us_bins) AS ttft_us_bins,
        sumMap(p.tpot_us_bins) AS tpot_us_bins,
        sumMap(p.e2e_us_bins) AS e2e_us_bins,
        sumMap(p.queue_us_bins) AS queue_us_bins,
        sumMap(p.itl_bins) AS itl_bins
    FROM llm_requests_partials AS p FINAL
    WHERE p.grouping = 'service'
    GROUP BY p.window_ms, p.cluster, p.region, p.model, p.model_version, p.precision, p.tenant, p.slo_class, p.status, p.error_kind, p.start, p.origin, p.input_bucket
) AS m
COMMENT 'llm.requests by 10 s window and cluster, region, model, model_version, precision, tenant, slo_class, input_bucket, status, error_kind, start, origin';

CREATE OR REPLACE VIEW engine_request_windows
(
    window DateTime('UTC') COMMENT 'start of the 10 s window, event time',
    window_ms Int64 COMMENT 'start of the 10 s window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    status LowCardinality(Nullable(String)) COMMENT 'how the request ended',
    error_kind LowCardinality(Nullable(String)) COMMENT 'why it failed; null when it did not',
    start LowCardinality(Nullable(String)) COMMENT 'cold when the engine had to load the model for it',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    ttft_us_count UInt64 COMMENT 'values of ttft_us that were known',
    ttft_us_sum Int64 COMMENT 'sum of: received to first token that carries content [us]',
    ttft_us_min Nullable(Int64) COMMENT 'least: received to first token that carries content [us]',
    ttft_us_max Nullable(Int64) COMMENT 'greatest: received to first token that carries content [us]',
    tpot_us_count UInt64 COMMENT 'values of tpot_us that were known',
    tpot_us_sum Int64 COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_min Nullable(Int64) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_max Nullable(Int64) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_count UInt64 COMMENT 'values of e2e_us that were known',
    e2e_us_sum Int64 COMMENT 'sum of: received to last byte [us]',
    e2e_us_min Nullable(Int64) COMMENT 'least: received to last byte [us]',
    e2e_us_max Nullable(Int64) COMMENT 'greatest: received to last byte [us]',
    queue_us_count UInt64 COMMENT 'values of queue_us that were known',
    queue_us_sum Int64 COMMENT 'sum of: received to scheduled by the engine [us]',
    queue_us_min Nullable(Int64) COMMENT 'least: received to scheduled by the engine [us]',
    queue_us_max Nullable(Int64) COMMENT 'greatest: received to scheduled by the engine [us]',
    input_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens, cached ones included [tokens]',
    cached_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens served from the prefix cache [tokens]',
    output_tokens_sum Nullable(Int64) COMMENT 'sum of: generated tokens, reasoning included [tokens]',
    reasoning_tokens_sum Nullable(Int64) COMMENT 'sum of: reasoning tokens inside the output [tokens]',
    judged_requests_sum Nullable(Int64) COMMENT 'sum of: requests that count for the objectives of their class [requests]',
    good_requests_sum Nullable(Int64) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]',
    good_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]',
    ttft_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to first token that carries content [us]',
    tpot_us_bins Map(Int16, UInt64) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to last byte [us]',
    queue_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to scheduled by the engine [us]',
    itl_bins Map(Int16, UInt64) COMMENT 'sketch of inter-token gaps inside the request [us]',
    ttft_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, ttft_us_bins), of: received to first token that carries content [us]',
    tpot_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, e2e_us_bins), of: received to last byte [us]',
    queue_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, queue_us_bins), of: received to scheduled by the engine [us]',
    itl_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, itl_bins), of: inter-token gaps inside the request [us]',
    requests_ok UInt64 COMMENT 'requests: answered in full',
    requests_aborted UInt64 COMMENT 'requests: the client went away before the end',
    requests_client_fault UInt64 COMMENT 'requests: rejected for what the client sent: 4xx other than 408 and 429, `error_kind` client',
    requests_failed UInt64 COMMENT 'requests: failed on our side: errors of server, engine and network, timeouts, rejections for overload'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.ttft_us_bins) AS fp_ttft_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.tpot_us_bins) AS fp_tpot_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.e2e_us_bins) AS fp_e2e_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.queue_us_bins) AS fp_queue_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.itl_bins) AS fp_itl_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.status AS status,
    m.error_kind AS error_kind,
    m.start AS start,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.ttft_us_count AS ttft_us_count,
    m.ttft_us_sum AS ttft_us_sum,
    m.ttft_us_min AS ttft_us_min,
    m.ttft_us_max AS ttft_us_max,
    m.tpot_us_count AS tpot_us_count,
    m.tpot_us_sum AS tpot_us_sum,
    m.tpot_us_min AS tpot_us_min,
    m.tpot_us_max AS tpot_us_max,
    m.e2e_us_count AS e2e_us_count,
    m.e2e_us_sum AS e2e_us_sum,
    m.e2e_us_min AS e2e_us_min,
    m.e2e_us_max AS e2e_us_max,
    m.queue_us_count AS queue_us_count,
    m.queue_us_sum AS queue_us_sum,
    m.queue_us_min AS queue_us_min,
    m.queue_us_max AS queue_us_max,
    m.input_tokens_sum AS input_tokens_sum,
    m.cached_tokens_sum AS cached_tokens_sum,
    m.output_tokens_sum AS output_tokens_sum,
    m.reasoning_tokens_sum AS reasoning_tokens_sum,
    m.judged_requests_sum AS judged_requests_sum,
    m.good_requests_sum AS good_requests_sum,
    m.good_tokens_sum AS good_tokens_sum,
    m.ttft_us_bins AS ttft_us_bins,
    m.tpot_us_bins AS tpot_us_bins,
    m.e2e_us_bins AS e2e_us_bins,
    m.queue_us_bins AS queue_us_bins,
    m.itl_bins AS itl_bins,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[1]) AS ttft_us_p50,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[2]) AS ttft_us_p90,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[3]) AS ttft_us_p95,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[4]) AS ttft_us_p99,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[1]) AS tpot_us_p50,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[2]) AS tpot_us_p90,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[3]) AS tpot_us_p95,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[4]) AS tpot_us_p99,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[1]) AS e2e_us_p50,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[2]) AS e2e_us_p90,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[3]) AS e2e_us_p95,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[4]) AS e2e_us_p99,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[1]) AS queue_us_p50,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[2]) AS queue_us_p90,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[3]) AS queue_us_p95,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[4]) AS queue_us_p99,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[1]) AS itl_us_p50,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[2]) AS itl_us_p90,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[3]) AS itl_us_p95,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[4]) AS itl_us_p99,
    if(ifNull(status, '') = 'ok', m.event_count, 0) AS requests_ok,
    if(ifNull(status, '') = 'aborted', m.event_count, 0) AS requests_aborted,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') = 'client', m.event_count, 0) AS requests_client_fault,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client', m.event_count, 0) AS requests_failed
FROM (
    SELECT
        p.window_ms AS window_ms,
        p.cluster AS cluster,
        p.region AS region,
        p.host AS host,
        p.engine_id AS engine_id,
        p.placement_group AS placement_group,
        p.model AS model,
        p.model_version AS model_version,
        p.precision AS precision,
        p.status AS status,
        p.error_kind AS error_kind,
        p.start AS start,
        p.origin AS origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.ttft_us_count) AS ttft_us_count,
        sum(p.ttft_us_sum) AS ttft_us_sum,
        min(p.ttft_us_min) AS ttft_us_min,
        max(p.ttft_us_max) AS ttft_us_max,
        sum(p.tpot_us_count) AS tpot_us_count,
        sum(p.tpot_us_sum) AS tpot_us_sum,
        min(p.tpot_us_min) AS tpot_us_min,
        max(p.tpot_us_max) AS tpot_us_max,
        sum(p.e2e_us_count) AS e2e_us_count,
        sum(p.e2e_us_sum) AS e2e_us_sum,
        min(p.e2e_us_min) AS e2e_us_min,
        max(p.e2e_us_max) AS e2e_us_max,
        sum(p.queue_us_count) AS queue_us_count,
        sum(p.queue_us_sum) AS queue_us_sum,
        min(p.queue_us_min) AS queue_us_min,
        max(p.queue_us_max) AS queue_us_max,
        sum(p.input_tokens_sum) AS input_tokens_sum,
        sum(p.cached_tokens_sum) AS cached_tokens_sum,
        sum(p.output_tokens_sum) AS output_tokens_sum,
        sum(p.reasoning_tokens_sum) AS reasoning_tokens_sum,
        sum(p.judged_requests_sum) AS judged_requests_sum,
        sum(p.good_requests_sum) AS good_requests_sum,
        sum(p.good_tokens_sum) AS good_tokens_sum,
        sumMap(p.ttft_us_bins) AS ttft_us_bins,
        sumMap(p.tpot_us_bins) AS tpot_us_bins,
        sumMap(p.e2e_us_bins) AS e2e_us_bins,
        sumMap(p.queue_us_bins) AS queue_us_bins,
        sumMap(p.itl_bins) AS itl_bins
    FROM llm_requests_partials AS p FINAL
    WHERE p.grouping = 'engine'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.status, p.error_kind, p.start, p.origin
) AS m
COMMENT 'llm.requests by 10 s window and cluster, region, host, engine_id, placement_group, model, model_version, precision, status, error_kind, start, origin';

CREATE OR REPLACE VIEW gpu_windows
(
    window DateTime('UTC') COMMENT 'start of the 10 s window, event time',
    window_ms Int64 COMMENT 'start of the 10 s window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name',
    workload LowCardinality(Nullable(String)) COMMENT 'what the GPU is used for',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    parent_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU that this MIG device is a part of',
    mig_profile LowCardinality(Nullable(String)) COMMENT 'size of the MIG device, such as 1g.10gb',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    util_gpu_pct_count UInt64 COMMENT 'values of util_gpu_pct that were known',
    util_gpu_pct_sum Int64 COMMENT 'sum of: share of time a kernel ran [%]',
    util_gpu_pct_min Nullable(Int64) COMMENT 'least: share of time a kernel ran [%]',
    util_gpu_pct_max Nullable(Int64) COMMENT 'greatest: share of time a kernel ran [%]',
    util_gpu_pct_last Nullable(Int64) COMMENT 'latest: share of time a kernel ran [%]',
    util_memory_pct_count UInt64 COMMENT 'values of util_memory_pct that were known',
    util_memory_pct_sum Int64 COMMENT 'sum of: share of time memory was read or written [%]',
    util_memory_pct_min Nullable(Int64) COMMENT 'least: share of time memory was read or written [%]',
    util_memory_pct_max Nullable(Int64) COMMENT 'greatest: share of time memory was read or written [%]',
    util_memory_pct_last Nullable(Int64) COMMENT 'latest: share of time memory was read or written [%]',
    power_mw_count UInt64 COMMENT 'values of power_mw that were known',
    power_mw_sum Int64 COMMENT 'sum of: power draw [mW]',
    power_mw_min Nullable(Int64) COMMENT 'least: power draw [mW]',
    power_mw_max Nullable(Int64) COMMENT 'greatest: power draw [mW]',
    power_mw_last Nullable(Int64) COMMENT 'latest: power draw [mW]',
    power_limit_mw_count UInt64 COMMENT 'values of power_limit_mw that were known',
    power_limit_mw_sum Int64 COMMENT 'sum of: enforced power limit [mW]',
    power_limit_mw_min Nullable(Int64) COMMENT 'least: enforced power limit [mW]',
    power_limit_mw_max Nullable(Int64) COMMENT 'greatest: enforced power limit [mW]',
    power_limit_mw_last Nullable(Int64) COMMENT 'latest: enforced power limit [mW]',
    temperature_c_count UInt64 COMMENT 'values of temperature_c that were known',
    temperature_c_sum Int64 COMMENT 'sum of: core temperature [C]',
    temperature_c_min Nullable(Int64) COMMENT 'least: core temperature [C]',
    temperature_c_max Nullable(Int64) COMMENT 'greatest: core temperature [C]',
    temperature_c_last Nullable(Int64) COMMENT 'latest: core temperature [C]',
    temperature_memory_c_count UInt64 COMMENT 'values of temperature_memory_c that were known',
    temperature_memory_c_sum Int64 COMMENT 'sum of: memory temperature [C]',
    temperature_memory_c_min Nullable(Int64) COMMENT 'least: memory temperature [C]',
    temperature_memory_c_max Nullable(Int64) COMMENT 'greatest: memory temperature [C]',
    temperature_memory_c_last Nullable(Int64) COMMENT 'latest: memory temperature [C]',
    clock_sm_mhz_count UInt64 COMMENT 'values of clock_sm_mhz that were known',
    clock_sm_mhz_sum Int64 COMMENT 'sum of: SM clock [MHz]',
    clock_sm_mhz_min Nullable(Int64) COMMENT 'least: SM clock [MHz]',
    clock_sm_mhz_max Nullable(Int64) COMMENT 'greatest: SM clock [MHz]',
    clock_sm_mhz_last Nullable(Int64) COMMENT 'latest: SM clock [MHz]',
    clock_memory_mhz_count UInt64 COMMENT 'values of clock_memory_mhz that were known',
    clock_memory_mhz_sum Int64 COMMENT 'sum of: memory clock [MHz]',
    clock_memory_mhz_min Nullable(Int64) COMMENT 'least: memory clock [MHz]',
    clock_memory_mhz_max Nullable(Int64) COMMENT 'greatest: memory clock [MHz]',
    clock_memory_mhz_last Nullable(Int64) COMMENT 'latest: memory clock [MHz]',
    sm_active_ppm_count UInt64 COMMENT 'values of sm_active_ppm that were known',
    sm_active_ppm_sum Int64 COMMENT 'sum of: share of SMs with a resident warp [ppm]',
    sm_active_ppm_min Nullable(Int64) COMMENT 'least: share of SMs with a resident warp [ppm]',
    sm_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of SMs with a resident warp [ppm]',
    sm_active_ppm_last Nullable(Int64) COMMENT 'latest: share of SMs with a resident warp [ppm]',
    tensor_active_ppm_count UInt64 COMMENT 'values of tensor_active_ppm that were known',
    tensor_active_ppm_sum Int64 COMMENT 'sum of: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_min Nullable(Int64) COMMENT 'least: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_last Nullable(Int64) COMMENT 'latest: share of cycles the tensor cores worked [ppm]',
    pcie_generation_count UInt64 COMMENT 'values of pcie_generation that were known',
    pcie_generation_sum Int64 COMMENT 'sum of: PCIe generation of the link now',
    pcie_generation_min Nullable(Int64) COMMENT 'least: PCIe generation of the link now',
    pcie_generation_max Nullable(Int64) COMMENT 'greatest: PCIe generation of the link now',
    pcie_generation_last Nullable(Int64) COMMENT 'latest: PCIe generation of the link now',
    pcie_width_count UInt64 COMMENT 'values of pcie_width that were known',
    pcie_width_sum Int64 COMMENT 'sum of: PCIe lanes in use [lanes]',
    pcie_width_min Nullable(Int64) COMMENT 'least: PCIe lanes in use [lanes]',
    pcie_width_max Nullable(Int64) COMMENT 'greatest: PCIe lanes in use [lanes]',
    pcie_width_last Nullable(Int64) COMMENT 'latest: PCIe lanes in use [lanes]',
    pcie_width_max_count UInt64 COMMENT 'values of pcie_width_max that were known',
    pcie_width_max_sum Int64 COMMENT 'sum of: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_min Nullable(Int64) COMMENT 'least: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_max Nullable(Int64) COMMENT 'greatest: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_last Nullable(Int64) COMMENT 'latest: PCIe lanes that GPU and slot have [lanes]',
    memory_used_bytes_count UInt64 COMMENT 'values of memory_used_bytes that were known',
    memory_used_bytes_sum Int64 COMMENT 'sum of: memory in use, reserved excluded [bytes]',
    memory_used_bytes_min Nullable(Int64) COMMENT 'least: memory in use, reserved excluded [bytes]',
    memory_used_bytes_max Nullable(Int64) COMMENT 'greatest: memory in use, reserved excluded [bytes]',
    memory_used_bytes_last Nullable(Int64) COMMENT 'latest: memory in use, reserved excluded [bytes]',
    memory_total_bytes_count UInt64 COMMENT 'values of memory_total_bytes that were known',
    memory_total_bytes_sum Int64 COMMENT 'sum of: physical memory [bytes]',
    memory_total_bytes_min Nullable(Int64) COMMENT 'least: physical memory [bytes]',
    memory_total_bytes_max Nullable(Int64) COMMENT 'greatest: physical memory [bytes]',
    memory_total_bytes_last Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    energy_mj_sum Nullable(Int64) COMMENT 'sum of: energy since the previous reading [mJ]',
    throttled_us_sum Nullable(Int64) COMMENT 'sum of: time clocks were throttled by power or heat [us]',
    throttled_fault_us_sum Nullable(Int64) COMMENT 'sum of: time clocks were throttled by anything but the power limit [us]',
    pcie_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent over PCIe [bytes]',
    pcie_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received over PCIe [bytes]',
    nvlink_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent over NVLink [bytes]',
    nvlink_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received over NVLink [bytes]',
    sm_occupancy_ppm_count UInt64 COMMENT 'values of sm_occupancy_ppm that were known',
    sm_occupancy_ppm_sum Int64 COMMENT 'sum of: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_min Nullable(Int64) COMMENT 'least: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_max Nullable(Int64) COMMENT 'greatest: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_last Nullable(Int64) COMMENT 'latest: resident warps of those that fit [ppm]',
    dram_active_ppm_count UInt64 COMMENT 'values of dram_active_ppm that were known',
    dram_active_ppm_sum Int64 COMMENT 'sum of: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_min Nullable(Int64) COMMENT 'least: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_last Nullable(Int64) COMMENT 'latest: share of the memory bandwidth in use [ppm]',
    pcie_replays_sum Nullable(Int64) COMMENT 'sum of: PCIe replays since the previous reading',
    nvlink_errors_sum Nullable(Int64) COMMENT 'sum of: NVLink errors since the previous reading',
    memory_engine_bytes_count UInt64 COMMENT 'values of memory_engine_bytes that were known',
    memory_engine_bytes_sum Int64 COMMENT 'sum of: memory that the engines on it may take [bytes]',
    memory_engine_bytes_min Nullable(Int64) COMMENT 'least: memory that the engines on it may take [bytes]',
    memory_engine_bytes_max Nullable(Int64) COMMENT 'greatest: memory that the engines on it may take [bytes]',
    memory_engine_bytes_last Nullable(Int64) COMMENT 'latest: memory that the engines on it may take [bytes]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.gpu_uuid AS gpu_uuid,
    m.gpu_model AS gpu_model,
    m.workload AS workload,
    m.origin AS origin,
    m.parent_uuid AS parent_uuid,
    m.mig_profile AS mig_profile,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.util_gpu_pct_count AS util_gpu_pct_count,
    m.util_gpu_pct_sum AS util_gpu_pct_sum,
    m.util_gpu_pct_min AS util_gpu_pct_min,
    m.util_gpu_pct_max AS util_gpu_pct_max,
    m.util_gpu_pct_last AS util_gpu_pct_last,
    m.util_memory_pct_count AS util_memory_pct_count,
    m.util_memory_pct_sum AS util_memory_pct_sum,
    m.util_memory_pct_min AS util_memory_pct_min,
    m.util_memory_pct_max AS util_memory_pct_max,
    m.util_memory_pct_last AS util_memory_pct_last,
    m.power_mw_count AS power_mw_count,
    m.power_mw_sum AS power_mw_sum,
    m.power_mw_min AS power_mw_min,
    m.power_mw_max AS power_mw_max,
    m.power_mw_last AS power_mw_last,
    m.power_limit_mw_count AS power_limit_mw_count,
    m.power_limit_mw_sum AS power_limit_mw_sum,
    m.power_limit_mw_min AS power_limit_mw_min,
    m.power_limit_mw_max AS power_limit_mw_max,
    m.power_limit_mw_last AS power_limit_mw_last,
    m.temperature_c_count AS temperature_c_count,
    m.temperature_c_sum AS temperature_c_sum,
    m.temperature_c_min AS temperature_c_min,
    m.temperature_c_max AS temperature_c_max,
    m.temperature_c_last AS temperature_c_last,
    m.temperature_memory_c_count AS temperature_memory_c_count,
    m.temperature_memory_c_sum AS temperature_memory_c_sum,
    m.temperature_memory_c_min AS temperature_memory_c_min,
    m.temperature_memory_c_max AS temperature_memory_c_max,
    m.temperature_memory_c_last AS temperature_memory_c_last,
    m.clock_sm_mhz_count AS clock_sm_mhz_count,
    m.clock_sm_mhz_sum AS clock_sm_mhz_sum,
    m.clock_sm_mhz_min AS clock_sm_mhz_min,
    m.clock_sm_mhz_max AS clock_sm_mhz_max,
    m.clock_sm_mhz_last AS clock_sm_mhz_last,
    m.clock_memory_mhz_count AS clock_memory_mhz_count,
    m.clock_memory_mhz_sum AS clock_memory_mhz_sum,
    m.clock_memory_mhz_min AS clock_memory_mhz_min,
    m.clock_memory_mhz_max AS clock_memory_mhz_max,
    m.clock_memory_mhz_last AS clock_memory_mhz_last,
    m.sm_active_ppm_count AS sm_active_ppm_count,
    m.sm_active_ppm_sum AS sm_active_ppm_sum,
    m.sm_active_ppm_min AS sm_active_ppm_min,
    m.sm_active_ppm_max AS sm_active_ppm_max,
    m.sm_active_ppm_last AS sm_active_ppm_last,
    m.tensor_active_ppm_count AS tensor_active_ppm_count,
    m.tensor_active_ppm_sum AS tensor_active_ppm_sum,
    m.tensor_active_ppm_min AS tensor_active_ppm_min,
    m.tensor_active_ppm_max AS tensor_active_ppm_max,
    m.tensor_active_ppm_last AS tensor_active_ppm_last,
    m.pcie_generation_count AS pcie_generation_count,
    m.pcie_generation_sum AS pcie_generation_sum,
    m.pcie_generation_min AS pcie_generation_min,
    m.pcie_generation_max AS pcie_generation_max,
    m.pcie_generation_last AS pcie_generation_last,
    m.pcie_width_count AS pcie_width_count,
    m.pcie_width_sum AS pcie_width_sum,
    m.pcie_width_min AS pcie_width_min,
    m.pcie_width_max AS pcie_width_max,
    m.pcie_width_last AS pcie_width_last,
    m.pcie_width_max_count AS pcie_width_max_count,
    m.pcie_width_max_sum AS pcie_width_max_sum,
    m.pcie_width_max_min AS pcie_width_max_min,
    m.pcie_width_max_max AS pcie_width_max_max,
    m.pcie_width_max_last AS pcie_width_max_last,
    m.memory_used_bytes_count AS memory_used_bytes_count,
    m.memory_used_bytes_sum AS memory_used_bytes_sum,
    m.memory_used_bytes_min AS memory_used_bytes_min,
    m.memory_used_bytes_max AS memory_used_bytes_max,
    m.memory_used_bytes_last AS memory_used_bytes_last,
    m.memory_total_bytes_count AS memory_total_bytes_count,
    m.memory_total_bytes_sum AS memory_total_bytes_sum,
    m.memory_total_bytes_min AS memory_total_bytes_min,
    m.memory_total_bytes_max AS memory_total_bytes_max,
    m.memory_total_bytes_last AS memory_total_bytes_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.energy_mj_sum AS energy_mj_sum,
    m.throttled_us_sum AS throttled_us_sum,
    m.throttled_fault_us_sum AS throttled_fault_us_sum,
    m.pcie_tx_bytes_sum AS pcie_tx_bytes_sum,
    m.pcie_rx_bytes_sum AS pcie_rx_bytes_sum,
    m.nvlink_tx_bytes_sum AS nvlink_tx_bytes_sum,
    m.nvlink_rx_bytes_sum AS nvlink_rx_bytes_sum,
    m.sm_occupancy_ppm_count AS sm_occupancy_ppm_count,
    m.sm_occupancy_ppm_sum AS sm_occupancy_ppm_sum,
    m.sm_occupancy_ppm_min AS sm_occupancy_ppm_min,
    m.sm_occupancy_ppm_max AS sm_occupancy_ppm_max,
    m.sm_occupancy_ppm_last AS sm_occupancy_ppm_last,
    m.dram_active_ppm_count AS dram_active_ppm_count,
    m.dram_active_ppm_sum AS dram_active_ppm_sum,
    m.dram_active_ppm_min AS dram_active_ppm_min,
    m.dram_active_ppm_max AS dram_active_ppm_max,
    m.dram_active_ppm_last AS dram_active_ppm_last,
    m.pcie_replays_sum AS pcie_replays_sum,
    m.nvlink_errors_sum AS nvlink_errors_sum,
    m.memory_engine_bytes_count AS memory_engine_bytes_count,
    m.memory_engine_bytes_sum AS memory_engine_bytes_sum,
    m.memory_engine_bytes_min AS memory_engine_bytes_min,
    m.memory_engine_bytes_max AS memory_engine_bytes_max,
    m.memory_engine_bytes_last AS memory_engine_bytes_last
FROM (
    SELECT
        p.window_ms AS window_ms,
        p.cluster AS cluster,
        p.region AS region,
        p.host AS host,
        p.engine_id AS engine_id,
        p.placement_group AS placement_group,
        p.gpu_uuid AS gpu_uuid,
        p.gpu_model AS gpu_model,
        p.workload AS workload,
        p.origin AS origin,
        p.parent_uuid AS parent_uuid,
        p.mig_profile AS mig_profile,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.util_gpu_pct_count) AS util_gpu_pct_count,
        sum(p.util_gpu_pct_sum) AS util_gpu_pct_sum,
        min(p.util_gpu_pct_min) AS util_gpu_pct_min,
        max(p.util_gpu_pct_max) AS util_gpu_pct_max,
        tupleElement(argMax(tuple(p.util_gpu_pct_last), (p.last_at_ms, ifNull(p.util_gpu_pct_last, -9223372036854775807))), 1) AS util_gpu_pct_last,
        sum(p.util_memory_pct_count) AS util_memory_pct_count,
        sum(p.util_memory_pct_sum) AS util_memory_pct_sum,
        min(p.util_memory_pct_min) AS util_memory_pct_min,
        max(p.util_memory_pct_max) AS util_memory_pct_max,
        tupleElement(argMax(tuple(p.util_memory_pct_last), (p.last_at_ms, ifNull(p.util_memory_pct_last, -9223372036854775807))), 1) AS util_memory_pct_last,
        sum(p.power_mw_count) AS power_mw_count,
        sum(p.power_mw_sum) AS power_mw_sum,
        min(p.power_mw_min) AS power_mw_min,
        max(p.power_mw_max) AS power_mw_max,
        tupleElement(argMax(tuple(p.power_mw_last), (p.last_at_ms, ifNull(p.power_mw_last, -9223372036854775807))), 1) AS power_mw_last,
        sum(p.power_limit_mw_count) AS power_limit_mw_count,
        sum(p.power_limit_mw_sum) AS power_limit_mw_sum,
        min(p.power_limit_mw_min) AS power_limit_mw_min,
        max(p.power_limit_mw_max) AS power_limit_mw_max,
        tupleElement(argMax(tuple(p.power_limit_mw_last), (p.last_at_ms, ifNull(p.power_limit_mw_last, -9223372036854775807))), 1) AS power_limit_mw_last,
        sum(p.temperature_c_count) AS temperature_c_count,
        sum(p.temperature_c_sum) AS temperature_c_sum,
        min(p.temperature_c_min) AS temperature_c_min,
        max(p.temperature_c_max) AS temperature_c_max,
        tupleElement(argMax(tuple(p.temperature_c_last), (p.last_at_ms, ifNull(p.temperature_c_last, -9223372036854775807))), 1) AS temperature_c_last,
        sum(p.temperature_memory_c_count) AS temperature_memory_c_count,
        sum(p.temperature_memory_c_sum) AS temperature_memory_c_sum,
        min(p.temperature_memory_c_min) AS temperature_memory_c_min,
        max(p.temperature_memory_c_max) AS temperature_memory_c_max,
        tupleElement(argMax(tuple(p.temperature_memory_c_last), (p.last_at_ms, ifNull(p.temperature_memory_c_last, -9223372036854775807))), 1) AS temperature_memory_c_last,
        sum(p.clock_sm_mhz_count) AS clock_sm_mhz_count,
        sum(p.clock_sm_mhz_sum) AS clock_sm_mhz_sum,
        min(p.clock_sm_mhz_min) AS clock_sm_mhz_min,
        max(p.clock_sm_mhz_max) AS clock_sm_mhz_max,
        tupleElement(argMax(tuple(p.clock_sm_mhz_last), (p.last_at_ms, ifNull(p.clock_sm_mhz_last, -9223372036854775807))), 1) AS clock_sm_mhz_last,
        sum(p.clock_memory_mhz_count) AS clock_memory_mhz_count,
        sum(p.clock_memory_mhz_sum) AS clock_memory_mhz_sum,
        min(p.clock_memory_mhz_min) AS clock_memory_mhz_min,
        max(p.clock_memory_mhz_max) AS clock_memory_mhz_max,
        tupleElement(argMax(tuple(p.clock_memory_mhz_last), (p.last_at_ms, ifNull(p.clock_memory_mhz_last, -9223372036854775807))), 1) AS clock_memory_mhz_last,
        sum(p.sm_active_ppm_count) AS sm_active_ppm_count,
        sum(p.sm_active_ppm_sum) AS sm_active_ppm_sum,
        min(p.sm_active_ppm_min) AS sm_active_ppm_min,
        max(p.sm_active_ppm_max) AS sm_active_ppm_max,
        tupleElement(argMax(tuple(p.sm_active_ppm_last), (p.last_at_ms, ifNull(p.sm_active_ppm_last, -9223372036854775807))), 1) AS sm_active_ppm_last,
        sum(p.tensor_active_ppm_count) AS tensor_active_ppm_count,
        sum(p.tensor_active_ppm_sum) AS tensor_active_ppm_sum,
        min(p.tensor_active_ppm_min) AS tensor_active_ppm_min,
        max(p.tensor_active_ppm_max) AS tensor_active_ppm_max,
        tupleElement(argMax(tuple(p.tensor_active_ppm_last), (p.last_at_ms, ifNull(p.tensor_active_ppm_last, -9223372036854775807))), 1) AS tensor_active_ppm_last,
        sum(p.pcie_generation_count) AS pcie_generation_count,
        sum(p.pcie_generation_sum) AS pcie_generation_sum,
        min(p.pcie_generation_min) AS pcie_generation_min,
        max(p.pcie_generation_max) AS pcie_generation_max,
        tupleElement(argMax(tuple(p.pcie_generation_last), (p.last_at_ms, ifNull(p.pcie_generation_last, -9223372036854775807))), 1) AS pcie_generation_last,
        sum(p.pcie_width_count) AS pcie_width_count,
        sum(p.pcie_width_sum) AS pcie_width_sum,
        min(p.pcie_width_min) AS pcie_width_min,
        max(p.pcie_width_max) AS pcie_width_max,
        tupleElement(argMax(tuple(p.pcie_width_last), (p.last_at_ms, ifNull(p.pcie_width_last, -9223372036854775807))), 1) AS pcie_width_last,
        sum(p.pcie_width_max_count) AS pcie_width_max_count,
        sum(p.pcie_width_max_sum) AS pcie_width_max_sum,
        min(p.pcie_width_max_min) AS pcie_width_max_min,
        max(p.pcie_width_max_max) AS pcie_width_max_max,
        tupleElement(argMax(tuple(p.pcie_width_max_last), (p.last_at_ms, ifNull(p.pcie_width_max_last, -9223372036854775807))), 1) AS pcie_width_max_last,
        sum(p.memory_used_bytes_count) AS memory_used_bytes_count,
        sum(p.memory_used_bytes_sum) AS memory_used_bytes_sum,
        min(p.memory_used_bytes_min) AS memory_used_bytes_min,
        max(p.memory_used_bytes_max) AS memory_used_bytes_max,
        tupleElement(argMax(tuple(p.memory_used_bytes_last), (p.last_at_ms, ifNull(p.memory_used_bytes_last, -9223372036854775807))), 1) AS memory_used_bytes_last,
        sum(p.memory_total_bytes_count) AS memory_total_bytes_count,
        sum(p.memory_total_bytes_sum) AS memory_total_bytes_sum,
        min(p.memory_total_bytes_min) AS memory_total_bytes_min,
        max(p.memory_total_bytes_max) AS memory_total_bytes_max,
        tupleElement(argMax(tuple(p.memory_total_bytes_last), (p.last_at_ms, ifNull(p.memory_total_bytes_last, -9223372036854775807))), 1) AS memory_total_bytes_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.energy_mj_sum) AS energy_mj_sum,
        sum(p.throttled_us_sum) AS throttled_us_sum,
        sum(p.throttled_fault_us_sum) AS throttled_fault_us_sum,
        sum(p.pcie_tx_bytes_sum) AS pcie_tx_bytes_sum,
        sum(p.pcie_rx_bytes_sum) AS pcie_rx_bytes_sum,
        sum(p.nvlink_tx_bytes_sum) AS nvlink_tx_bytes_sum,
        sum(p.nvlink_rx_bytes_sum) AS nvlink_rx_bytes_sum,
        sum(p.sm_occupancy_ppm_count) AS sm_occupancy_ppm_count,
        sum(p.sm_occupancy_ppm_sum) AS sm_occupancy_ppm_sum,
        min(p.sm_occupancy_ppm_min) AS sm_occupancy_ppm_min,
        max(p.sm_occupancy_ppm_max) AS sm_occupancy_ppm_max,
        tupleElement(argMax(tuple(p.sm_occupancy_ppm_last), (p.last_at_ms, ifNull(p.sm_occupancy_ppm_last, -9223372036854775807))), 1) AS sm_occupancy_ppm_last,
        sum(p.dram_active_ppm_count) AS dram_active_ppm_count,
        sum(p.dram_active_ppm_sum) AS dram_active_ppm_sum,
        min(p.dram_active_ppm_min) AS dram_active_ppm_min,
        max(p.dram_active_ppm_max) AS dram_active_ppm_max,
        tupleElement(argMax(tuple(p.dram_active_ppm_last), (p.last_at_ms, ifNull(p.dram_active_ppm_last, -9223372036854775807))), 1) AS dram_active_ppm_last,
        sum(p.pcie_replays_sum) AS pcie_replays_sum,
        sum(p.nvlink_errors_sum) AS nvlink_errors_sum,
        sum(p.memory_engine_bytes_count) AS memory_engine_bytes_count,
        sum(p.memory_engine_bytes_sum) AS memory_engine_bytes_sum,
        min(p.memory_engine_bytes_min) AS memory_engine_bytes_min,
        max(p.memory_engine_bytes_max) AS memory_engine_bytes_max,
        tupleElement(argMax(tuple(p.memory_engine_bytes_last), (p.last_at_ms, ifNull(p.memory_engine_bytes_last, -9223372036854775807))), 1) AS memory_engine_bytes_last
    FROM gpu_samples_partials AS p FINAL
    WHERE p.grouping = 'gpu'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.gpu_uuid, p.gpu_model, p.workload, p.origin, p.parent_uuid, p.mig_profile
) AS m
COMMENT 'gpu.samples by 10 s window and cluster, region, host, gpu_uuid, gpu_model, engine_id, placement_group, workload, origin, parent_uuid, mig_profile';

CREATE OR REPLACE VIEW gpu_event_windows
(
    window DateTime('UTC') COMMENT 'start of the 10 s window, event time',
    window_ms Int64 COMMENT 'start of the 10 s window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name',
    kind LowCardinality(Nullable(String)) COMMENT 'what kind of event',
    severity LowCardinality(Nullable(String)) COMMENT 'how bad',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.gpu_uuid AS gpu_uuid,
    m.gpu_model AS gpu_model,
    m.kind AS kind,
    m.severity AS severity,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version
FROM (
    SELECT
        p.window_ms AS window_ms,
        p.cluster AS cluster,
        p.region AS region,
        p.host AS host,
        p.engine_id AS engine_id,
        p.placement_group AS placement_group,
        p.gpu_uuid AS gpu_uuid,
        p.gpu_model AS gpu_model,
        p.kind AS kind,
        p.severity AS severity,
        p.origin AS origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version
    FROM gpu_events_partials AS p FINAL
    WHERE p.grouping = 'gpu_event'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.gpu_uuid, p.gpu_model, p.kind, p.severity, p.origin
) AS m
COMMENT 'gpu.events by 10 s window and cluster, region, host, gpu_uuid, gpu_model, engine_id, placement_group, kind, severity, origin';

CREATE OR REPLACE VIEW host_windows
(
    window DateTime('UTC') COMMENT 'start of the 10 s window, event time',
    window_ms Int64 COMMENT 'start of the 10 s window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    cpu_busy_ppm_count UInt64 COMMENT 'values of cpu_busy_ppm that were known',
    cpu_busy_ppm_sum Int64 COMMENT 'sum of: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_min Nullable(Int64) COMMENT 'least: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_max Nullable(Int64) COMMENT 'greatest: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_last Nullable(Int64) COMMENT 'latest: share of all processors\' time not idle [ppm]',
    cpu_iowait_ppm_count UInt64 COMMENT 'values of cpu_iowait_ppm that were known',
    cpu_iowait_ppm_sum Int64 COMMENT 'sum of: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_min Nullable(Int64) COMMENT 'least: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_max Nullable(Int64) COMMENT 'greatest: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_last Nullable(Int64) COMMENT 'latest: share of all processors\' time waiting for disks [ppm]',
    cpu_core_busy_max_ppm_count UInt64 COMMENT 'values of cpu_core_busy_max_ppm that were known',
    cpu_core_busy_max_ppm_sum Int64 COMMENT 'sum of: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_min Nullable(Int64) COMMENT 'least: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_max Nullable(Int64) COMMENT 'greatest: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_last Nullable(Int64) COMMENT 'latest: busiest logical processor: share of its time not idle [ppm]',
    load_1m_milli_count UInt64 COMMENT 'values of load_1m_milli that were known',
    load_1m_milli_sum Int64 COMMENT 'sum of: load average over one minute [1/1000]',
    load_1m_milli_min Nullable(Int64) COMMENT 'least: load average over one minute [1/1000]',
    load_1m_milli_max Nullable(Int64) COMMENT 'greatest: load average over one minute [1/1000]',
    load_1m_milli_last Nullable(Int64) COMMENT 'latest: load average over one minute [1/1000]',
    processors_count UInt64 COMMENT 'values of processors that were known',
    processors_sum Int64 COMMENT 'sum of: logical processors',
    processors_min Nullable(Int64) COMMENT 'least: logical processors',
    processors_max Nullable(Int64) COMMENT 'greatest: logical processors',
    processors_last Nullable(Int64) COMMENT 'latest: logical processors',
    memory_used_bytes_count UInt64 COMMENT 'values of memory_used_bytes that were known',
    memory_used_bytes_sum Int64 COMMENT 'sum of: total minus available [bytes]',
    memory_used_bytes_min Nullable(Int64) COMMENT 'least: total minus available [bytes]',
    memory_used_bytes_max Nullable(Int64) COMMENT 'greatest: total minus available [bytes]',
    memory_used_bytes_last Nullable(Int64) COMMENT 'latest: total minus available [bytes]',
    memory_total_bytes_count UInt64 COMMENT 'values of memory_total_bytes that were known',
    memory_total_bytes_sum Int64 COMMENT 'sum of: physical memory [bytes]',
    memory_total_bytes_min Nullable(Int64) COMMENT 'least: physical memory [bytes]',
    memory_total_bytes_max Nullable(Int64) COMMENT 'greatest: physical memory [bytes]',
    memory_total_bytes_last Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    swap_used_bytes_count UInt64 COMMENT 'values of swap_used_bytes that were known',
    swap_used_bytes_sum Int64 COMMENT 'sum of: swap in use [bytes]',
    swap_used_bytes_min Nullable(Int64) COMMENT 'least: swap in use [bytes]',
    swap_used_bytes_max Nullable(Int64) COMMENT 'greatest: swap in use [bytes]',
    swap_used_bytes_last Nullable(Int64) COMMENT 'latest: swap in use [bytes]',
    disk_queue_milli_count UInt64 COMMENT 'values of disk_queue_milli that were known',
    disk_queue_milli_sum Int64 COMMENT 'sum of: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_min Nullable(Int64) COMMENT 'least: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_max Nullable(Int64) COMMENT 'greatest: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_last Nullable(Int64) COMMENT 'latest: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    cpu_pressure_ppm_count UInt64 COMMENT 'values of cpu_pressure_ppm that were known',
    cpu_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for a processor [ppm]',
    memory_pressure_ppm_count UInt64 COMMENT 'values of memory_pressure_ppm that were known',
    memory_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for memory [ppm]',
    memory_full_pressure_ppm_count UInt64 COMMENT 'values of memory_full_pressure_ppm that were known',
    memory_full_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which all tasks waited for memory [ppm]',
    io_pressure_ppm_count UInt64 COMMENT 'values of io_pressure_ppm that were known',
    io_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for a disk [ppm]',
    agent_collect_us_count UInt64 COMMENT 'values of agent_collect_us that were known',
    agent_collect_us_sum Int64 COMMENT 'sum of: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_min Nullable(Int64) COMMENT 'least: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_max Nullable(Int64) COMMENT 'greatest: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_last Nullable(Int64) COMMENT 'latest: processor time of one round of the agent\'s collectors [us]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    network_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent, all interfaces with hardware [bytes]',
    network_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received, all interfaces with hardware [bytes]',
    network_errors_sum Nullable(Int64) COMMENT 'sum of: errors and drops, both ways',
    disk_read_bytes_sum Nullable(Int64) COMMENT 'sum of: read from disks [bytes]',
    disk_write_bytes_sum Nullable(Int64) COMMENT 'sum of: written to disks [bytes]',
    disk_busy_ms_sum Nullable(Int64) COMMENT 'sum of: time disks were busy, summed [ms]',
    swap_in_bytes_sum Nullable(Int64) COMMENT 'sum of: read back from swap [bytes]',
    swap_out_bytes_sum Nullable(Int64) COMMENT 'sum of: written to swap [bytes]',
    tcp_retransmits_sum Nullable(Int64) COMMENT 'sum of: TCP segments sent again',
    tcp_segments_out_sum Nullable(Int64) COMMENT 'sum of: TCP segments sent, repeats left out',
    rdma_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent, all InfiniBand and RoCE ports [bytes]',
    rdma_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received, all InfiniBand and RoCE ports [bytes]',
    rdma_errors_sum Nullable(Int64) COMMENT 'sum of: errors of all these ports, both ways'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.cpu_busy_ppm_count AS cpu_busy_ppm_count,
    m.cpu_busy_ppm_sum AS cpu_busy_ppm_sum,
    m.cpu_busy_ppm_min AS cpu_busy_ppm_min,
    m.cpu_busy_ppm_max AS cpu_busy_ppm_max,
    m.cpu_busy_ppm_last AS cpu_busy_ppm_last,
    m.cpu_iowait_ppm_count AS cpu_iowait_ppm_count,
    m.cpu_iowait_ppm_sum AS cpu_iowait_ppm_sum,
    m.cpu_iowait_ppm_min AS cpu_iowait_ppm_min,
    m.cpu_iowait_ppm_max AS cpu_iowait_ppm_max,
    m.cpu_iowait_ppm_last AS cpu_iowait_ppm_last,
    m.cpu_core_busy_max_ppm_count AS cpu_core_busy_max_ppm_count,
    m.cpu_core_busy_max_ppm_sum AS cpu_core_busy_max_ppm_sum,
    m.cpu_core_busy_max_ppm_min AS cpu_core_busy_max_ppm_min,
    m.cpu_core_busy_max_ppm_max AS cpu_core_busy_max_ppm_max,
    m.cpu_core_busy_max_ppm_last AS cpu_core_busy_max_ppm_last,
    m.load_1m_milli_count AS load_1m_milli_count,
    m.load_1m_milli_sum AS load_1m_milli_sum,
    m.load_1m_milli_min AS load_1m_milli_min,
    m.load_1m_milli_max AS load_1m_milli_max,
    m.load_1m_milli_last AS load_1m_milli_last,
    m.processors_count AS processors_count,
    m.processors_sum AS processors_sum,
    m.processors_min AS processors_min,
    m.processors_max AS processors_max,
    m.processors_last AS processors_last,
    m.memory_used_bytes_count AS memory_used_bytes_count,
    m.memory_used_bytes_sum AS memory_used_bytes_sum,
    m.memory_used_bytes_min AS memory_used_bytes_min,
    m.memory_used_bytes_max AS memory_used_bytes_max,
    m.memory_used_bytes_last AS memory_used_bytes_last,
    m.memory_total_bytes_count AS memory_total_bytes_count,
    m.memory_total_bytes_sum AS memory_total_bytes_sum,
    m.memory_total_bytes_min AS memory_total_bytes_min,
    m.memory_total_bytes_max AS memory_total_bytes_max,
    m.memory_total_bytes_last AS memory_total_bytes_last,
    m.swap_used_bytes_count AS swap_used_bytes_count,
    m.swap_used_bytes_sum AS swap_used_bytes_sum,
    m.swap_used_bytes_min AS swap_used_bytes_min,
    m.swap_used_bytes_max AS swap_used_bytes_max,
    m.swap_used_bytes_last AS swap_used_bytes_last,
    m.disk_queue_milli_count AS disk_queue_milli_count,
    m.disk_queue_milli_sum AS disk_queue_milli_sum,
    m.disk_queue_milli_min AS disk_queue_milli_min,
    m.disk_queue_milli_max AS disk_queue_milli_max,
    m.disk_queue_milli_last AS disk_queue_milli_last,
    m.cpu_pressure_ppm_count AS cpu_pressure_ppm_count,
    m.cpu_pressure_ppm_sum AS cpu_pressure_ppm_sum,
    m.cpu_pressure_ppm_min AS cpu_pressure_ppm_min,
    m.cpu_pressure_ppm_max AS cpu_pressure_ppm_max,
    m.cpu_pressure_ppm_last AS cpu_pressure_ppm_last,
    m.memory_pressure_ppm_count AS memory_pressure_ppm_count,
    m.memory_pressure_ppm_sum AS memory_pressure_ppm_sum,
    m.memory_pressure_ppm_min AS memory_pressure_ppm_min,
    m.memory_pressure_ppm_max AS memory_pressure_ppm_max,
    m.memory_pressure_ppm_last AS memory_pressure_ppm_last,
    m.memory_full_pressure_ppm_count AS memory_full_pressure_ppm_count,
    m.memory_full_pressure_ppm_sum AS memory_full_pressure_ppm_sum,
    m.memory_full_pressure_ppm_min AS memory_full_pressure_ppm_min,
    m.memory_full_pressure_ppm_max AS memory_full_pressure_ppm_max,
    m.memory_full_pressure_ppm_last AS memory_full_pressure_ppm_last,
    m.io_pressure_ppm_count AS io_pressure_ppm_count,
    m.io_pressure_ppm_sum AS io_pressure_ppm_sum,
    m.io_pressure_ppm_min AS io_pressure_ppm_min,
    m.io_pressure_ppm_max AS io_pressure_ppm_max,
    m.io_pressure_ppm_last AS io_pressure_ppm_last,
    m.agent_collect_us_count AS agent_collect_us_count,
    m.agent_collect_us_sum AS agent_collect_us_sum,
    m.agent_collect_us_min AS agent_collect_us_min,
    m.agent_collect_us_max AS agent_collect_us_max,
    m.agent_collect_us_last AS agent_collect_us_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.network_tx_bytes_sum AS network_tx_bytes_sum,
    m.network_rx_bytes_sum AS network_rx_bytes_sum,
    m.network_errors_sum AS network_errors_sum,
    m.disk_read_bytes_sum AS disk_read_bytes_sum,
    m.disk_write_bytes_sum AS disk_write_bytes_sum,
    m.disk_busy_ms_sum AS disk_busy_ms_sum,
    m.swap_in_bytes_sum AS swap_in_bytes_sum,
    m.swap_out_bytes_sum AS swap_out_bytes_sum,
    m.tcp_retransmits_sum AS tcp_retransmits_sum,
    m.tcp_segments_out_sum AS tcp_segments_out_sum,
    m.rdma_tx_bytes_sum AS rdma_tx_bytes_sum,
    m.rdma_rx_bytes_sum AS rdma_rx_bytes_sum,
    m.rdma_errors_sum AS rdma_errors_sum
FROM (
    SELECT
        p.window_ms AS window_ms,
        p.cluster AS cluster,
        p.region AS region,
        p.host AS host,
        p.origin AS origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.cpu_busy_ppm_count) AS cpu_busy_ppm_count,
        sum(p.cpu_busy_ppm_sum) AS cpu_busy_ppm_sum,
        min(p.cpu_busy_ppm_min) AS cpu_busy_ppm_min,
        max(p.cpu_busy_ppm_max) AS cpu_busy_ppm_max,
        tupleElement(argMax(tuple(p.cpu_busy_ppm_last), (p.last_at_ms, ifNull(p.cpu_busy_ppm_last, -9223372036854775807))), 1) AS cpu_busy_ppm_last,
        sum(p.cpu_iowait_ppm_count) AS cpu_iowait_ppm_count,
        sum(p.cpu_iowait_ppm_sum) AS cpu_iowait_ppm_sum,
        min(p.cpu_iowait_ppm_min) AS cpu_iowait_ppm_min,
        max(p.cpu_iowait_ppm_max) AS cpu_iowait_ppm_max,
        tupleElement(argMax(tuple(p.cpu_iowait_ppm_last), (p.last_at_ms, ifNull(p.cpu_iowait_ppm_last, -9223372036854775807))), 1) AS cpu_iowait_ppm_last,
        sum(p.cpu_core_busy_max_ppm_count) AS cpu_core_busy_max_ppm_count,
        sum(p.cpu_core_busy_max_ppm_sum) AS cpu_core_busy_max_ppm_sum,
        min(p.cpu_core_busy_max_ppm_min) AS cpu_core_busy_max_ppm_min,
        max(p.cpu_core_busy_max_ppm_max) AS cpu_core_busy_max_ppm_max,
        tupleElement(argMax(tuple(p.cpu_core_busy_max_ppm_last), (p.last_at_ms, ifNull(p.cpu_core_busy_max_ppm_last, -9223372036854775807))), 1) AS cpu_core_busy_max_ppm_last,
        sum(p.load_1m_milli_count) AS load_1m_milli_count,
        sum(p.load_1m_milli_sum) AS load_1m_milli_sum,
        min(p.load_1m_milli_min) AS load_1m_milli_min,
        max(p.load_1m_milli_max) AS load_1m_milli_max,
        tupleElement(argMax(tuple(p.load_1m_milli_last), (p.last_at_ms, ifNull(p.load_1m_milli_last, -9223372036854775807))), 1) AS load_1m_milli_last,
        sum(p.processors_count) AS processors_count,
        sum(p.processors_sum) AS processors_sum,
        min(p.processors_min) AS processors_min,
        max(p.processors_max) AS processors_max,
        tupleElement(argMax(tuple(p.processors_last), (p.last_at_ms, ifNull(p.processors_last, -9223372036854775807))), 1) AS processors_last,
        sum(p.memory_used_bytes_count) AS memory_used_bytes_count,
        sum(p.memory_used_bytes_sum) AS memory_used_bytes_sum,
        min(p.memory_used_bytes_min) AS memory_used_bytes_min,
        max(p.memory_used_bytes_max) AS memory_used_bytes_max,
        tupleElement(argMax(tuple(p.memory_used_bytes_last), (p.last_at_ms, ifNull(p.memory_used_bytes_last, -9223372036854775807))), 1) AS memory_used_bytes_last,
        sum(p.memory_total_bytes_count) AS memory_total_bytes_count,
        sum(p.memory_total_bytes_sum) AS memory_total_bytes_sum,
        min(p.memory_total_bytes_min) AS memory_total_bytes_min,
        max(p.memory_total_bytes_max) AS memory_total_bytes_max,
        tupleElement(argMax(tuple(p.memory_total_bytes_last), (p.last_at_ms, ifNull(p.memory_total_bytes_last, -9223372036854775807))), 1) AS memory_total_bytes_last,
        sum(p.swap_used_bytes_count) AS swap_used_bytes_count,
        sum(p.swap_used_bytes_sum) AS swap_used_bytes_sum,
        min(p.swap_used_bytes_min) AS swap_used_bytes_min,
        max(p.swap_used_bytes_max) AS swap_used_bytes_max,
        tupleElement(argMax(tuple(p.swap_used_bytes_last), (p.last_at_ms, ifNull(p.swap_used_bytes_last, -9223372036854775807))), 1) AS swap_used_bytes_last,
        sum(p.disk_queue_milli_count) AS disk_queue_milli_count,
        sum(p.disk_queue_milli_sum) AS disk_queue_milli_sum,
        min(p.disk_queue_milli_min) AS disk_queue_milli_min,
        max(p.disk_queue_milli_max) AS disk_queue_milli_max,
        tupleElement(argMax(tuple(p.disk_queue_milli_last), (p.last_at_ms, ifNull(p.disk_queue_milli_last, -9223372036854775807))), 1) AS disk_queue_milli_last,
        sum(p.cpu_pressure_ppm_count) AS cpu_pressure_ppm_count,
        sum(p.cpu_pressure_ppm_sum) AS cpu_pressure_ppm_sum,
        min(p.cpu_pressure_ppm_min) AS cpu_pressure_ppm_min,
        max(p.cpu_pressure_ppm_max) AS cpu_pressure_ppm_max,
        tupleElement(argMax(tuple(p.cpu_pressure_ppm_last), (p.last_at_ms, ifNull(p.cpu_pressure_ppm_last, -9223372036854775807))), 1) AS cpu_pressure_ppm_last,
        sum(p.memory_pressure_ppm_count) AS memory_pressure_ppm_count,
        sum(p.memory_pressure_ppm_sum) AS memory_pressure_ppm_sum,
        min(p.memory_pressure_ppm_min) AS memory_pressure_ppm_min,
        max(p.memory_pressure_ppm_max) AS memory_pressure_ppm_max,
        tupleElement(argMax(tuple(p.memory_pressure_ppm_last), (p.last_at_ms, ifNull(p.memory_pressure_ppm_last, -9223372036854775807))), 1) AS memory_pressure_ppm_last,
        sum(p.memory_full_pressure_ppm_count) AS memory_full_pressure_ppm_count,
        sum(p.memory_full_pressure_ppm_sum) AS memory_full_pressure_ppm_sum,
        min(p.memory_full_pressure_ppm_min) AS memory_full_pressure_ppm_min,
        max(p.memory_full_pressure_ppm_max) AS memory_full_pressure_ppm_max,
        tupleElement(argMax(tuple(p.memory_full_pressure_ppm_last), (p.last_at_ms, ifNull(p.memory_full_pressure_ppm_last, -9223372036854775807))), 1) AS memory_full_pressure_ppm_last,
        sum(p.io_pressure_ppm_count) AS io_pressure_ppm_count,
        sum(p.io_pressure_ppm_sum) AS io_pressure_ppm_sum,
        min(p.io_pressure_ppm_min) AS io_pressure_ppm_min,
        max(p.io_pressure_ppm_max) AS io_pressure_ppm_max,
        tupleElement(argMax(tuple(p.io_pressure_ppm_last), (p.last_at_ms, ifNull(p.io_pressure_ppm_last, -9223372036854775807))), 1) AS io_pressure_ppm_last,
        sum(p.agent_collect_us_count) AS agent_collect_us_count,
        sum(p.agent_collect_us_sum) AS agent_collect_us_sum,
        min(p.agent_collect_us_min) AS agent_collect_us_min,
        max(p.agent_collect_us_max) AS agent_collect_us_max,
        tupleElement(argMax(tuple(p.agent_collect_us_last), (p.last_at_ms, ifNull(p.agent_collect_us_last, -9223372036854775807))), 1) AS agent_collect_us_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.network_tx_bytes_sum) AS network_tx_bytes_sum,
        sum(p.network_rx_bytes_sum) AS network_rx_bytes_sum,
        sum(p.network_errors_sum) AS network_errors_sum,
        sum(p.disk_read_bytes_sum) AS disk_read_bytes_sum,
        sum(p.disk_write_bytes_sum) AS disk_write_bytes_sum,
        sum(p.disk_busy_ms_sum) AS disk_busy_ms_sum,
        sum(p.swap_in_bytes_sum) AS swap_in_bytes_sum,
        sum(p.swap_out_bytes_sum) AS swap_out_bytes_sum,
        sum(p.tcp_retransmits_sum) AS tcp_retransmits_sum,
        sum(p.tcp_segments_out_sum) AS tcp_segments_out_sum,
        sum(p.rdma_tx_bytes_sum) AS rdma_tx_bytes_sum,
        sum(p.rdma_rx_bytes_sum) AS rdma_rx_bytes_sum,
        sum(p.rdma_errors_sum) AS rdma_errors_sum
    FROM host_samples_partials AS p FINAL
    WHERE p.grouping = 'host'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.origin
) AS m
COMMENT 'host.samples by 10 s window and cluster, region, host, origin';

CREATE OR REPLACE VIEW engine_windows
(
    window DateTime('UTC') COMMENT 'start of the 10 s window, event time',
    window_ms Int64 COMMENT 'start of the 10 s window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    engine_kind LowCardinality(Nullable(String)) COMMENT 'software: vllm, sglang, tgi, trtllm, llamacpp, simulated',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    running_count UInt64 COMMENT 'values of running that were known',
    running_sum Int64 COMMENT 'sum of: requests being computed [requests]',
    running_min Nullable(Int64) COMMENT 'least: requests being computed [requests]',
    running_max Nullable(Int64) COMMENT 'greatest: requests being computed [requests]',
    running_last Nullable(Int64) COMMENT 'latest: requests being computed [requests]',
    waiting_count UInt64 COMMENT 'values of waiting that were known',
    waiting_sum Int64 COMMENT 'sum of: requests in the queue [requests]',
    waiting_min Nullable(Int64) COMMENT 'least: requests in the queue [requests]',
    waiting_max Nullable(Int64) COMMENT 'greatest: requests in the queue [requests]',
    waiting_last Nullable(Int64) COMMENT 'latest: requests in the queue [requests]',
    kv_used_ppm_count UInt64 COMMENT 'values of kv_used_ppm that were known',
    kv_used_ppm_sum Int64 COMMENT 'sum of: share of KV cache blocks in use [ppm]',
    kv_used_ppm_min Nullable(Int64) COMMENT 'least: share of KV cache blocks in use [ppm]',
    kv_used_ppm_max Nullable(Int64) COMMENT 'greatest: share of KV cache blocks in use [ppm]',
    kv_used_ppm_last Nullable(Int64) COMMENT 'latest: share of KV cache blocks in use [ppm]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    preemptions_sum Nullable(Int64) COMMENT 'sum of: requests thrown out of the batch for lack of KV cache',
    prompt_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens computed or found in cache [tokens]',
    prefix_hit_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens found in cache [tokens]',
    generation_tokens_sum Nullable(Int64) COMMENT 'sum of: tokens generated [tokens]',
    finished_requests_sum Nullable(Int64) COMMENT 'sum of: requests that ended [requests]',
    running_bins Map(Int16, UInt64) COMMENT 'sketch of: requests being computed [requests]',
    running_requests_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, running_bins), of: requests being computed [requests]',
    running_requests_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, running_bins), of: requests being computed [requests]',
    running_requests_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, running_bins), of: requests being computed [requests]',
    running_requests_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, running_bins), of: requests being computed [requests]'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.running_bins) AS fp_running_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.engine_kind AS engine_kind,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.running_count AS running_count,
    m.running_sum AS running_sum,
    m.running_min AS running_min,
    m.running_max AS running_max,
    m.running_last AS running_last,
    m.waiting_count AS waiting_count,
    m.waiting_sum AS waiting_sum,
    m.waiting_min AS waiting_min,
    m.waiting_max AS waiting_max,
    m.waiting_last AS waiting_last,
    m.kv_used_ppm_count AS kv_used_ppm_count,
    m.kv_used_ppm_sum AS kv_used_ppm_sum,
    m.kv_used_ppm_min AS kv_used_ppm_min,
    m.kv_used_ppm_max AS kv_used_ppm_max,
    m.kv_used_ppm_last AS kv_used_ppm_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.preemptions_sum AS preemptions_sum,
    m.prompt_tokens_sum AS prompt_tokens_sum,
    m.prefix_hit_tokens_sum AS prefix_hit_tokens_sum,
    m.generation_tokens_sum AS generation_tokens_sum,
    m.finished_requests_sum AS finished_requests_sum,
    m.running_bins AS running_bins,
    if(empty(fp_running_bins), NULL, fp_running_bins[1]) AS running_requests_p50,
    if(empty(fp_running_bins), NULL, fp_running_bins[2]) AS running_requests_p90,
    if(empty(fp_running_bins), NULL, fp_running_bins[3]) AS running_requests_p95,
    if(empty(fp_running_bins), NULL, fp_running_bins[4]) AS running_requests_p99
FROM (
    SELECT
        p.window_ms AS window_ms,
        p.cluster AS cluster,
        p.region AS region,
        p.host AS host,
        p.engine_id AS engine_id,
        p.placement_group AS placement_group,
        p.model AS model,
        p.model_version AS model_version,
        p.precision AS precision,
        p.engine_kind AS engine_kind,
        p.origin AS origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.running_count) AS running_count,
        sum(p.running_sum) AS running_sum,
        min(p.running_min) AS running_min,
        max(p.running_max) AS running_max,
        tupleElement(argMax(tuple(p.running_last), (p.last_at_ms, ifNull(p.running_last, -9223372036854775807))), 1) AS running_last,
        sum(p.waiting_count) AS waiting_count,
        sum(p.waiting_sum) AS waiting_sum,
        min(p.waiting_min) AS waiting_min,
        max(p.waiting_max) AS waiting_max,
        tupleElement(argMax(tuple(p.waiting_last), (p.last_at_ms, ifNull(p.waiting_last, -9223372036854775807))), 1) AS waiting_last,
        sum(p.kv_used_ppm_count) AS kv_used_ppm_count,
        sum(p.kv_used_ppm_sum) AS kv_used_ppm_sum,
        min(p.kv_used_ppm_min) AS kv_used_ppm_min,
        max(p.kv_used_ppm_max) AS kv_used_ppm_max,
        tupleElement(argMax(tuple(p.kv_used_ppm_last), (p.last_at_ms, ifNull(p.kv_used_ppm_last, -9223372036854775807))), 1) AS kv_used_ppm_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.preemptions_sum) AS preemptions_sum,
        sum(p.prompt_tokens_sum) AS prompt_tokens_sum,
        sum(p.prefix_hit_tokens_sum) AS prefix_hit_tokens_sum,
        sum(p.generation_tokens_sum) AS generation_tokens_sum,
        sum(p.finished_requests_sum) AS finished_requests_sum,
        sumMap(p.running_bins) AS running_bins
    FROM engine_samples_partials AS p FINAL
    WHERE p.grouping = 'engine_sample'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.engine_kind, p.origin
) AS m
COMMENT 'engine.samples by 10 s window and cluster, region, host, engine_id, placement_group, model, model_version, precision, engine_kind, origin';

CREATE OR REPLACE VIEW process_windows
(
    window DateTime('UTC') COMMENT 'start of the 10 s window, event time',
    window_ms Int64 COMMENT 'start of the 10 s window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    process_name LowCardinality(Nullable(String)) COMMENT 'name of the program',
    workload LowCardinality(Nullable(String)) COMMENT 'what the process does',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    cpu_ppm_count UInt64 COMMENT 'values of cpu_ppm that were known',
    cpu_ppm_sum Int64 COMMENT 'sum of: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_min Nullable(Int64) COMMENT 'least: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_max Nullable(Int64) COMMENT 'greatest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_last Nullable(Int64) COMMENT 'latest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_thread_max_ppm_count UInt64 COMMENT 'values of cpu_thread_max_ppm that were known',
    cpu_thread_max_ppm_sum Int64 COMMENT 'sum of: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_min Nullable(Int64) COMMENT 'least: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_max Nullable(Int64) COMMENT 'greatest: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_last Nullable(Int64) COMMENT 'latest: busiest thread: share of one processor [ppm]',
    memory_rss_bytes_count UInt64 COMMENT 'values of memory_rss_bytes that were known',
    memory_rss_bytes_sum Int64 COMMENT 'sum of: resident memory [bytes]',
    memory_rss_bytes_min Nullable(Int64) COMMENT 'least: resident memory [bytes]',
    memory_rss_bytes_max Nullable(Int64) COMMENT 'greatest: resident memory [bytes]',
    memory_rss_bytes_last Nullable(Int64) COMMENT 'latest: resident memory [bytes]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    read_bytes_sum Nullable(Int64) COMMENT 'sum of: read from disks [bytes]',
    write_bytes_sum Nullable(Int64) COMMENT 'sum of: written to disks [bytes]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.process_name AS process_name,
    m.workload AS workload,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.cpu_ppm_count AS cpu_ppm_count,
    m.cpu_ppm_sum AS cpu_ppm_sum,
    m.cpu_ppm_min AS cpu_ppm_min,
    m.cpu_ppm_max AS cpu_ppm_max,
    m.cpu_ppm_last AS cpu_ppm_last,
    m.cpu_thread_max_ppm_count AS cpu_thread_max_ppm_count,
    m.cpu_thread_max_ppm_sum AS cpu_thread_max_ppm_sum,
    m.cpu_thread_max_ppm_min AS cpu_thread_max_ppm_min,
    m.cpu_thread_max_ppm_max AS cpu_thread_max_ppm_max,
    m.cpu_thread_max_ppm_last AS cpu_thread_max_ppm_last,
    m.memory_rss_bytes_count AS memory_rss_bytes_count,
    m.memory_rss_bytes_sum AS memory_rss_bytes_sum,
    m.memory_rss_bytes_min AS memory_rss_bytes_min,
    m.memory_rss_bytes_max AS memory_rss_bytes_max,
    m.memory_rss_bytes_last AS memory_rss_bytes_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.read_bytes_sum AS read_bytes_sum,
    m.write_bytes_sum AS write_bytes_sum
FROM (
    SELECT
        p.window_ms AS window_ms,
        p.cluster AS cluster,
        p.region AS region,
        p.host AS host,
        p.engine_id AS engine_id,
        p.placement_group AS placement_group,
        p.process_name AS process_name,
        p.workload AS workload,
        p.origin AS origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.cpu_ppm_count) AS cpu_ppm_count,
        sum(p.cpu_ppm_sum) AS cpu_ppm_sum,
        min(p.cpu_ppm_min) AS cpu_ppm_min,
        max(p.cpu_ppm_max) AS cpu_ppm_max,
        tupleElement(argMax(tuple(p.cpu_ppm_last), (p.last_at_ms, ifNull(p.cpu_ppm_last, -9223372036854775807))), 1) AS cpu_ppm_last,
        sum(p.cpu_thread_max_ppm_count) AS cpu_thread_max_ppm_count,
        sum(p.cpu_thread_max_ppm_sum) AS cpu_thread_max_ppm_sum,
        min(p.cpu_thread_max_ppm_min) AS cpu_thread_max_ppm_min,
        max(p.cpu_thread_max_ppm_max) AS cpu_thread_max_ppm_max,
        tupleElement(argMax(tuple(p.cpu_thread_max_ppm_last), (p.last_at_ms, ifNull(p.cpu_thread_max_ppm_last, -9223372036854775807))), 1) AS cpu_thread_max_ppm_last,
        sum(p.memory_rss_bytes_count) AS memory_rss_bytes_count,
        sum(p.memory_rss_bytes_sum) AS memory_rss_bytes_sum,
        min(p.memory_rss_bytes_min) AS memory_rss_bytes_min,
        max(p.memory_rss_bytes_max) AS memory_rss_bytes_max,
        tupleElement(argMax(tuple(p.memory_rss_bytes_last), (p.last_at_ms, ifNull(p.memory_rss_bytes_last, -9223372036854775807))), 1) AS memory_rss_bytes_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.read_bytes_sum) AS read_bytes_sum,
        sum(p.write_bytes_sum) AS write_bytes_sum
    FROM host_processes_partials AS p FINAL
    WHERE p.grouping = 'process'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.process_name, p.workload, p.origin
) AS m
COMMENT 'host.processes by 10 s window and cluster, region, host, engine_id, placement_group, process_name, workload, origin';

CREATE OR REPLACE VIEW training_windows
(
    window DateTime('UTC') COMMENT 'start of the 10 s window, event time',
    window_ms Int64 COMMENT 'start of the 10 s window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    job LowCardinality(Nullable(String)) COMMENT 'training job',
    rank LowCardinality(Nullable(String)) COMMENT 'rank of the process in the job',
    model LowCardinality(Nullable(String)) COMMENT 'model that is trained',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    step_us_count UInt64 COMMENT 'values of step_us that were known',
    step_us_sum Int64 COMMENT 'sum of: end of the previous step to end of this one [us]',
    step_us_min Nullable(Int64) COMMENT 'least: end of the previous step to end of this one [us]',
    step_us_max Nullable(Int64) COMMENT 'greatest: end of the previous step to end of this one [us]',
    loss_micro_count UInt64 COMMENT 'values of loss_micro that were known',
    loss_micro_sum Int64 COMMENT 'sum of: training loss [1e-6]',
    loss_micro_min Nullable(Int64) COMMENT 'least: training loss [1e-6]',
    loss_micro_max Nullable(Int64) COMMENT 'greatest: training loss [1e-6]',
    loss_micro_last Nullable(Int64) COMMENT 'latest: training loss [1e-6]',
    checkpoint_age_ms_count UInt64 COMMENT 'values of checkpoint_age_ms that were known',
    checkpoint_age_ms_sum Int64 COMMENT 'sum of: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_min Nullable(Int64) COMMENT 'least: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_max Nullable(Int64) COMMENT 'greatest: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_last Nullable(Int64) COMMENT 'latest: end of the latest checkpoint to end of the step [ms]',
    samples_sum Nullable(Int64) COMMENT 'sum of: samples of this rank in the step',
    tokens_sum Nullable(Int64) COMMENT 'sum of: tokens of this rank in the step [tokens]',
    step_us_bins Map(Int16, UInt64) COMMENT 'sketch of: end of the previous step to end of this one [us]',
    step_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, step_us_bins), of: end of the previous step to end of this one [us]'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.step_us_bins) AS fp_step_us_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.job AS job,
    m.rank AS rank,
    m.model AS model,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.step_us_count AS step_us_count,
    m.step_us_sum AS step_us_sum,
    m.step_us_min AS step_us_min,
    m.step_us_max AS step_us_max,
    m.loss_micro_count AS loss_micro_count,
    m.loss_micro_sum AS loss_micro_sum,
    m.loss_micro_min AS loss_micro_min,
    m.loss_micro_max AS loss_micro_max,
    m.loss_micro_last AS loss_micro_last,
    m.checkpoint_age_ms_count AS checkpoint_age_ms_count,
    m.checkpoint_age_ms_sum AS checkpoint_age_ms_sum,
    m.checkpoint_age_ms_min AS checkpoint_age_ms_min,
    m.checkpoint_age_ms_max AS checkpoint_age_ms_max,
    m.checkpoint_age_ms_last AS checkpoint_age_ms_last,
    m.samples_sum AS samples_sum,
    m.tokens_sum AS tokens_sum,
    m.step_us_bins AS step_us_bins,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[1]) AS step_us_p50,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[2]) AS step_us_p90,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[3]) AS step_us_p95,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[4]) AS step_us_p99
FROM (
    SELECT
        p.window_ms AS window_ms,
        p.cluster AS cluster,
        p.region AS region,
        p.host AS host,
        p.engine_id AS engine_id,
        p.placement_group AS placement_group,
        p.job AS job,
        p.rank AS rank,
        p.model AS model,
        p.origin AS origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.step_us_count) AS step_us_count,
        sum(p.step_us_sum) AS step_us_sum,
        min(p.step_us_min) AS step_us_min,
        max(p.step_us_max) AS step_us_max,
        sum(p.loss_micro_count) AS loss_micro_count,
        sum(p.loss_micro_sum) AS loss_micro_sum,
        min(p.loss_micro_min) AS loss_micro_min,
        max(p.loss_micro_max) AS loss_micro_max,
        tupleElement(argMax(tuple(p.loss_micro_last), (p.last_at_ms, ifNull(p.loss_micro_last, -9223372036854775807))), 1) AS loss_micro_last,
        sum(p.checkpoint_age_ms_count) AS checkpoint_age_ms_count,
        sum(p.checkpoint_age_ms_sum) AS checkpoint_age_ms_sum,
        min(p.checkpoint_age_ms_min) AS checkpoint_age_ms_min,
        max(p.checkpoint_age_ms_max) AS checkpoint_age_ms_max,
        tupleElement(argMax(tuple(p.checkpoint_age_ms_last), (p.last_at_ms, ifNull(p.checkpoint_age_ms_last, -9223372036854775807))), 1) AS checkpoint_age_ms_last,
        sum(p.samples_sum) AS samples_sum,
        sum(p.tokens_sum) AS tokens_sum,
        sumMap(p.step_us_bins) AS step_us_bins
    FROM training_steps_partials AS p FINAL
    WHERE p.grouping = 'training'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.job, p.rank, p.model, p.origin
) AS m
COMMENT 'training.steps by 10 s window and cluster, region, host, engine_id, placement_group, job, rank, model, origin';

CREATE OR REPLACE VIEW custom_windows
(
    window DateTime('UTC') COMMENT 'start of the 10 s window, event time',
    window_ms Int64 COMMENT 'start of the 10 s window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    service LowCardinality(Nullable(String)) COMMENT 'application that reported it',
    metric LowCardinality(Nullable(String)) COMMENT 'name of the metric',
    unit LowCardinality(Nullable(String)) COMMENT 'unit of the value, as the application names it',
    attributes LowCardinality(Nullable(String)) COMMENT 'what tells its series apart: sorted key=value, separated by commas',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    value_micro_count UInt64 COMMENT 'values of value_micro that were known',
    value_micro_sum Int64 COMMENT 'sum of: level; null where it is a counter [1e-6]',
    value_micro_min Nullable(Int64) COMMENT 'least: level; null where it is a counter [1e-6]',
    value_micro_max Nullable(Int64) COMMENT 'greatest: level; null where it is a counter [1e-6]',
    value_micro_last Nullable(Int64) COMMENT 'latest: level; null where it is a counter [1e-6]',
    increase_micro_sum Nullable(Int64) COMMENT 'sum of: increase since the last value; null where it is a level [1e-6]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.service AS service,
    m.metric AS metric,
    m.unit AS unit,
    m.attributes AS attributes,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.value_micro_count AS value_micro_count,
    m.value_micro_sum AS value_micro_sum,
    m.value_micro_min AS value_micro_min,
    m.value_micro_max AS value_micro_max,
    m.value_micro_last AS value_micro_last,
    m.increase_micro_sum AS increase_micro_sum
FROM (
    SELECT
        p.window_ms AS window_ms,
        p.cluster AS cluster,
        p.region AS region,
        p.host AS host,
        p.service AS service,
        p.metric AS metric,
        p.unit AS unit,
        p.attributes AS attributes,
        p.origin AS origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.value_micro_count) AS value_micro_count,
        sum(p.value_micro_sum) AS value_micro_sum,
        min(p.value_micro_min) AS value_micro_min,
        max(p.value_micro_max) AS value_micro_max,
        tupleElement(argMax(tuple(p.value_micro_last), (p.last_at_ms, ifNull(p.value_micro_last, -9223372036854775807))), 1) AS value_micro_last,
        sum(p.increase_micro_sum) AS increase_micro_sum
    FROM custom_metrics_partials AS p FINAL
    WHERE p.grouping = 'custom'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.service, p.metric, p.unit, p.attributes, p.origin
) AS m
COMMENT 'custom.metrics by 10 s window and cluster, region, host, service, metric, unit, attributes, origin';

CREATE OR REPLACE VIEW request_windows_1m
(
    window DateTime('UTC') COMMENT 'start of the 1m window, event time',
    window_ms Int64 COMMENT 'start of the 1m window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    tenant LowCardinality(Nullable(String)) COMMENT 'who sent the request',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class whose objectives apply',
    status LowCardinality(Nullable(String)) COMMENT 'how the request ended',
    error_kind LowCardinality(Nullable(String)) COMMENT 'why it failed; null when it did not',
    start LowCardinality(Nullable(String)) COMMENT 'cold when the engine had to load the model for it',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    input_bucket LowCardinality(Nullable(String)) COMMENT 'length of the prompt in tokens, in steps of four',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    ttft_us_count UInt64 COMMENT 'values of ttft_us that were known',
    ttft_us_sum Int64 COMMENT 'sum of: received to first token that carries content [us]',
    ttft_us_min Nullable(Int64) COMMENT 'least: received to first token that carries content [us]',
    ttft_us_max Nullable(Int64) COMMENT 'greatest: received to first token that carries content [us]',
    tpot_us_count UInt64 COMMENT 'values of tpot_us that were known',
    tpot_us_sum Int64 COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_min Nullable(Int64) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_max Nullable(Int64) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_count UInt64 COMMENT 'values of e2e_us that were known',
    e2e_us_sum Int64 COMMENT 'sum of: received to last byte [us]',
    e2e_us_min Nullable(Int64) COMMENT 'least: received to last byte [us]',
    e2e_us_max Nullable(Int64) COMMENT 'greatest: received to last byte [us]',
    queue_us_count UInt64 COMMENT 'values of queue_us that were known',
    queue_us_sum Int64 COMMENT 'sum of: received to scheduled by the engine [us]',
    queue_us_min Nullable(Int64) COMMENT 'least: received to scheduled by the engine [us]',
    queue_us_max Nullable(Int64) COMMENT 'greatest: received to scheduled by the engine [us]',
    input_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens, cached ones included [tokens]',
    cached_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens served from the prefix cache [tokens]',
    output_tokens_sum Nullable(Int64) COMMENT 'sum of: generated tokens, reasoning included [tokens]',
    reasoning_tokens_sum Nullable(Int64) COMMENT 'sum of: reasoning tokens inside the output [tokens]',
    judged_requests_sum Nullable(Int64) COMMENT 'sum of: requests that count for the objectives of their class [requests]',
    good_requests_sum Nullable(Int64) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]',
    good_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]',
    ttft_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to first token that carries content [us]',
    tpot_us_bins Map(Int16, UInt64) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to last byte [us]',
    queue_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to scheduled by the engine [us]',
    itl_bins Map(Int16, UInt64) COMMENT 'sketch of inter-token gaps inside the request [us]',
    ttft_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, ttft_us_bins), of: received to first token that carries content [us]',
    tpot_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, e2e_us_bins), of: received to last byte [us]',
    queue_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, queue_us_bins), of: received to scheduled by the engine [us]',
    itl_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, itl_bins), of: inter-token gaps inside the request [us]',
    requests_ok UInt64 COMMENT 'requests: answered in full',
    requests_aborted UInt64 COMMENT 'requests: the client went away before the end',
    requests_client_fault UInt64 COMMENT 'requests: rejected for what the client sent: 4xx other than 408 and 429, `error_kind` client',
    requests_failed UInt64 COMMENT 'requests: failed on our side: errors of server, engine and network, timeouts, rejections for overload'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.ttft_us_bins) AS fp_ttft_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.tpot_us_bins) AS fp_tpot_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.e2e_us_bins) AS fp_e2e_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.queue_us_bins) AS fp_queue_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.itl_bins) AS fp_itl_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.tenant AS tenant,
    m.slo_class AS slo_class,
    m.status AS status,
    m.error_kind AS error_kind,
    m.start AS start,
    m.origin AS origin,
    m.input_bucket AS input_bucket,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.ttft_us_count AS ttft_us_count,
    m.ttft_us_sum AS ttft_us_sum,
    m.ttft_us_min AS ttft_us_min,
    m.ttft_us_max AS ttft_us_max,
    m.tpot_us_count AS tpot_us_count,
    m.tpot_us_sum AS tpot_us_sum,
    m.tpot_us_min AS tpot_us_min,
    m.tpot_us_max AS tpot_us_max,
    m.e2e_us_count AS e2e_us_count,
    m.e2e_us_sum AS e2e_us_sum,
    m.e2e_us_min AS e2e_us_min,
    m.e2e_us_max AS e2e_us_max,
    m.queue_us_count AS queue_us_count,
    m.queue_us_sum AS queue_us_sum,
    m.queue_us_min AS queue_us_min,
    m.queue_us_max AS queue_us_max,
    m.input_tokens_sum AS input_tokens_sum,
    m.cached_tokens_sum AS cached_tokens_sum,
    m.output_tokens_sum AS output_tokens_sum,
    m.reasoning_tokens_sum AS reasoning_tokens_sum,
    m.judged_requests_sum AS judged_requests_sum,
    m.good_requests_sum AS good_requests_sum,
    m.good_tokens_sum AS good_tokens_sum,
    m.ttft_us_bins AS ttft_us_bins,
    m.tpot_us_bins AS tpot_us_bins,
    m.e2e_us_bins AS e2e_us_bins,
    m.queue_us_bins AS queue_us_bins,
    m.itl_bins AS itl_bins,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[1]) AS ttft_us_p50,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[2]) AS ttft_us_p90,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[3]) AS ttft_us_p95,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[4]) AS ttft_us_p99,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[1]) AS tpot_us_p50,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[2]) AS tpot_us_p90,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[3]) AS tpot_us_p95,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[4]) AS tpot_us_p99,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[1]) AS e2e_us_p50,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[2]) AS e2e_us_p90,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[3]) AS e2e_us_p95,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[4]) AS e2e_us_p99,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[1]) AS queue_us_p50,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[2]) AS queue_us_p90,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[3]) AS queue_us_p95,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[4]) AS queue_us_p99,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[1]) AS itl_us_p50,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[2]) AS itl_us_p90,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[3]) AS itl_us_p95,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[4]) AS itl_us_p99,
    if(ifNull(status, '') = 'ok', m.event_count, 0) AS requests_ok,
    if(ifNull(status, '') = 'aborted', m.event_count, 0) AS requests_aborted,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') = 'client', m.event_count, 0) AS requests_client_fault,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client', m.event_count, 0) AS requests_failed
FROM llm_requests_rollup_1m AS m FINAL
WHERE m.grouping = 'service'
COMMENT 'llm.requests by 1m window and cluster, region, model, model_version, precision, tenant, slo_class, input_bucket, status, error_kind, start, origin';

CREATE OR REPLACE VIEW request_windows_1h
(
    window DateTime('UTC') COMMENT 'start of the 1h window, event time',
    window_ms Int64 COMMENT 'start of the 1h window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    tenant LowCardinality(Nullable(String)) COMMENT 'who sent the request',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class whose objectives apply',
    status LowCardinality(Nullable(String)) COMMENT 'how the request ended',
    error_kind LowCardinality(Nullable(String)) COMMENT 'why it failed; null when it did not',
    start LowCardinality(Nullable(String)) COMMENT 'cold when the engine had to load the model for it',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    input_bucket LowCardinality(Nullable(String)) COMMENT 'length of the prompt in tokens, in steps of four',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    ttft_us_count UInt64 COMMENT 'values of ttft_us that were known',
    ttft_us_sum Int64 COMMENT 'sum of: received to first token that carries content [us]',
    ttft_us_min Nullable(Int64) COMMENT 'least: received to first token that carries content [us]',
    ttft_us_max Nullable(Int64) COMMENT 'greatest: received to first token that carries content [us]',
    tpot_us_count UInt64 COMMENT 'values of tpot_us that were known',
    tpot_us_sum Int64 COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_min Nullable(Int64) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_max Nullable(Int64) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_count UInt64 COMMENT 'values of e2e_us that were known',
    e2e_us_sum Int64 COMMENT 'sum of: received to last byte [us]',
    e2e_us_min Nullable(Int64) COMMENT 'least: received to last byte [us]',
    e2e_us_max Nullable(Int64) COMMENT 'greatest: received to last byte [us]',
    queue_us_count UInt64 COMMENT 'values of queue_us that were known',
    queue_us_sum Int64 COMMENT 'sum of: received to scheduled by the engine [us]',
    queue_us_min Nullable(Int64) COMMENT 'least: received to scheduled by the engine [us]',
    queue_us_max Nullable(Int64) COMMENT 'greatest: received to scheduled by the engine [us]',
    input_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens, cached ones included [tokens]',
    cached_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens served from the prefix cache [tokens]',
    output_tokens_sum Nullable(Int64) COMMENT 'sum of: generated tokens, reasoning included [tokens]',
    reasoning_tokens_sum Nullable(Int64) COMMENT 'sum of: reasoning tokens inside the output [tokens]',
    judged_requests_sum Nullable(Int64) COMMENT 'sum of: requests that count for the objectives of their class [requests]',
    good_requests_sum Nullable(Int64) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]',
    good_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]',
    ttft_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to first token that carries content [us]',
    tpot_us_bins Map(Int16, UInt64) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to last byte [us]',
    queue_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to scheduled by the engine [us]',
    itl_bins Map(Int16, UInt64) COMMENT 'sketch of inter-token gaps inside the request [us]',
    ttft_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, ttft_us_bins), of: received to first token that carries content [us]',
    tpot_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, e2e_us_bins), of: received to last byte [us]',
    queue_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, queue_us_bins), of: received to scheduled by the engine [us]',
    itl_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, itl_bins), of: inter-token gaps inside the request [us]',
    requests_ok UInt64 COMMENT 'requests: answered in full',
    requests_aborted UInt64 COMMENT 'requests: the client went away before the end',
    requests_client_fault UInt64 COMMENT 'requests: rejected for what the client sent: 4xx other than 408 and 429, `error_kind` client',
    requests_failed UInt64 COMMENT 'requests: failed on our side: errors of server, engine and network, timeouts, rejections for overload'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.ttft_us_bins) AS fp_ttft_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.tpot_us_bins) AS fp_tpot_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.e2e_us_bins) AS fp_e2e_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.queue_us_bins) AS fp_queue_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.itl_bins) AS fp_itl_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.tenant AS tenant,
    m.slo_class AS slo_class,
    m.status AS status,
    m.error_kind AS error_kind,
    m.start AS start,
    m.origin AS origin,
    m.input_bucket AS input_bucket,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.ttft_us_count AS ttft_us_count,
    m.ttft_us_sum AS ttft_us_sum,
    m.ttft_us_min AS ttft_us_min,
    m.ttft_us_max AS ttft_us_max,
    m.tpot_us_count AS tpot_us_count,
    m.tpot_us_sum AS tpot_us_sum,
    m.tpot_us_min AS tpot_us_min,
    m.tpot_us_max AS tpot_us_max,
    m.e2e_us_count AS e2e_us_count,
    m.e2e_us_sum AS e2e_us_sum,
    m.e2e_us_min AS e2e_us_min,
    m.e2e_us_max AS e2e_us_max,
    m.queue_us_count AS queue_us_count,
    m.queue_us_sum AS queue_us_sum,
    m.queue_us_min AS queue_us_min,
    m.queue_us_max AS queue_us_max,
    m.input_tokens_sum AS input_tokens_sum,
    m.cached_tokens_sum AS cached_tokens_sum,
    m.output_tokens_sum AS output_tokens_sum,
    m.reasoning_tokens_sum AS reasoning_tokens_sum,
    m.judged_requests_sum AS judged_requests_sum,
    m.good_requests_sum AS good_requests_sum,
    m.good_tokens_sum AS good_tokens_sum,
    m.ttft_us_bins AS ttft_us_bins,
    m.tpot_us_bins AS tpot_us_bins,
    m.e2e_us_bins AS e2e_us_bins,
    m.queue_us_bins AS queue_us_bins,
    m.itl_bins AS itl_bins,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[1]) AS ttft_us_p50,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[2]) AS ttft_us_p90,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[3]) AS ttft_us_p95,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[4]) AS ttft_us_p99,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[1]) AS tpot_us_p50,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[2]) AS tpot_us_p90,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[3]) AS tpot_us_p95,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[4]) AS tpot_us_p99,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[1]) AS e2e_us_p50,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[2]) AS e2e_us_p90,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[3]) AS e2e_us_p95,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[4]) AS e2e_us_p99,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[1]) AS queue_us_p50,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[2]) AS queue_us_p90,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[3]) AS queue_us_p95,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[4]) AS queue_us_p99,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[1]) AS itl_us_p50,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[2]) AS itl_us_p90,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[3]) AS itl_us_p95,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[4]) AS itl_us_p99,
    if(ifNull(status, '') = 'ok', m.event_count, 0) AS requests_ok,
    if(ifNull(status, '') = 'aborted', m.event_count, 0) AS requests_aborted,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') = 'client', m.event_count, 0) AS requests_client_fault,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client', m.event_count, 0) AS requests_failed
FROM llm_requests_rollup_1h AS m FINAL
WHERE m.grouping = 'service'
COMMENT 'llm.requests by 1h window and cluster, region, model, model_version, precision, tenant, slo_class, input_bucket, status, error_kind, start, origin';

CREATE OR REPLACE VIEW request_windows_1d
(
    window DateTime('UTC') COMMENT 'start of the 1d window, event time',
    window_ms Int64 COMMENT 'start of the 1d window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    tenant LowCardinality(Nullable(String)) COMMENT 'who sent the request',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class whose objectives apply',
    status LowCardinality(Nullable(String)) COMMENT 'how the request ended',
    error_kind LowCardinality(Nullable(String)) COMMENT 'why it failed; null when it did not',
    start LowCardinality(Nullable(String)) COMMENT 'cold when the engine had to load the model for it',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    input_bucket LowCardinality(Nullable(String)) COMMENT 'length of the prompt in tokens, in steps of four',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    ttft_us_count UInt64 COMMENT 'values of ttft_us that were known',
    ttft_us_sum Int64 COMMENT 'sum of: received to first token that carries content [us]',
    ttft_us_min Nullable(Int64) COMMENT 'least: received to first token that carries content [us]',
    ttft_us_max Nullable(Int64) COMMENT 'greatest: received to first token that carries content [us]',
    tpot_us_count UInt64 COMMENT 'values of tpot_us that were known',
    tpot_us_sum Int64 COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_min Nullable(Int64) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_max Nullable(Int64) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_count UInt64 COMMENT 'values of e2e_us that were known',
    e2e_us_sum Int64 COMMENT 'sum of: received to last byte [us]',
    e2e_us_min Nullable(Int64) COMMENT 'least: received to last byte [us]',
    e2e_us_max Nullable(Int64) COMMENT 'greatest: received to last byte [us]',
    queue_us_count UInt64 COMMENT 'values of queue_us that were known',
    queue_us_sum Int64 COMMENT 'sum of: received to scheduled by the engine [us]',
    queue_us_min Nullable(Int64) COMMENT 'least: received to scheduled by the engine [us]',
    queue_us_max Nullable(Int64) COMMENT 'greatest: received to scheduled by the engine [us]',
    input_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens, cached ones included [tokens]',
    cached_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens served from the prefix cache [tokens]',
    output_tokens_sum Nullable(Int64) COMMENT 'sum of: generated tokens, reasoning included [tokens]',
    reasoning_tokens_sum Nullable(Int64) COMMENT 'sum of: reasoning tokens inside the output [tokens]',
    judged_requests_sum Nullable(Int64) COMMENT 'sum of: requests that count for the objectives of their class [requests]',
    good_requests_sum Nullable(Int64) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]',
    good_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]',
    ttft_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to first token that carries content [us]',
    tpot_us_bins Map(Int16, UInt64) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to last byte [us]',
    queue_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to scheduled by the engine [us]',
    itl_bins Map(Int16, UInt64) COMMENT 'sketch of inter-token gaps inside the request [us]',
    ttft_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, ttft_us_bins), of: received to first token that carries content [us]',
    tpot_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, e2e_us_bins), of: received to last byte [us]',
    queue_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, queue_us_bins), of: received to scheduled by the engine [us]',
    itl_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, itl_bins), of: inter-token gaps inside the request [us]',
    requests_ok UInt64 COMMENT 'requests: answered in full',
    requests_aborted UInt64 COMMENT 'requests: the client went away before the end',
    requests_client_fault UInt64 COMMENT 'requests: rejected for what the client sent: 4xx other than 408 and 429, `error_kind` client',
    requests_failed UInt64 COMMENT 'requests: failed on our side: errors of server, engine and network, timeouts, rejections for overload'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.ttft_us_bins) AS fp_ttft_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.tpot_us_bins) AS fp_tpot_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.e2e_us_bins) AS fp_e2e_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.queue_us_bins) AS fp_queue_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.itl_bins) AS fp_itl_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.tenant AS tenant,
    m.slo_class AS slo_class,
    m.status AS status,
    m.error_kind AS error_kind,
    m.start AS start,
    m.origin AS origin,
    m.input_bucket AS input_bucket,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.ttft_us_count AS ttft_us_count,
    m.ttft_us_sum AS ttft_us_sum,
    m.ttft_us_min AS ttft_us_min,
    m.ttft_us_max AS ttft_us_max,
    m.tpot_us_count AS tpot_us_count,
    m.tpot_us_sum AS tpot_us_sum,
    m.tpot_us_min AS tpot_us_min,
    m.tpot_us_max AS tpot_us_max,
    m.e2e_us_count AS e2e_us_count,
    m.e2e_us_sum AS e2e_us_sum,
    m.e2e_us_min AS e2e_us_min,
    m.e2e_us_max AS e2e_us_max,
    m.queue_us_count AS queue_us_count,
    m.queue_us_sum AS queue_us_sum,
    m.queue_us_min AS queue_us_min,
    m.queue_us_max AS queue_us_max,
    m.input_tokens_sum AS input_tokens_sum,
    m.cached_tokens_sum AS cached_tokens_sum,
    m.output_tokens_sum AS output_tokens_sum,
    m.reasoning_tokens_sum AS reasoning_tokens_sum,
    m.judged_requests_sum AS judged_requests_sum,
    m.good_requests_sum AS good_requests_sum,
    m.good_tokens_sum AS good_tokens_sum,
    m.ttft_us_bins AS ttft_us_bins,
    m.tpot_us_bins AS tpot_us_bins,
    m.e2e_us_bins AS e2e_us_bins,
    m.queue_us_bins AS queue_us_bins,
    m.itl_bins AS itl_bins,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[1]) AS ttft_us_p50,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[2]) AS ttft_us_p90,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[3]) AS ttft_us_p95,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[4]) AS ttft_us_p99,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[1]) AS tpot_us_p50,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[2]) AS tpot_us_p90,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[3]) AS tpot_us_p95,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[4]) AS tpot_us_p99,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[1]) AS e2e_us_p50,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[2]) AS e2e_us_p90,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[3]) AS e2e_us_p95,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[4]) AS e2e_us_p99,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[1]) AS queue_us_p50,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[2]) AS queue_us_p90,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[3]) AS queue_us_p95,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[4]) AS queue_us_p99,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[1]) AS itl_us_p50,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[2]) AS itl_us_p90,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[3]) AS itl_us_p95,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[4]) AS itl_us_p99,
    if(ifNull(status, '') = 'ok', m.event_count, 0) AS requests_ok,
    if(ifNull(status, '') = 'aborted', m.event_count, 0) AS requests_aborted,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') = 'client', m.event_count, 0) AS requests_client_fault,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client', m.event_count, 0) AS requests_failed
FROM llm_requests_rollup_1d AS m FINAL
WHERE m.grouping = 'service'
COMMENT 'llm.requests by 1d window and cluster, region, model, model_version, precision, tenant, slo_class, input_bucket, status, error_kind, start, origin';

CREATE OR REPLACE VIEW engine_request_windows_1m
(
    window DateTime('UTC') COMMENT 'start of the 1m window, event time',
    window_ms Int64 COMMENT 'start of the 1m window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    status LowCardinality(Nullable(String)) COMMENT 'how the request ended',
    error_kind LowCardinality(Nullable(String)) COMMENT 'why it failed; null when it did not',
    start LowCardinality(Nullable(String)) COMMENT 'cold when the engine had to load the model for it',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    ttft_us_count UInt64 COMMENT 'values of ttft_us that were known',
    ttft_us_sum Int64 COMMENT 'sum of: received to first token that carries content [us]',
    ttft_us_min Nullable(Int64) COMMENT 'least: received to first token that carries content [us]',
    ttft_us_max Nullable(Int64) COMMENT 'greatest: received to first token that carries content [us]',
    tpot_us_count UInt64 COMMENT 'values of tpot_us that were known',
    tpot_us_sum Int64 COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_min Nullable(Int64) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_max Nullable(Int64) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_count UInt64 COMMENT 'values of e2e_us that were known',
    e2e_us_sum Int64 COMMENT 'sum of: received to last byte [us]',
    e2e_us_min Nullable(Int64) COMMENT 'least: received to last byte [us]',
    e2e_us_max Nullable(Int64) COMMENT 'greatest: received to last byte [us]',
    queue_us_count UInt64 COMMENT 'values of queue_us that were known',
    queue_us_sum Int64 COMMENT 'sum of: received to scheduled by the engine [us]',
    queue_us_min Nullable(Int64) COMMENT 'least: received to scheduled by the engine [us]',
    queue_us_max Nullable(Int64) COMMENT 'greatest: received to scheduled by the engine [us]',
    input_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens, cached ones included [tokens]',
    cached_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens served from the prefix cache [tokens]',
    output_tokens_sum Nullable(Int64) COMMENT 'sum of: generated tokens, reasoning included [tokens]',
    reasoning_tokens_sum Nullable(Int64) COMMENT 'sum of: reasoning tokens inside the output [tokens]',
    judged_requests_sum Nullable(Int64) COMMENT 'sum of: requests that count for the objectives of their class [requests]',
    good_requests_sum Nullable(Int64) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]',
    good_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]',
    ttft_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to first token that carries content [us]',
    tpot_us_bins Map(Int16, UInt64) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to last byte [us]',
    queue_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to scheduled by the engine [us]',
    itl_bins Map(Int16, UInt64) COMMENT 'sketch of inter-token gaps inside the request [us]',
    ttft_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, ttft_us_bins), of: received to first token that carries content [us]',
    tpot_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, e2e_us_bins), of: received to last byte [us]',
    queue_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, queue_us_bins), of: received to scheduled by the engine [us]',
    itl_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, itl_bins), of: inter-token gaps inside the request [us]',
    requests_ok UInt64 COMMENT 'requests: answered in full',
    requests_aborted UInt64 COMMENT 'requests: the client went away before the end',
    requests_client_fault UInt64 COMMENT 'requests: rejected for what the client sent: 4xx other than 408 and 429, `error_kind` client',
    requests_failed UInt64 COMMENT 'requests: failed on our side: errors of server, engine and network, timeouts, rejections for overload'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.ttft_us_bins) AS fp_ttft_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.tpot_us_bins) AS fp_tpot_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.e2e_us_bins) AS fp_e2e_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.queue_us_bins) AS fp_queue_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.itl_bins) AS fp_itl_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.status AS status,
    m.error_kind AS error_kind,
    m.start AS start,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.ttft_us_count AS ttft_us_count,
    m.ttft_us_sum AS ttft_us_sum,
    m.ttft_us_min AS ttft_us_min,
    m.ttft_us_max AS ttft_us_max,
    m.tpot_us_count AS tpot_us_count,
    m.tpot_us_sum AS tpot_us_sum,
    m.tpot_us_min AS tpot_us_min,
    m.tpot_us_max AS tpot_us_max,
    m.e2e_us_count AS e2e_us_count,
    m.e2e_us_sum AS e2e_us_sum,
    m.e2e_us_min AS e2e_us_min,
    m.e2e_us_max AS e2e_us_max,
    m.queue_us_count AS queue_us_count,
    m.queue_us_sum AS queue_us_sum,
    m.queue_us_min AS queue_us_min,
    m.queue_us_max AS queue_us_max,
    m.input_tokens_sum AS input_tokens_sum,
    m.cached_tokens_sum AS cached_tokens_sum,
    m.output_tokens_sum AS output_tokens_sum,
    m.reasoning_tokens_sum AS reasoning_tokens_sum,
    m.judged_requests_sum AS judged_requests_sum,
    m.good_requests_sum AS good_requests_sum,
    m.good_tokens_sum AS good_tokens_sum,
    m.ttft_us_bins AS ttft_us_bins,
    m.tpot_us_bins AS tpot_us_bins,
    m.e2e_us_bins AS e2e_us_bins,
    m.queue_us_bins AS queue_us_bins,
    m.itl_bins AS itl_bins,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[1]) AS ttft_us_p50,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[2]) AS ttft_us_p90,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[3]) AS ttft_us_p95,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[4]) AS ttft_us_p99,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[1]) AS tpot_us_p50,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[2]) AS tpot_us_p90,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[3]) AS tpot_us_p95,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[4]) AS tpot_us_p99,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[1]) AS e2e_us_p50,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[2]) AS e2e_us_p90,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[3]) AS e2e_us_p95,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[4]) AS e2e_us_p99,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[1]) AS queue_us_p50,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[2]) AS queue_us_p90,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[3]) AS queue_us_p95,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[4]) AS queue_us_p99,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[1]) AS itl_us_p50,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[2]) AS itl_us_p90,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[3]) AS itl_us_p95,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[4]) AS itl_us_p99,
    if(ifNull(status, '') = 'ok', m.event_count, 0) AS requests_ok,
    if(ifNull(status, '') = 'aborted', m.event_count, 0) AS requests_aborted,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') = 'client', m.event_count, 0) AS requests_client_fault,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client', m.event_count, 0) AS requests_failed
FROM llm_requests_rollup_1m AS m FINAL
WHERE m.grouping = 'engine'
COMMENT 'llm.requests by 1m window and cluster, region, host, engine_id, placement_group, model, model_version, precision, status, error_kind, start, origin';

CREATE OR REPLACE VIEW engine_request_windows_1h
(
    window DateTime('UTC') COMMENT 'start of the 1h window, event time',
    window_ms Int64 COMMENT 'start of the 1h window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    status LowCardinality(Nullable(String)) COMMENT 'how the request ended',
    error_kind LowCardinality(Nullable(String)) COMMENT 'why it failed; null when it did not',
    start LowCardinality(Nullable(String)) COMMENT 'cold when the engine had to load the model for it',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    ttft_us_count UInt64 COMMENT 'values of ttft_us that were known',
    ttft_us_sum Int64 COMMENT 'sum of: received to first token that carries content [us]',
    ttft_us_min Nullable(Int64) COMMENT 'least: received to first token that carries content [us]',
    ttft_us_max Nullable(Int64) COMMENT 'greatest: received to first token that carries content [us]',
    tpot_us_count UInt64 COMMENT 'values of tpot_us that were known',
    tpot_us_sum Int64 COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_min Nullable(Int64) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_max Nullable(Int64) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_count UInt64 COMMENT 'values of e2e_us that were known',
    e2e_us_sum Int64 COMMENT 'sum of: received to last byte [us]',
    e2e_us_min Nullable(Int64) COMMENT 'least: received to last byte [us]',
    e2e_us_max Nullable(Int64) COMMENT 'greatest: received to last byte [us]',
    queue_us_count UInt64 COMMENT 'values of queue_us that were known',
    queue_us_sum Int64 COMMENT 'sum of: received to scheduled by the engine [us]',
    queue_us_min Nullable(Int64) COMMENT 'least: received to scheduled by the engine [us]',
    queue_us_max Nullable(Int64) COMMENT 'greatest: received to scheduled by the engine [us]',
    input_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens, cached ones included [tokens]',
    cached_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens served from the prefix cache [tokens]',
    output_tokens_sum Nullable(Int64) COMMENT 'sum of: generated tokens, reasoning included [tokens]',
    reasoning_tokens_sum Nullable(Int64) COMMENT 'sum of: reasoning tokens inside the output [tokens]',
    judged_requests_sum Nullable(Int64) COMMENT 'sum of: requests that count for the objectives of their class [requests]',
    good_requests_sum Nullable(Int64) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]',
    good_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]',
    ttft_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to first token that carries content [us]',
    tpot_us_bins Map(Int16, UInt64) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to last byte [us]',
    queue_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to scheduled by the engine [us]',
    itl_bins Map(Int16, UInt64) COMMENT 'sketch of inter-token gaps inside the request [us]',
    ttft_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, ttft_us_bins), of: received to first token that carries content [us]',
    tpot_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, e2e_us_bins), of: received to last byte [us]',
    queue_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, queue_us_bins), of: received to scheduled by the engine [us]',
    itl_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, itl_bins), of: inter-token gaps inside the request [us]',
    requests_ok UInt64 COMMENT 'requests: answered in full',
    requests_aborted UInt64 COMMENT 'requests: the client went away before the end',
    requests_client_fault UInt64 COMMENT 'requests: rejected for what the client sent: 4xx other than 408 and 429, `error_kind` client',
    requests_failed UInt64 COMMENT 'requests: failed on our side: errors of server, engine and network, timeouts, rejections for overload'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.ttft_us_bins) AS fp_ttft_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.tpot_us_bins) AS fp_tpot_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.e2e_us_bins) AS fp_e2e_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.queue_us_bins) AS fp_queue_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.itl_bins) AS fp_itl_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.status AS status,
    m.error_kind AS error_kind,
    m.start AS start,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.ttft_us_count AS ttft_us_count,
    m.ttft_us_sum AS ttft_us_sum,
    m.ttft_us_min AS ttft_us_min,
    m.ttft_us_max AS ttft_us_max,
    m.tpot_us_count AS tpot_us_count,
    m.tpot_us_sum AS tpot_us_sum,
    m.tpot_us_min AS tpot_us_min,
    m.tpot_us_max AS tpot_us_max,
    m.e2e_us_count AS e2e_us_count,
    m.e2e_us_sum AS e2e_us_sum,
    m.e2e_us_min AS e2e_us_min,
    m.e2e_us_max AS e2e_us_max,
    m.queue_us_count AS queue_us_count,
    m.queue_us_sum AS queue_us_sum,
    m.queue_us_min AS queue_us_min,
    m.queue_us_max AS queue_us_max,
    m.input_tokens_sum AS input_tokens_sum,
    m.cached_tokens_sum AS cached_tokens_sum,
    m.output_tokens_sum AS output_tokens_sum,
    m.reasoning_tokens_sum AS reasoning_tokens_sum,
    m.judged_requests_sum AS judged_requests_sum,
    m.good_requests_sum AS good_requests_sum,
    m.good_tokens_sum AS good_tokens_sum,
    m.ttft_us_bins AS ttft_us_bins,
    m.tpot_us_bins AS tpot_us_bins,
    m.e2e_us_bins AS e2e_us_bins,
    m.queue_us_bins AS queue_us_bins,
    m.itl_bins AS itl_bins,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[1]) AS ttft_us_p50,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[2]) AS ttft_us_p90,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[3]) AS ttft_us_p95,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[4]) AS ttft_us_p99,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[1]) AS tpot_us_p50,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[2]) AS tpot_us_p90,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[3]) AS tpot_us_p95,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[4]) AS tpot_us_p99,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[1]) AS e2e_us_p50,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[2]) AS e2e_us_p90,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[3]) AS e2e_us_p95,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[4]) AS e2e_us_p99,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[1]) AS queue_us_p50,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[2]) AS queue_us_p90,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[3]) AS queue_us_p95,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[4]) AS queue_us_p99,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[1]) AS itl_us_p50,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[2]) AS itl_us_p90,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[3]) AS itl_us_p95,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[4]) AS itl_us_p99,
    if(ifNull(status, '') = 'ok', m.event_count, 0) AS requests_ok,
    if(ifNull(status, '') = 'aborted', m.event_count, 0) AS requests_aborted,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') = 'client', m.event_count, 0) AS requests_client_fault,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client', m.event_count, 0) AS requests_failed
FROM llm_requests_rollup_1h AS m FINAL
WHERE m.grouping = 'engine'
COMMENT 'llm.requests by 1h window and cluster, region, host, engine_id, placement_group, model, model_version, precision, status, error_kind, start, origin';

CREATE OR REPLACE VIEW engine_request_windows_1d
(
    window DateTime('UTC') COMMENT 'start of the 1d window, event time',
    window_ms Int64 COMMENT 'start of the 1d window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    status LowCardinality(Nullable(String)) COMMENT 'how the request ended',
    error_kind LowCardinality(Nullable(String)) COMMENT 'why it failed; null when it did not',
    start LowCardinality(Nullable(String)) COMMENT 'cold when the engine had to load the model for it',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    ttft_us_count UInt64 COMMENT 'values of ttft_us that were known',
    ttft_us_sum Int64 COMMENT 'sum of: received to first token that carries content [us]',
    ttft_us_min Nullable(Int64) COMMENT 'least: received to first token that carries content [us]',
    ttft_us_max Nullable(Int64) COMMENT 'greatest: received to first token that carries content [us]',
    tpot_us_count UInt64 COMMENT 'values of tpot_us that were known',
    tpot_us_sum Int64 COMMENT 'sum of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_min Nullable(Int64) COMMENT 'least: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_max Nullable(Int64) COMMENT 'greatest: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_count UInt64 COMMENT 'values of e2e_us that were known',
    e2e_us_sum Int64 COMMENT 'sum of: received to last byte [us]',
    e2e_us_min Nullable(Int64) COMMENT 'least: received to last byte [us]',
    e2e_us_max Nullable(Int64) COMMENT 'greatest: received to last byte [us]',
    queue_us_count UInt64 COMMENT 'values of queue_us that were known',
    queue_us_sum Int64 COMMENT 'sum of: received to scheduled by the engine [us]',
    queue_us_min Nullable(Int64) COMMENT 'least: received to scheduled by the engine [us]',
    queue_us_max Nullable(Int64) COMMENT 'greatest: received to scheduled by the engine [us]',
    input_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens, cached ones included [tokens]',
    cached_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens served from the prefix cache [tokens]',
    output_tokens_sum Nullable(Int64) COMMENT 'sum of: generated tokens, reasoning included [tokens]',
    reasoning_tokens_sum Nullable(Int64) COMMENT 'sum of: reasoning tokens inside the output [tokens]',
    judged_requests_sum Nullable(Int64) COMMENT 'sum of: requests that count for the objectives of their class [requests]',
    good_requests_sum Nullable(Int64) COMMENT 'sum of: of these, those that ended well and met all objectives of their class [requests]',
    good_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt and generated tokens of good requests, where known [tokens]',
    ttft_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to first token that carries content [us]',
    tpot_us_bins Map(Int16, UInt64) COMMENT 'sketch of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to last byte [us]',
    queue_us_bins Map(Int16, UInt64) COMMENT 'sketch of: received to scheduled by the engine [us]',
    itl_bins Map(Int16, UInt64) COMMENT 'sketch of inter-token gaps inside the request [us]',
    ttft_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, ttft_us_bins), of: received to first token that carries content [us]',
    ttft_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, ttft_us_bins), of: received to first token that carries content [us]',
    tpot_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    tpot_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, tpot_us_bins), of: first to last token of each choice, / (output tokens - choices); null below two tokens [us]',
    e2e_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, e2e_us_bins), of: received to last byte [us]',
    e2e_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, e2e_us_bins), of: received to last byte [us]',
    queue_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, queue_us_bins), of: received to scheduled by the engine [us]',
    queue_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, queue_us_bins), of: received to scheduled by the engine [us]',
    itl_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, itl_bins), of: inter-token gaps inside the request [us]',
    itl_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, itl_bins), of: inter-token gaps inside the request [us]',
    requests_ok UInt64 COMMENT 'requests: answered in full',
    requests_aborted UInt64 COMMENT 'requests: the client went away before the end',
    requests_client_fault UInt64 COMMENT 'requests: rejected for what the client sent: 4xx other than 408 and 429, `error_kind` client',
    requests_failed UInt64 COMMENT 'requests: failed on our side: errors of server, engine and network, timeouts, rejections for overload'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.ttft_us_bins) AS fp_ttft_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.tpot_us_bins) AS fp_tpot_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.e2e_us_bins) AS fp_e2e_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.queue_us_bins) AS fp_queue_us_bins,
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.itl_bins) AS fp_itl_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.status AS status,
    m.error_kind AS error_kind,
    m.start AS start,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.ttft_us_count AS ttft_us_count,
    m.ttft_us_sum AS ttft_us_sum,
    m.ttft_us_min AS ttft_us_min,
    m.ttft_us_max AS ttft_us_max,
    m.tpot_us_count AS tpot_us_count,
    m.tpot_us_sum AS tpot_us_sum,
    m.tpot_us_min AS tpot_us_min,
    m.tpot_us_max AS tpot_us_max,
    m.e2e_us_count AS e2e_us_count,
    m.e2e_us_sum AS e2e_us_sum,
    m.e2e_us_min AS e2e_us_min,
    m.e2e_us_max AS e2e_us_max,
    m.queue_us_count AS queue_us_count,
    m.queue_us_sum AS queue_us_sum,
    m.queue_us_min AS queue_us_min,
    m.queue_us_max AS queue_us_max,
    m.input_tokens_sum AS input_tokens_sum,
    m.cached_tokens_sum AS cached_tokens_sum,
    m.output_tokens_sum AS output_tokens_sum,
    m.reasoning_tokens_sum AS reasoning_tokens_sum,
    m.judged_requests_sum AS judged_requests_sum,
    m.good_requests_sum AS good_requests_sum,
    m.good_tokens_sum AS good_tokens_sum,
    m.ttft_us_bins AS ttft_us_bins,
    m.tpot_us_bins AS tpot_us_bins,
    m.e2e_us_bins AS e2e_us_bins,
    m.queue_us_bins AS queue_us_bins,
    m.itl_bins AS itl_bins,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[1]) AS ttft_us_p50,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[2]) AS ttft_us_p90,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[3]) AS ttft_us_p95,
    if(empty(fp_ttft_us_bins), NULL, fp_ttft_us_bins[4]) AS ttft_us_p99,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[1]) AS tpot_us_p50,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[2]) AS tpot_us_p90,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[3]) AS tpot_us_p95,
    if(empty(fp_tpot_us_bins), NULL, fp_tpot_us_bins[4]) AS tpot_us_p99,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[1]) AS e2e_us_p50,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[2]) AS e2e_us_p90,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[3]) AS e2e_us_p95,
    if(empty(fp_e2e_us_bins), NULL, fp_e2e_us_bins[4]) AS e2e_us_p99,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[1]) AS queue_us_p50,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[2]) AS queue_us_p90,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[3]) AS queue_us_p95,
    if(empty(fp_queue_us_bins), NULL, fp_queue_us_bins[4]) AS queue_us_p99,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[1]) AS itl_us_p50,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[2]) AS itl_us_p90,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[3]) AS itl_us_p95,
    if(empty(fp_itl_bins), NULL, fp_itl_bins[4]) AS itl_us_p99,
    if(ifNull(status, '') = 'ok', m.event_count, 0) AS requests_ok,
    if(ifNull(status, '') = 'aborted', m.event_count, 0) AS requests_aborted,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') = 'client', m.event_count, 0) AS requests_client_fault,
    if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client', m.event_count, 0) AS requests_failed
FROM llm_requests_rollup_1d AS m FINAL
WHERE m.grouping = 'engine'
COMMENT 'llm.requests by 1d window and cluster, region, host, engine_id, placement_group, model, model_version, precision, status, error_kind, start, origin';

CREATE OR REPLACE VIEW gpu_windows_1m
(
    window DateTime('UTC') COMMENT 'start of the 1m window, event time',
    window_ms Int64 COMMENT 'start of the 1m window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name',
    workload LowCardinality(Nullable(String)) COMMENT 'what the GPU is used for',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    parent_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU that this MIG device is a part of',
    mig_profile LowCardinality(Nullable(String)) COMMENT 'size of the MIG device, such as 1g.10gb',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    util_gpu_pct_count UInt64 COMMENT 'values of util_gpu_pct that were known',
    util_gpu_pct_sum Int64 COMMENT 'sum of: share of time a kernel ran [%]',
    util_gpu_pct_min Nullable(Int64) COMMENT 'least: share of time a kernel ran [%]',
    util_gpu_pct_max Nullable(Int64) COMMENT 'greatest: share of time a kernel ran [%]',
    util_gpu_pct_last Nullable(Int64) COMMENT 'latest: share of time a kernel ran [%]',
    util_memory_pct_count UInt64 COMMENT 'values of util_memory_pct that were known',
    util_memory_pct_sum Int64 COMMENT 'sum of: share of time memory was read or written [%]',
    util_memory_pct_min Nullable(Int64) COMMENT 'least: share of time memory was read or written [%]',
    util_memory_pct_max Nullable(Int64) COMMENT 'greatest: share of time memory was read or written [%]',
    util_memory_pct_last Nullable(Int64) COMMENT 'latest: share of time memory was read or written [%]',
    power_mw_count UInt64 COMMENT 'values of power_mw that were known',
    power_mw_sum Int64 COMMENT 'sum of: power draw [mW]',
    power_mw_min Nullable(Int64) COMMENT 'least: power draw [mW]',
    power_mw_max Nullable(Int64) COMMENT 'greatest: power draw [mW]',
    power_mw_last Nullable(Int64) COMMENT 'latest: power draw [mW]',
    power_limit_mw_count UInt64 COMMENT 'values of power_limit_mw that were known',
    power_limit_mw_sum Int64 COMMENT 'sum of: enforced power limit [mW]',
    power_limit_mw_min Nullable(Int64) COMMENT 'least: enforced power limit [mW]',
    power_limit_mw_max Nullable(Int64) COMMENT 'greatest: enforced power limit [mW]',
    power_limit_mw_last Nullable(Int64) COMMENT 'latest: enforced power limit [mW]',
    temperature_c_count UInt64 COMMENT 'values of temperature_c that were known',
    temperature_c_sum Int64 COMMENT 'sum of: core temperature [C]',
    temperature_c_min Nullable(Int64) COMMENT 'least: core temperature [C]',
    temperature_c_max Nullable(Int64) COMMENT 'greatest: core temperature [C]',
    temperature_c_last Nullable(Int64) COMMENT 'latest: core temperature [C]',
    temperature_memory_c_count UInt64 COMMENT 'values of temperature_memory_c that were known',
    temperature_memory_c_sum Int64 COMMENT 'sum of: memory temperature [C]',
    temperature_memory_c_min Nullable(Int64) COMMENT 'least: memory temperature [C]',
    temperature_memory_c_max Nullable(Int64) COMMENT 'greatest: memory temperature [C]',
    temperature_memory_c_last Nullable(Int64) COMMENT 'latest: memory temperature [C]',
    clock_sm_mhz_count UInt64 COMMENT 'values of clock_sm_mhz that were known',
    clock_sm_mhz_sum Int64 COMMENT 'sum of: SM clock [MHz]',
    clock_sm_mhz_min Nullable(Int64) COMMENT 'least: SM clock [MHz]',
    clock_sm_mhz_max Nullable(Int64) COMMENT 'greatest: SM clock [MHz]',
    clock_sm_mhz_last Nullable(Int64) COMMENT 'latest: SM clock [MHz]',
    clock_memory_mhz_count UInt64 COMMENT 'values of clock_memory_mhz that were known',
    clock_memory_mhz_sum Int64 COMMENT 'sum of: memory clock [MHz]',
    clock_memory_mhz_min Nullable(Int64) COMMENT 'least: memory clock [MHz]',
    clock_memory_mhz_max Nullable(Int64) COMMENT 'greatest: memory clock [MHz]',
    clock_memory_mhz_last Nullable(Int64) COMMENT 'latest: memory clock [MHz]',
    sm_active_ppm_count UInt64 COMMENT 'values of sm_active_ppm that were known',
    sm_active_ppm_sum Int64 COMMENT 'sum of: share of SMs with a resident warp [ppm]',
    sm_active_ppm_min Nullable(Int64) COMMENT 'least: share of SMs with a resident warp [ppm]',
    sm_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of SMs with a resident warp [ppm]',
    sm_active_ppm_last Nullable(Int64) COMMENT 'latest: share of SMs with a resident warp [ppm]',
    tensor_active_ppm_count UInt64 COMMENT 'values of tensor_active_ppm that were known',
    tensor_active_ppm_sum Int64 COMMENT 'sum of: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_min Nullable(Int64) COMMENT 'least: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_last Nullable(Int64) COMMENT 'latest: share of cycles the tensor cores worked [ppm]',
    pcie_generation_count UInt64 COMMENT 'values of pcie_generation that were known',
    pcie_generation_sum Int64 COMMENT 'sum of: PCIe generation of the link now',
    pcie_generation_min Nullable(Int64) COMMENT 'least: PCIe generation of the link now',
    pcie_generation_max Nullable(Int64) COMMENT 'greatest: PCIe generation of the link now',
    pcie_generation_last Nullable(Int64) COMMENT 'latest: PCIe generation of the link now',
    pcie_width_count UInt64 COMMENT 'values of pcie_width that were known',
    pcie_width_sum Int64 COMMENT 'sum of: PCIe lanes in use [lanes]',
    pcie_width_min Nullable(Int64) COMMENT 'least: PCIe lanes in use [lanes]',
    pcie_width_max Nullable(Int64) COMMENT 'greatest: PCIe lanes in use [lanes]',
    pcie_width_last Nullable(Int64) COMMENT 'latest: PCIe lanes in use [lanes]',
    pcie_width_max_count UInt64 COMMENT 'values of pcie_width_max that were known',
    pcie_width_max_sum Int64 COMMENT 'sum of: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_min Nullable(Int64) COMMENT 'least: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_max Nullable(Int64) COMMENT 'greatest: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_last Nullable(Int64) COMMENT 'latest: PCIe lanes that GPU and slot have [lanes]',
    memory_used_bytes_count UInt64 COMMENT 'values of memory_used_bytes that were known',
    memory_used_bytes_sum Int64 COMMENT 'sum of: memory in use, reserved excluded [bytes]',
    memory_used_bytes_min Nullable(Int64) COMMENT 'least: memory in use, reserved excluded [bytes]',
    memory_used_bytes_max Nullable(Int64) COMMENT 'greatest: memory in use, reserved excluded [bytes]',
    memory_used_bytes_last Nullable(Int64) COMMENT 'latest: memory in use, reserved excluded [bytes]',
    memory_total_bytes_count UInt64 COMMENT 'values of memory_total_bytes that were known',
    memory_total_bytes_sum Int64 COMMENT 'sum of: physical memory [bytes]',
    memory_total_bytes_min Nullable(Int64) COMMENT 'least: physical memory [bytes]',
    memory_total_bytes_max Nullable(Int64) COMMENT 'greatest: physical memory [bytes]',
    memory_total_bytes_last Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    energy_mj_sum Nullable(Int64) COMMENT 'sum of: energy since the previous reading [mJ]',
    throttled_us_sum Nullable(Int64) COMMENT 'sum of: time clocks were throttled by power or heat [us]',
    throttled_fault_us_sum Nullable(Int64) COMMENT 'sum of: time clocks were throttled by anything but the power limit [us]',
    pcie_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent over PCIe [bytes]',
    pcie_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received over PCIe [bytes]',
    nvlink_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent over NVLink [bytes]',
    nvlink_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received over NVLink [bytes]',
    sm_occupancy_ppm_count UInt64 COMMENT 'values of sm_occupancy_ppm that were known',
    sm_occupancy_ppm_sum Int64 COMMENT 'sum of: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_min Nullable(Int64) COMMENT 'least: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_max Nullable(Int64) COMMENT 'greatest: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_last Nullable(Int64) COMMENT 'latest: resident warps of those that fit [ppm]',
    dram_active_ppm_count UInt64 COMMENT 'values of dram_active_ppm that were known',
    dram_active_ppm_sum Int64 COMMENT 'sum of: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_min Nullable(Int64) COMMENT 'least: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_last Nullable(Int64) COMMENT 'latest: share of the memory bandwidth in use [ppm]',
    pcie_replays_sum Nullable(Int64) COMMENT 'sum of: PCIe replays since the previous reading',
    nvlink_errors_sum Nullable(Int64) COMMENT 'sum of: NVLink errors since the previous reading',
    memory_engine_bytes_count UInt64 COMMENT 'values of memory_engine_bytes that were known',
    memory_engine_bytes_sum Int64 COMMENT 'sum of: memory that the engines on it may take [bytes]',
    memory_engine_bytes_min Nullable(Int64) COMMENT 'least: memory that the engines on it may take [bytes]',
    memory_engine_bytes_max Nullable(Int64) COMMENT 'greatest: memory that the engines on it may take [bytes]',
    memory_engine_bytes_last Nullable(Int64) COMMENT 'latest: memory that the engines on it may take [bytes]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.gpu_uuid AS gpu_uuid,
    m.gpu_model AS gpu_model,
    m.workload AS workload,
    m.origin AS origin,
    m.parent_uuid AS parent_uuid,
    m.mig_profile AS mig_profile,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.util_gpu_pct_count AS util_gpu_pct_count,
    m.util_gpu_pct_sum AS util_gpu_pct_sum,
    m.util_gpu_pct_min AS util_gpu_pct_min,
    m.util_gpu_pct_max AS util_gpu_pct_max,
    m.util_gpu_pct_last AS util_gpu_pct_last,
    m.util_memory_pct_count AS util_memory_pct_count,
    m.util_memory_pct_sum AS util_memory_pct_sum,
    m.util_memory_pct_min AS util_memory_pct_min,
    m.util_memory_pct_max AS util_memory_pct_max,
    m.util_memory_pct_last AS util_memory_pct_last,
    m.power_mw_count AS power_mw_count,
    m.power_mw_sum AS power_mw_sum,
    m.power_mw_min AS power_mw_min,
    m.power_mw_max AS power_mw_max,
    m.power_mw_last AS power_mw_last,
    m.power_limit_mw_count AS power_limit_mw_count,
    m.power_limit_mw_sum AS power_limit_mw_sum,
    m.power_limit_mw_min AS power_limit_mw_min,
    m.power_limit_mw_max AS power_limit_mw_max,
    m.power_limit_mw_last AS power_limit_mw_last,
    m.temperature_c_count AS temperature_c_count,
    m.temperature_c_sum AS temperature_c_sum,
    m.temperature_c_min AS temperature_c_min,
    m.temperature_c_max AS temperature_c_max,
    m.temperature_c_last AS temperature_c_last,
    m.temperature_memory_c_count AS temperature_memory_c_count,
    m.temperature_memory_c_sum AS temperature_memory_c_sum,
    m.temperature_memory_c_min AS temperature_memory_c_min,
    m.temperature_memory_c_max AS temperature_memory_c_max,
    m.temperature_memory_c_last AS temperature_memory_c_last,
    m.clock_sm_mhz_count AS clock_sm_mhz_count,
    m.clock_sm_mhz_sum AS clock_sm_mhz_sum,
    m.clock_sm_mhz_min AS clock_sm_mhz_min,
    m.clock_sm_mhz_max AS clock_sm_mhz_max,
    m.clock_sm_mhz_last AS clock_sm_mhz_last,
    m.clock_memory_mhz_count AS clock_memory_mhz_count,
    m.clock_memory_mhz_sum AS clock_memory_mhz_sum,
    m.clock_memory_mhz_min AS clock_memory_mhz_min,
    m.clock_memory_mhz_max AS clock_memory_mhz_max,
    m.clock_memory_mhz_last AS clock_memory_mhz_last,
    m.sm_active_ppm_count AS sm_active_ppm_count,
    m.sm_active_ppm_sum AS sm_active_ppm_sum,
    m.sm_active_ppm_min AS sm_active_ppm_min,
    m.sm_active_ppm_max AS sm_active_ppm_max,
    m.sm_active_ppm_last AS sm_active_ppm_last,
    m.tensor_active_ppm_count AS tensor_active_ppm_count,
    m.tensor_active_ppm_sum AS tensor_active_ppm_sum,
    m.tensor_active_ppm_min AS tensor_active_ppm_min,
    m.tensor_active_ppm_max AS tensor_active_ppm_max,
    m.tensor_active_ppm_last AS tensor_active_ppm_last,
    m.pcie_generation_count AS pcie_generation_count,
    m.pcie_generation_sum AS pcie_generation_sum,
    m.pcie_generation_min AS pcie_generation_min,
    m.pcie_generation_max AS pcie_generation_max,
    m.pcie_generation_last AS pcie_generation_last,
    m.pcie_width_count AS pcie_width_count,
    m.pcie_width_sum AS pcie_width_sum,
    m.pcie_width_min AS pcie_width_min,
    m.pcie_width_max AS pcie_width_max,
    m.pcie_width_last AS pcie_width_last,
    m.pcie_width_max_count AS pcie_width_max_count,
    m.pcie_width_max_sum AS pcie_width_max_sum,
    m.pcie_width_max_min AS pcie_width_max_min,
    m.pcie_width_max_max AS pcie_width_max_max,
    m.pcie_width_max_last AS pcie_width_max_last,
    m.memory_used_bytes_count AS memory_used_bytes_count,
    m.memory_used_bytes_sum AS memory_used_bytes_sum,
    m.memory_used_bytes_min AS memory_used_bytes_min,
    m.memory_used_bytes_max AS memory_used_bytes_max,
    m.memory_used_bytes_last AS memory_used_bytes_last,
    m.memory_total_bytes_count AS memory_total_bytes_count,
    m.memory_total_bytes_sum AS memory_total_bytes_sum,
    m.memory_total_bytes_min AS memory_total_bytes_min,
    m.memory_total_bytes_max AS memory_total_bytes_max,
    m.memory_total_bytes_last AS memory_total_bytes_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.energy_mj_sum AS energy_mj_sum,
    m.throttled_us_sum AS throttled_us_sum,
    m.throttled_fault_us_sum AS throttled_fault_us_sum,
    m.pcie_tx_bytes_sum AS pcie_tx_bytes_sum,
    m.pcie_rx_bytes_sum AS pcie_rx_bytes_sum,
    m.nvlink_tx_bytes_sum AS nvlink_tx_bytes_sum,
    m.nvlink_rx_bytes_sum AS nvlink_rx_bytes_sum,
    m.sm_occupancy_ppm_count AS sm_occupancy_ppm_count,
    m.sm_occupancy_ppm_sum AS sm_occupancy_ppm_sum,
    m.sm_occupancy_ppm_min AS sm_occupancy_ppm_min,
    m.sm_occupancy_ppm_max AS sm_occupancy_ppm_max,
    m.sm_occupancy_ppm_last AS sm_occupancy_ppm_last,
    m.dram_active_ppm_count AS dram_active_ppm_count,
    m.dram_active_ppm_sum AS dram_active_ppm_sum,
    m.dram_active_ppm_min AS dram_active_ppm_min,
    m.dram_active_ppm_max AS dram_active_ppm_max,
    m.dram_active_ppm_last AS dram_active_ppm_last,
    m.pcie_replays_sum AS pcie_replays_sum,
    m.nvlink_errors_sum AS nvlink_errors_sum,
    m.memory_engine_bytes_count AS memory_engine_bytes_count,
    m.memory_engine_bytes_sum AS memory_engine_bytes_sum,
    m.memory_engine_bytes_min AS memory_engine_bytes_min,
    m.memory_engine_bytes_max AS memory_engine_bytes_max,
    m.memory_engine_bytes_last AS memory_engine_bytes_last
FROM gpu_samples_rollup_1m AS m FINAL
WHERE m.grouping = 'gpu'
COMMENT 'gpu.samples by 1m window and cluster, region, host, gpu_uuid, gpu_model, engine_id, placement_group, workload, origin, parent_uuid, mig_profile';

CREATE OR REPLACE VIEW gpu_windows_1h
(
    window DateTime('UTC') COMMENT 'start of the 1h window, event time',
    window_ms Int64 COMMENT 'start of the 1h window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name',
    workload LowCardinality(Nullable(String)) COMMENT 'what the GPU is used for',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    parent_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU that this MIG device is a part of',
    mig_profile LowCardinality(Nullable(String)) COMMENT 'size of the MIG device, such as 1g.10gb',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    util_gpu_pct_count UInt64 COMMENT 'values of util_gpu_pct that were known',
    util_gpu_pct_sum Int64 COMMENT 'sum of: share of time a kernel ran [%]',
    util_gpu_pct_min Nullable(Int64) COMMENT 'least: share of time a kernel ran [%]',
    util_gpu_pct_max Nullable(Int64) COMMENT 'greatest: share of time a kernel ran [%]',
    util_gpu_pct_last Nullable(Int64) COMMENT 'latest: share of time a kernel ran [%]',
    util_memory_pct_count UInt64 COMMENT 'values of util_memory_pct that were known',
    util_memory_pct_sum Int64 COMMENT 'sum of: share of time memory was read or written [%]',
    util_memory_pct_min Nullable(Int64) COMMENT 'least: share of time memory was read or written [%]',
    util_memory_pct_max Nullable(Int64) COMMENT 'greatest: share of time memory was read or written [%]',
    util_memory_pct_last Nullable(Int64) COMMENT 'latest: share of time memory was read or written [%]',
    power_mw_count UInt64 COMMENT 'values of power_mw that were known',
    power_mw_sum Int64 COMMENT 'sum of: power draw [mW]',
    power_mw_min Nullable(Int64) COMMENT 'least: power draw [mW]',
    power_mw_max Nullable(Int64) COMMENT 'greatest: power draw [mW]',
    power_mw_last Nullable(Int64) COMMENT 'latest: power draw [mW]',
    power_limit_mw_count UInt64 COMMENT 'values of power_limit_mw that were known',
    power_limit_mw_sum Int64 COMMENT 'sum of: enforced power limit [mW]',
    power_limit_mw_min Nullable(Int64) COMMENT 'least: enforced power limit [mW]',
    power_limit_mw_max Nullable(Int64) COMMENT 'greatest: enforced power limit [mW]',
    power_limit_mw_last Nullable(Int64) COMMENT 'latest: enforced power limit [mW]',
    temperature_c_count UInt64 COMMENT 'values of temperature_c that were known',
    temperature_c_sum Int64 COMMENT 'sum of: core temperature [C]',
    temperature_c_min Nullable(Int64) COMMENT 'least: core temperature [C]',
    temperature_c_max Nullable(Int64) COMMENT 'greatest: core temperature [C]',
    temperature_c_last Nullable(Int64) COMMENT 'latest: core temperature [C]',
    temperature_memory_c_count UInt64 COMMENT 'values of temperature_memory_c that were known',
    temperature_memory_c_sum Int64 COMMENT 'sum of: memory temperature [C]',
    temperature_memory_c_min Nullable(Int64) COMMENT 'least: memory temperature [C]',
    temperature_memory_c_max Nullable(Int64) COMMENT 'greatest: memory temperature [C]',
    temperature_memory_c_last Nullable(Int64) COMMENT 'latest: memory temperature [C]',
    clock_sm_mhz_count UInt64 COMMENT 'values of clock_sm_mhz that were known',
    clock_sm_mhz_sum Int64 COMMENT 'sum of: SM clock [MHz]',
    clock_sm_mhz_min Nullable(Int64) COMMENT 'least: SM clock [MHz]',
    clock_sm_mhz_max Nullable(Int64) COMMENT 'greatest: SM clock [MHz]',
    clock_sm_mhz_last Nullable(Int64) COMMENT 'latest: SM clock [MHz]',
    clock_memory_mhz_count UInt64 COMMENT 'values of clock_memory_mhz that were known',
    clock_memory_mhz_sum Int64 COMMENT 'sum of: memory clock [MHz]',
    clock_memory_mhz_min Nullable(Int64) COMMENT 'least: memory clock [MHz]',
    clock_memory_mhz_max Nullable(Int64) COMMENT 'greatest: memory clock [MHz]',
    clock_memory_mhz_last Nullable(Int64) COMMENT 'latest: memory clock [MHz]',
    sm_active_ppm_count UInt64 COMMENT 'values of sm_active_ppm that were known',
    sm_active_ppm_sum Int64 COMMENT 'sum of: share of SMs with a resident warp [ppm]',
    sm_active_ppm_min Nullable(Int64) COMMENT 'least: share of SMs with a resident warp [ppm]',
    sm_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of SMs with a resident warp [ppm]',
    sm_active_ppm_last Nullable(Int64) COMMENT 'latest: share of SMs with a resident warp [ppm]',
    tensor_active_ppm_count UInt64 COMMENT 'values of tensor_active_ppm that were known',
    tensor_active_ppm_sum Int64 COMMENT 'sum of: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_min Nullable(Int64) COMMENT 'least: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_last Nullable(Int64) COMMENT 'latest: share of cycles the tensor cores worked [ppm]',
    pcie_generation_count UInt64 COMMENT 'values of pcie_generation that were known',
    pcie_generation_sum Int64 COMMENT 'sum of: PCIe generation of the link now',
    pcie_generation_min Nullable(Int64) COMMENT 'least: PCIe generation of the link now',
    pcie_generation_max Nullable(Int64) COMMENT 'greatest: PCIe generation of the link now',
    pcie_generation_last Nullable(Int64) COMMENT 'latest: PCIe generation of the link now',
    pcie_width_count UInt64 COMMENT 'values of pcie_width that were known',
    pcie_width_sum Int64 COMMENT 'sum of: PCIe lanes in use [lanes]',
    pcie_width_min Nullable(Int64) COMMENT 'least: PCIe lanes in use [lanes]',
    pcie_width_max Nullable(Int64) COMMENT 'greatest: PCIe lanes in use [lanes]',
    pcie_width_last Nullable(Int64) COMMENT 'latest: PCIe lanes in use [lanes]',
    pcie_width_max_count UInt64 COMMENT 'values of pcie_width_max that were known',
    pcie_width_max_sum Int64 COMMENT 'sum of: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_min Nullable(Int64) COMMENT 'least: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_max Nullable(Int64) COMMENT 'greatest: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_last Nullable(Int64) COMMENT 'latest: PCIe lanes that GPU and slot have [lanes]',
    memory_used_bytes_count UInt64 COMMENT 'values of memory_used_bytes that were known',
    memory_used_bytes_sum Int64 COMMENT 'sum of: memory in use, reserved excluded [bytes]',
    memory_used_bytes_min Nullable(Int64) COMMENT 'least: memory in use, reserved excluded [bytes]',
    memory_used_bytes_max Nullable(Int64) COMMENT 'greatest: memory in use, reserved excluded [bytes]',
    memory_used_bytes_last Nullable(Int64) COMMENT 'latest: memory in use, reserved excluded [bytes]',
    memory_total_bytes_count UInt64 COMMENT 'values of memory_total_bytes that were known',
    memory_total_bytes_sum Int64 COMMENT 'sum of: physical memory [bytes]',
    memory_total_bytes_min Nullable(Int64) COMMENT 'least: physical memory [bytes]',
    memory_total_bytes_max Nullable(Int64) COMMENT 'greatest: physical memory [bytes]',
    memory_total_bytes_last Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    energy_mj_sum Nullable(Int64) COMMENT 'sum of: energy since the previous reading [mJ]',
    throttled_us_sum Nullable(Int64) COMMENT 'sum of: time clocks were throttled by power or heat [us]',
    throttled_fault_us_sum Nullable(Int64) COMMENT 'sum of: time clocks were throttled by anything but the power limit [us]',
    pcie_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent over PCIe [bytes]',
    pcie_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received over PCIe [bytes]',
    nvlink_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent over NVLink [bytes]',
    nvlink_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received over NVLink [bytes]',
    sm_occupancy_ppm_count UInt64 COMMENT 'values of sm_occupancy_ppm that were known',
    sm_occupancy_ppm_sum Int64 COMMENT 'sum of: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_min Nullable(Int64) COMMENT 'least: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_max Nullable(Int64) COMMENT 'greatest: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_last Nullable(Int64) COMMENT 'latest: resident warps of those that fit [ppm]',
    dram_active_ppm_count UInt64 COMMENT 'values of dram_active_ppm that were known',
    dram_active_ppm_sum Int64 COMMENT 'sum of: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_min Nullable(Int64) COMMENT 'least: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_last Nullable(Int64) COMMENT 'latest: share of the memory bandwidth in use [ppm]',
    pcie_replays_sum Nullable(Int64) COMMENT 'sum of: PCIe replays since the previous reading',
    nvlink_errors_sum Nullable(Int64) COMMENT 'sum of: NVLink errors since the previous reading',
    memory_engine_bytes_count UInt64 COMMENT 'values of memory_engine_bytes that were known',
    memory_engine_bytes_sum Int64 COMMENT 'sum of: memory that the engines on it may take [bytes]',
    memory_engine_bytes_min Nullable(Int64) COMMENT 'least: memory that the engines on it may take [bytes]',
    memory_engine_bytes_max Nullable(Int64) COMMENT 'greatest: memory that the engines on it may take [bytes]',
    memory_engine_bytes_last Nullable(Int64) COMMENT 'latest: memory that the engines on it may take [bytes]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.gpu_uuid AS gpu_uuid,
    m.gpu_model AS gpu_model,
    m.workload AS workload,
    m.origin AS origin,
    m.parent_uuid AS parent_uuid,
    m.mig_profile AS mig_profile,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.util_gpu_pct_count AS util_gpu_pct_count,
    m.util_gpu_pct_sum AS util_gpu_pct_sum,
    m.util_gpu_pct_min AS util_gpu_pct_min,
    m.util_gpu_pct_max AS util_gpu_pct_max,
    m.util_gpu_pct_last AS util_gpu_pct_last,
    m.util_memory_pct_count AS util_memory_pct_count,
    m.util_memory_pct_sum AS util_memory_pct_sum,
    m.util_memory_pct_min AS util_memory_pct_min,
    m.util_memory_pct_max AS util_memory_pct_max,
    m.util_memory_pct_last AS util_memory_pct_last,
    m.power_mw_count AS power_mw_count,
    m.power_mw_sum AS power_mw_sum,
    m.power_mw_min AS power_mw_min,
    m.power_mw_max AS power_mw_max,
    m.power_mw_last AS power_mw_last,
    m.power_limit_mw_count AS power_limit_mw_count,
    m.power_limit_mw_sum AS power_limit_mw_sum,
    m.power_limit_mw_min AS power_limit_mw_min,
    m.power_limit_mw_max AS power_limit_mw_max,
    m.power_limit_mw_last AS power_limit_mw_last,
    m.temperature_c_count AS temperature_c_count,
    m.temperature_c_sum AS temperature_c_sum,
    m.temperature_c_min AS temperature_c_min,
    m.temperature_c_max AS temperature_c_max,
    m.temperature_c_last AS temperature_c_last,
    m.temperature_memory_c_count AS temperature_memory_c_count,
    m.temperature_memory_c_sum AS temperature_memory_c_sum,
    m.temperature_memory_c_min AS temperature_memory_c_min,
    m.temperature_memory_c_max AS temperature_memory_c_max,
    m.temperature_memory_c_last AS temperature_memory_c_last,
    m.clock_sm_mhz_count AS clock_sm_mhz_count,
    m.clock_sm_mhz_sum AS clock_sm_mhz_sum,
    m.clock_sm_mhz_min AS clock_sm_mhz_min,
    m.clock_sm_mhz_max AS clock_sm_mhz_max,
    m.clock_sm_mhz_last AS clock_sm_mhz_last,
    m.clock_memory_mhz_count AS clock_memory_mhz_count,
    m.clock_memory_mhz_sum AS clock_memory_mhz_sum,
    m.clock_memory_mhz_min AS clock_memory_mhz_min,
    m.clock_memory_mhz_max AS clock_memory_mhz_max,
    m.clock_memory_mhz_last AS clock_memory_mhz_last,
    m.sm_active_ppm_count AS sm_active_ppm_count,
    m.sm_active_ppm_sum AS sm_active_ppm_sum,
    m.sm_active_ppm_min AS sm_active_ppm_min,
    m.sm_active_ppm_max AS sm_active_ppm_max,
    m.sm_active_ppm_last AS sm_active_ppm_last,
    m.tensor_active_ppm_count AS tensor_active_ppm_count,
    m.tensor_active_ppm_sum AS tensor_active_ppm_sum,
    m.tensor_active_ppm_min AS tensor_active_ppm_min,
    m.tensor_active_ppm_max AS tensor_active_ppm_max,
    m.tensor_active_ppm_last AS tensor_active_ppm_last,
    m.pcie_generation_count AS pcie_generation_count,
    m.pcie_generation_sum AS pcie_generation_sum,
    m.pcie_generation_min AS pcie_generation_min,
    m.pcie_generation_max AS pcie_generation_max,
    m.pcie_generation_last AS pcie_generation_last,
    m.pcie_width_count AS pcie_width_count,
    m.pcie_width_sum AS pcie_width_sum,
    m.pcie_width_min AS pcie_width_min,
    m.pcie_width_max AS pcie_width_max,
    m.pcie_width_last AS pcie_width_last,
    m.pcie_width_max_count AS pcie_width_max_count,
    m.pcie_width_max_sum AS pcie_width_max_sum,
    m.pcie_width_max_min AS pcie_width_max_min,
    m.pcie_width_max_max AS pcie_width_max_max,
    m.pcie_width_max_last AS pcie_width_max_last,
    m.memory_used_bytes_count AS memory_used_bytes_count,
    m.memory_used_bytes_sum AS memory_used_bytes_sum,
    m.memory_used_bytes_min AS memory_used_bytes_min,
    m.memory_used_bytes_max AS memory_used_bytes_max,
    m.memory_used_bytes_last AS memory_used_bytes_last,
    m.memory_total_bytes_count AS memory_total_bytes_count,
    m.memory_total_bytes_sum AS memory_total_bytes_sum,
    m.memory_total_bytes_min AS memory_total_bytes_min,
    m.memory_total_bytes_max AS memory_total_bytes_max,
    m.memory_total_bytes_last AS memory_total_bytes_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.energy_mj_sum AS energy_mj_sum,
    m.throttled_us_sum AS throttled_us_sum,
    m.throttled_fault_us_sum AS throttled_fault_us_sum,
    m.pcie_tx_bytes_sum AS pcie_tx_bytes_sum,
    m.pcie_rx_bytes_sum AS pcie_rx_bytes_sum,
    m.nvlink_tx_bytes_sum AS nvlink_tx_bytes_sum,
    m.nvlink_rx_bytes_sum AS nvlink_rx_bytes_sum,
    m.sm_occupancy_ppm_count AS sm_occupancy_ppm_count,
    m.sm_occupancy_ppm_sum AS sm_occupancy_ppm_sum,
    m.sm_occupancy_ppm_min AS sm_occupancy_ppm_min,
    m.sm_occupancy_ppm_max AS sm_occupancy_ppm_max,
    m.sm_occupancy_ppm_last AS sm_occupancy_ppm_last,
    m.dram_active_ppm_count AS dram_active_ppm_count,
    m.dram_active_ppm_sum AS dram_active_ppm_sum,
    m.dram_active_ppm_min AS dram_active_ppm_min,
    m.dram_active_ppm_max AS dram_active_ppm_max,
    m.dram_active_ppm_last AS dram_active_ppm_last,
    m.pcie_replays_sum AS pcie_replays_sum,
    m.nvlink_errors_sum AS nvlink_errors_sum,
    m.memory_engine_bytes_count AS memory_engine_bytes_count,
    m.memory_engine_bytes_sum AS memory_engine_bytes_sum,
    m.memory_engine_bytes_min AS memory_engine_bytes_min,
    m.memory_engine_bytes_max AS memory_engine_bytes_max,
    m.memory_engine_bytes_last AS memory_engine_bytes_last
FROM gpu_samples_rollup_1h AS m FINAL
WHERE m.grouping = 'gpu'
COMMENT 'gpu.samples by 1h window and cluster, region, host, gpu_uuid, gpu_model, engine_id, placement_group, workload, origin, parent_uuid, mig_profile';

CREATE OR REPLACE VIEW gpu_windows_1d
(
    window DateTime('UTC') COMMENT 'start of the 1d window, event time',
    window_ms Int64 COMMENT 'start of the 1d window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name',
    workload LowCardinality(Nullable(String)) COMMENT 'what the GPU is used for',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    parent_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU that this MIG device is a part of',
    mig_profile LowCardinality(Nullable(String)) COMMENT 'size of the MIG device, such as 1g.10gb',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    util_gpu_pct_count UInt64 COMMENT 'values of util_gpu_pct that were known',
    util_gpu_pct_sum Int64 COMMENT 'sum of: share of time a kernel ran [%]',
    util_gpu_pct_min Nullable(Int64) COMMENT 'least: share of time a kernel ran [%]',
    util_gpu_pct_max Nullable(Int64) COMMENT 'greatest: share of time a kernel ran [%]',
    util_gpu_pct_last Nullable(Int64) COMMENT 'latest: share of time a kernel ran [%]',
    util_memory_pct_count UInt64 COMMENT 'values of util_memory_pct that were known',
    util_memory_pct_sum Int64 COMMENT 'sum of: share of time memory was read or written [%]',
    util_memory_pct_min Nullable(Int64) COMMENT 'least: share of time memory was read or written [%]',
    util_memory_pct_max Nullable(Int64) COMMENT 'greatest: share of time memory was read or written [%]',
    util_memory_pct_last Nullable(Int64) COMMENT 'latest: share of time memory was read or written [%]',
    power_mw_count UInt64 COMMENT 'values of power_mw that were known',
    power_mw_sum Int64 COMMENT 'sum of: power draw [mW]',
    power_mw_min Nullable(Int64) COMMENT 'least: power draw [mW]',
    power_mw_max Nullable(Int64) COMMENT 'greatest: power draw [mW]',
    power_mw_last Nullable(Int64) COMMENT 'latest: power draw [mW]',
    power_limit_mw_count UInt64 COMMENT 'values of power_limit_mw that were known',
    power_limit_mw_sum Int64 COMMENT 'sum of: enforced power limit [mW]',
    power_limit_mw_min Nullable(Int64) COMMENT 'least: enforced power limit [mW]',
    power_limit_mw_max Nullable(Int64) COMMENT 'greatest: enforced power limit [mW]',
    power_limit_mw_last Nullable(Int64) COMMENT 'latest: enforced power limit [mW]',
    temperature_c_count UInt64 COMMENT 'values of temperature_c that were known',
    temperature_c_sum Int64 COMMENT 'sum of: core temperature [C]',
    temperature_c_min Nullable(Int64) COMMENT 'least: core temperature [C]',
    temperature_c_max Nullable(Int64) COMMENT 'greatest: core temperature [C]',
    temperature_c_last Nullable(Int64) COMMENT 'latest: core temperature [C]',
    temperature_memory_c_count UInt64 COMMENT 'values of temperature_memory_c that were known',
    temperature_memory_c_sum Int64 COMMENT 'sum of: memory temperature [C]',
    temperature_memory_c_min Nullable(Int64) COMMENT 'least: memory temperature [C]',
    temperature_memory_c_max Nullable(Int64) COMMENT 'greatest: memory temperature [C]',
    temperature_memory_c_last Nullable(Int64) COMMENT 'latest: memory temperature [C]',
    clock_sm_mhz_count UInt64 COMMENT 'values of clock_sm_mhz that were known',
    clock_sm_mhz_sum Int64 COMMENT 'sum of: SM clock [MHz]',
    clock_sm_mhz_min Nullable(Int64) COMMENT 'least: SM clock [MHz]',
    clock_sm_mhz_max Nullable(Int64) COMMENT 'greatest: SM clock [MHz]',
    clock_sm_mhz_last Nullable(Int64) COMMENT 'latest: SM clock [MHz]',
    clock_memory_mhz_count UInt64 COMMENT 'values of clock_memory_mhz that were known',
    clock_memory_mhz_sum Int64 COMMENT 'sum of: memory clock [MHz]',
    clock_memory_mhz_min Nullable(Int64) COMMENT 'least: memory clock [MHz]',
    clock_memory_mhz_max Nullable(Int64) COMMENT 'greatest: memory clock [MHz]',
    clock_memory_mhz_last Nullable(Int64) COMMENT 'latest: memory clock [MHz]',
    sm_active_ppm_count UInt64 COMMENT 'values of sm_active_ppm that were known',
    sm_active_ppm_sum Int64 COMMENT 'sum of: share of SMs with a resident warp [ppm]',
    sm_active_ppm_min Nullable(Int64) COMMENT 'least: share of SMs with a resident warp [ppm]',
    sm_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of SMs with a resident warp [ppm]',
    sm_active_ppm_last Nullable(Int64) COMMENT 'latest: share of SMs with a resident warp [ppm]',
    tensor_active_ppm_count UInt64 COMMENT 'values of tensor_active_ppm that were known',
    tensor_active_ppm_sum Int64 COMMENT 'sum of: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_min Nullable(Int64) COMMENT 'least: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of cycles the tensor cores worked [ppm]',
    tensor_active_ppm_last Nullable(Int64) COMMENT 'latest: share of cycles the tensor cores worked [ppm]',
    pcie_generation_count UInt64 COMMENT 'values of pcie_generation that were known',
    pcie_generation_sum Int64 COMMENT 'sum of: PCIe generation of the link now',
    pcie_generation_min Nullable(Int64) COMMENT 'least: PCIe generation of the link now',
    pcie_generation_max Nullable(Int64) COMMENT 'greatest: PCIe generation of the link now',
    pcie_generation_last Nullable(Int64) COMMENT 'latest: PCIe generation of the link now',
    pcie_width_count UInt64 COMMENT 'values of pcie_width that were known',
    pcie_width_sum Int64 COMMENT 'sum of: PCIe lanes in use [lanes]',
    pcie_width_min Nullable(Int64) COMMENT 'least: PCIe lanes in use [lanes]',
    pcie_width_max Nullable(Int64) COMMENT 'greatest: PCIe lanes in use [lanes]',
    pcie_width_last Nullable(Int64) COMMENT 'latest: PCIe lanes in use [lanes]',
    pcie_width_max_count UInt64 COMMENT 'values of pcie_width_max that were known',
    pcie_width_max_sum Int64 COMMENT 'sum of: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_min Nullable(Int64) COMMENT 'least: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_max Nullable(Int64) COMMENT 'greatest: PCIe lanes that GPU and slot have [lanes]',
    pcie_width_max_last Nullable(Int64) COMMENT 'latest: PCIe lanes that GPU and slot have [lanes]',
    memory_used_bytes_count UInt64 COMMENT 'values of memory_used_bytes that were known',
    memory_used_bytes_sum Int64 COMMENT 'sum of: memory in use, reserved excluded [bytes]',
    memory_used_bytes_min Nullable(Int64) COMMENT 'least: memory in use, reserved excluded [bytes]',
    memory_used_bytes_max Nullable(Int64) COMMENT 'greatest: memory in use, reserved excluded [bytes]',
    memory_used_bytes_last Nullable(Int64) COMMENT 'latest: memory in use, reserved excluded [bytes]',
    memory_total_bytes_count UInt64 COMMENT 'values of memory_total_bytes that were known',
    memory_total_bytes_sum Int64 COMMENT 'sum of: physical memory [bytes]',
    memory_total_bytes_min Nullable(Int64) COMMENT 'least: physical memory [bytes]',
    memory_total_bytes_max Nullable(Int64) COMMENT 'greatest: physical memory [bytes]',
    memory_total_bytes_last Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    energy_mj_sum Nullable(Int64) COMMENT 'sum of: energy since the previous reading [mJ]',
    throttled_us_sum Nullable(Int64) COMMENT 'sum of: time clocks were throttled by power or heat [us]',
    throttled_fault_us_sum Nullable(Int64) COMMENT 'sum of: time clocks were throttled by anything but the power limit [us]',
    pcie_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent over PCIe [bytes]',
    pcie_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received over PCIe [bytes]',
    nvlink_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent over NVLink [bytes]',
    nvlink_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received over NVLink [bytes]',
    sm_occupancy_ppm_count UInt64 COMMENT 'values of sm_occupancy_ppm that were known',
    sm_occupancy_ppm_sum Int64 COMMENT 'sum of: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_min Nullable(Int64) COMMENT 'least: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_max Nullable(Int64) COMMENT 'greatest: resident warps of those that fit [ppm]',
    sm_occupancy_ppm_last Nullable(Int64) COMMENT 'latest: resident warps of those that fit [ppm]',
    dram_active_ppm_count UInt64 COMMENT 'values of dram_active_ppm that were known',
    dram_active_ppm_sum Int64 COMMENT 'sum of: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_min Nullable(Int64) COMMENT 'least: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_max Nullable(Int64) COMMENT 'greatest: share of the memory bandwidth in use [ppm]',
    dram_active_ppm_last Nullable(Int64) COMMENT 'latest: share of the memory bandwidth in use [ppm]',
    pcie_replays_sum Nullable(Int64) COMMENT 'sum of: PCIe replays since the previous reading',
    nvlink_errors_sum Nullable(Int64) COMMENT 'sum of: NVLink errors since the previous reading',
    memory_engine_bytes_count UInt64 COMMENT 'values of memory_engine_bytes that were known',
    memory_engine_bytes_sum Int64 COMMENT 'sum of: memory that the engines on it may take [bytes]',
    memory_engine_bytes_min Nullable(Int64) COMMENT 'least: memory that the engines on it may take [bytes]',
    memory_engine_bytes_max Nullable(Int64) COMMENT 'greatest: memory that the engines on it may take [bytes]',
    memory_engine_bytes_last Nullable(Int64) COMMENT 'latest: memory that the engines on it may take [bytes]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.gpu_uuid AS gpu_uuid,
    m.gpu_model AS gpu_model,
    m.workload AS workload,
    m.origin AS origin,
    m.parent_uuid AS parent_uuid,
    m.mig_profile AS mig_profile,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.util_gpu_pct_count AS util_gpu_pct_count,
    m.util_gpu_pct_sum AS util_gpu_pct_sum,
    m.util_gpu_pct_min AS util_gpu_pct_min,
    m.util_gpu_pct_max AS util_gpu_pct_max,
    m.util_gpu_pct_last AS util_gpu_pct_last,
    m.util_memory_pct_count AS util_memory_pct_count,
    m.util_memory_pct_sum AS util_memory_pct_sum,
    m.util_memory_pct_min AS util_memory_pct_min,
    m.util_memory_pct_max AS util_memory_pct_max,
    m.util_memory_pct_last AS util_memory_pct_last,
    m.power_mw_count AS power_mw_count,
    m.power_mw_sum AS power_mw_sum,
    m.power_mw_min AS power_mw_min,
    m.power_mw_max AS power_mw_max,
    m.power_mw_last AS power_mw_last,
    m.power_limit_mw_count AS power_limit_mw_count,
    m.power_limit_mw_sum AS power_limit_mw_sum,
    m.power_limit_mw_min AS power_limit_mw_min,
    m.power_limit_mw_max AS power_limit_mw_max,
    m.power_limit_mw_last AS power_limit_mw_last,
    m.temperature_c_count AS temperature_c_count,
    m.temperature_c_sum AS temperature_c_sum,
    m.temperature_c_min AS temperature_c_min,
    m.temperature_c_max AS temperature_c_max,
    m.temperature_c_last AS temperature_c_last,
    m.temperature_memory_c_count AS temperature_memory_c_count,
    m.temperature_memory_c_sum AS temperature_memory_c_sum,
    m.temperature_memory_c_min AS temperature_memory_c_min,
    m.temperature_memory_c_max AS temperature_memory_c_max,
    m.temperature_memory_c_last AS temperature_memory_c_last,
    m.clock_sm_mhz_count AS clock_sm_mhz_count,
    m.clock_sm_mhz_sum AS clock_sm_mhz_sum,
    m.clock_sm_mhz_min AS clock_sm_mhz_min,
    m.clock_sm_mhz_max AS clock_sm_mhz_max,
    m.clock_sm_mhz_last AS clock_sm_mhz_last,
    m.clock_memory_mhz_count AS clock_memory_mhz_count,
    m.clock_memory_mhz_sum AS clock_memory_mhz_sum,
    m.clock_memory_mhz_min AS clock_memory_mhz_min,
    m.clock_memory_mhz_max AS clock_memory_mhz_max,
    m.clock_memory_mhz_last AS clock_memory_mhz_last,
    m.sm_active_ppm_count AS sm_active_ppm_count,
    m.sm_active_ppm_sum AS sm_active_ppm_sum,
    m.sm_active_ppm_min AS sm_active_ppm_min,
    m.sm_active_ppm_max AS sm_active_ppm_max,
    m.sm_active_ppm_last AS sm_active_ppm_last,
    m.tensor_active_ppm_count AS tensor_active_ppm_count,
    m.tensor_active_ppm_sum AS tensor_active_ppm_sum,
    m.tensor_active_ppm_min AS tensor_active_ppm_min,
    m.tensor_active_ppm_max AS tensor_active_ppm_max,
    m.tensor_active_ppm_last AS tensor_active_ppm_last,
    m.pcie_generation_count AS pcie_generation_count,
    m.pcie_generation_sum AS pcie_generation_sum,
    m.pcie_generation_min AS pcie_generation_min,
    m.pcie_generation_max AS pcie_generation_max,
    m.pcie_generation_last AS pcie_generation_last,
    m.pcie_width_count AS pcie_width_count,
    m.pcie_width_sum AS pcie_width_sum,
    m.pcie_width_min AS pcie_width_min,
    m.pcie_width_max AS pcie_width_max,
    m.pcie_width_last AS pcie_width_last,
    m.pcie_width_max_count AS pcie_width_max_count,
    m.pcie_width_max_sum AS pcie_width_max_sum,
    m.pcie_width_max_min AS pcie_width_max_min,
    m.pcie_width_max_max AS pcie_width_max_max,
    m.pcie_width_max_last AS pcie_width_max_last,
    m.memory_used_bytes_count AS memory_used_bytes_count,
    m.memory_used_bytes_sum AS memory_used_bytes_sum,
    m.memory_used_bytes_min AS memory_used_bytes_min,
    m.memory_used_bytes_max AS memory_used_bytes_max,
    m.memory_used_bytes_last AS memory_used_bytes_last,
    m.memory_total_bytes_count AS memory_total_bytes_count,
    m.memory_total_bytes_sum AS memory_total_bytes_sum,
    m.memory_total_bytes_min AS memory_total_bytes_min,
    m.memory_total_bytes_max AS memory_total_bytes_max,
    m.memory_total_bytes_last AS memory_total_bytes_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.energy_mj_sum AS energy_mj_sum,
    m.throttled_us_sum AS throttled_us_sum,
    m.throttled_fault_us_sum AS throttled_fault_us_sum,
    m.pcie_tx_bytes_sum AS pcie_tx_bytes_sum,
    m.pcie_rx_bytes_sum AS pcie_rx_bytes_sum,
    m.nvlink_tx_bytes_sum AS nvlink_tx_bytes_sum,
    m.nvlink_rx_bytes_sum AS nvlink_rx_bytes_sum,
    m.sm_occupancy_ppm_count AS sm_occupancy_ppm_count,
    m.sm_occupancy_ppm_sum AS sm_occupancy_ppm_sum,
    m.sm_occupancy_ppm_min AS sm_occupancy_ppm_min,
    m.sm_occupancy_ppm_max AS sm_occupancy_ppm_max,
    m.sm_occupancy_ppm_last AS sm_occupancy_ppm_last,
    m.dram_active_ppm_count AS dram_active_ppm_count,
    m.dram_active_ppm_sum AS dram_active_ppm_sum,
    m.dram_active_ppm_min AS dram_active_ppm_min,
    m.dram_active_ppm_max AS dram_active_ppm_max,
    m.dram_active_ppm_last AS dram_active_ppm_last,
    m.pcie_replays_sum AS pcie_replays_sum,
    m.nvlink_errors_sum AS nvlink_errors_sum,
    m.memory_engine_bytes_count AS memory_engine_bytes_count,
    m.memory_engine_bytes_sum AS memory_engine_bytes_sum,
    m.memory_engine_bytes_min AS memory_engine_bytes_min,
    m.memory_engine_bytes_max AS memory_engine_bytes_max,
    m.memory_engine_bytes_last AS memory_engine_bytes_last
FROM gpu_samples_rollup_1d AS m FINAL
WHERE m.grouping = 'gpu'
COMMENT 'gpu.samples by 1d window and cluster, region, host, gpu_uuid, gpu_model, engine_id, placement_group, workload, origin, parent_uuid, mig_profile';

CREATE OR REPLACE VIEW gpu_event_windows_1m
(
    window DateTime('UTC') COMMENT 'start of the 1m window, event time',
    window_ms Int64 COMMENT 'start of the 1m window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name',
    kind LowCardinality(Nullable(String)) COMMENT 'what kind of event',
    severity LowCardinality(Nullable(String)) COMMENT 'how bad',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.gpu_uuid AS gpu_uuid,
    m.gpu_model AS gpu_model,
    m.kind AS kind,
    m.severity AS severity,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version
FROM gpu_events_rollup_1m AS m FINAL
WHERE m.grouping = 'gpu_event'
COMMENT 'gpu.events by 1m window and cluster, region, host, gpu_uuid, gpu_model, engine_id, placement_group, kind, severity, origin';

CREATE OR REPLACE VIEW gpu_event_windows_1h
(
    window DateTime('UTC') COMMENT 'start of the 1h window, event time',
    window_ms Int64 COMMENT 'start of the 1h window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name',
    kind LowCardinality(Nullable(String)) COMMENT 'what kind of event',
    severity LowCardinality(Nullable(String)) COMMENT 'how bad',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.gpu_uuid AS gpu_uuid,
    m.gpu_model AS gpu_model,
    m.kind AS kind,
    m.severity AS severity,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version
FROM gpu_events_rollup_1h AS m FINAL
WHERE m.grouping = 'gpu_event'
COMMENT 'gpu.events by 1h window and cluster, region, host, gpu_uuid, gpu_model, engine_id, placement_group, kind, severity, origin';

CREATE OR REPLACE VIEW gpu_event_windows_1d
(
    window DateTime('UTC') COMMENT 'start of the 1d window, event time',
    window_ms Int64 COMMENT 'start of the 1d window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name',
    kind LowCardinality(Nullable(String)) COMMENT 'what kind of event',
    severity LowCardinality(Nullable(String)) COMMENT 'how bad',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.gpu_uuid AS gpu_uuid,
    m.gpu_model AS gpu_model,
    m.kind AS kind,
    m.severity AS severity,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version
FROM gpu_events_rollup_1d AS m FINAL
WHERE m.grouping = 'gpu_event'
COMMENT 'gpu.events by 1d window and cluster, region, host, gpu_uuid, gpu_model, engine_id, placement_group, kind, severity, origin';

CREATE OR REPLACE VIEW host_windows_1m
(
    window DateTime('UTC') COMMENT 'start of the 1m window, event time',
    window_ms Int64 COMMENT 'start of the 1m window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    cpu_busy_ppm_count UInt64 COMMENT 'values of cpu_busy_ppm that were known',
    cpu_busy_ppm_sum Int64 COMMENT 'sum of: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_min Nullable(Int64) COMMENT 'least: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_max Nullable(Int64) COMMENT 'greatest: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_last Nullable(Int64) COMMENT 'latest: share of all processors\' time not idle [ppm]',
    cpu_iowait_ppm_count UInt64 COMMENT 'values of cpu_iowait_ppm that were known',
    cpu_iowait_ppm_sum Int64 COMMENT 'sum of: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_min Nullable(Int64) COMMENT 'least: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_max Nullable(Int64) COMMENT 'greatest: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_last Nullable(Int64) COMMENT 'latest: share of all processors\' time waiting for disks [ppm]',
    cpu_core_busy_max_ppm_count UInt64 COMMENT 'values of cpu_core_busy_max_ppm that were known',
    cpu_core_busy_max_ppm_sum Int64 COMMENT 'sum of: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_min Nullable(Int64) COMMENT 'least: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_max Nullable(Int64) COMMENT 'greatest: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_last Nullable(Int64) COMMENT 'latest: busiest logical processor: share of its time not idle [ppm]',
    load_1m_milli_count UInt64 COMMENT 'values of load_1m_milli that were known',
    load_1m_milli_sum Int64 COMMENT 'sum of: load average over one minute [1/1000]',
    load_1m_milli_min Nullable(Int64) COMMENT 'least: load average over one minute [1/1000]',
    load_1m_milli_max Nullable(Int64) COMMENT 'greatest: load average over one minute [1/1000]',
    load_1m_milli_last Nullable(Int64) COMMENT 'latest: load average over one minute [1/1000]',
    processors_count UInt64 COMMENT 'values of processors that were known',
    processors_sum Int64 COMMENT 'sum of: logical processors',
    processors_min Nullable(Int64) COMMENT 'least: logical processors',
    processors_max Nullable(Int64) COMMENT 'greatest: logical processors',
    processors_last Nullable(Int64) COMMENT 'latest: logical processors',
    memory_used_bytes_count UInt64 COMMENT 'values of memory_used_bytes that were known',
    memory_used_bytes_sum Int64 COMMENT 'sum of: total minus available [bytes]',
    memory_used_bytes_min Nullable(Int64) COMMENT 'least: total minus available [bytes]',
    memory_used_bytes_max Nullable(Int64) COMMENT 'greatest: total minus available [bytes]',
    memory_used_bytes_last Nullable(Int64) COMMENT 'latest: total minus available [bytes]',
    memory_total_bytes_count UInt64 COMMENT 'values of memory_total_bytes that were known',
    memory_total_bytes_sum Int64 COMMENT 'sum of: physical memory [bytes]',
    memory_total_bytes_min Nullable(Int64) COMMENT 'least: physical memory [bytes]',
    memory_total_bytes_max Nullable(Int64) COMMENT 'greatest: physical memory [bytes]',
    memory_total_bytes_last Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    swap_used_bytes_count UInt64 COMMENT 'values of swap_used_bytes that were known',
    swap_used_bytes_sum Int64 COMMENT 'sum of: swap in use [bytes]',
    swap_used_bytes_min Nullable(Int64) COMMENT 'least: swap in use [bytes]',
    swap_used_bytes_max Nullable(Int64) COMMENT 'greatest: swap in use [bytes]',
    swap_used_bytes_last Nullable(Int64) COMMENT 'latest: swap in use [bytes]',
    disk_queue_milli_count UInt64 COMMENT 'values of disk_queue_milli that were known',
    disk_queue_milli_sum Int64 COMMENT 'sum of: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_min Nullable(Int64) COMMENT 'least: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_max Nullable(Int64) COMMENT 'greatest: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_last Nullable(Int64) COMMENT 'latest: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    cpu_pressure_ppm_count UInt64 COMMENT 'values of cpu_pressure_ppm that were known',
    cpu_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for a processor [ppm]',
    memory_pressure_ppm_count UInt64 COMMENT 'values of memory_pressure_ppm that were known',
    memory_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for memory [ppm]',
    memory_full_pressure_ppm_count UInt64 COMMENT 'values of memory_full_pressure_ppm that were known',
    memory_full_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which all tasks waited for memory [ppm]',
    io_pressure_ppm_count UInt64 COMMENT 'values of io_pressure_ppm that were known',
    io_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for a disk [ppm]',
    agent_collect_us_count UInt64 COMMENT 'values of agent_collect_us that were known',
    agent_collect_us_sum Int64 COMMENT 'sum of: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_min Nullable(Int64) COMMENT 'least: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_max Nullable(Int64) COMMENT 'greatest: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_last Nullable(Int64) COMMENT 'latest: processor time of one round of the agent\'s collectors [us]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    network_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent, all interfaces with hardware [bytes]',
    network_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received, all interfaces with hardware [bytes]',
    network_errors_sum Nullable(Int64) COMMENT 'sum of: errors and drops, both ways',
    disk_read_bytes_sum Nullable(Int64) COMMENT 'sum of: read from disks [bytes]',
    disk_write_bytes_sum Nullable(Int64) COMMENT 'sum of: written to disks [bytes]',
    disk_busy_ms_sum Nullable(Int64) COMMENT 'sum of: time disks were busy, summed [ms]',
    swap_in_bytes_sum Nullable(Int64) COMMENT 'sum of: read back from swap [bytes]',
    swap_out_bytes_sum Nullable(Int64) COMMENT 'sum of: written to swap [bytes]',
    tcp_retransmits_sum Nullable(Int64) COMMENT 'sum of: TCP segments sent again',
    tcp_segments_out_sum Nullable(Int64) COMMENT 'sum of: TCP segments sent, repeats left out',
    rdma_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent, all InfiniBand and RoCE ports [bytes]',
    rdma_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received, all InfiniBand and RoCE ports [bytes]',
    rdma_errors_sum Nullable(Int64) COMMENT 'sum of: errors of all these ports, both ways'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.cpu_busy_ppm_count AS cpu_busy_ppm_count,
    m.cpu_busy_ppm_sum AS cpu_busy_ppm_sum,
    m.cpu_busy_ppm_min AS cpu_busy_ppm_min,
    m.cpu_busy_ppm_max AS cpu_busy_ppm_max,
    m.cpu_busy_ppm_last AS cpu_busy_ppm_last,
    m.cpu_iowait_ppm_count AS cpu_iowait_ppm_count,
    m.cpu_iowait_ppm_sum AS cpu_iowait_ppm_sum,
    m.cpu_iowait_ppm_min AS cpu_iowait_ppm_min,
    m.cpu_iowait_ppm_max AS cpu_iowait_ppm_max,
    m.cpu_iowait_ppm_last AS cpu_iowait_ppm_last,
    m.cpu_core_busy_max_ppm_count AS cpu_core_busy_max_ppm_count,
    m.cpu_core_busy_max_ppm_sum AS cpu_core_busy_max_ppm_sum,
    m.cpu_core_busy_max_ppm_min AS cpu_core_busy_max_ppm_min,
    m.cpu_core_busy_max_ppm_max AS cpu_core_busy_max_ppm_max,
    m.cpu_core_busy_max_ppm_last AS cpu_core_busy_max_ppm_last,
    m.load_1m_milli_count AS load_1m_milli_count,
    m.load_1m_milli_sum AS load_1m_milli_sum,
    m.load_1m_milli_min AS load_1m_milli_min,
    m.load_1m_milli_max AS load_1m_milli_max,
    m.load_1m_milli_last AS load_1m_milli_last,
    m.processors_count AS processors_count,
    m.processors_sum AS processors_sum,
    m.processors_min AS processors_min,
    m.processors_max AS processors_max,
    m.processors_last AS processors_last,
    m.memory_used_bytes_count AS memory_used_bytes_count,
    m.memory_used_bytes_sum AS memory_used_bytes_sum,
    m.memory_used_bytes_min AS memory_used_bytes_min,
    m.memory_used_bytes_max AS memory_used_bytes_max,
    m.memory_used_bytes_last AS memory_used_bytes_last,
    m.memory_total_bytes_count AS memory_total_bytes_count,
    m.memory_total_bytes_sum AS memory_total_bytes_sum,
    m.memory_total_bytes_min AS memory_total_bytes_min,
    m.memory_total_bytes_max AS memory_total_bytes_max,
    m.memory_total_bytes_last AS memory_total_bytes_last,
    m.swap_used_bytes_count AS swap_used_bytes_count,
    m.swap_used_bytes_sum AS swap_used_bytes_sum,
    m.swap_used_bytes_min AS swap_used_bytes_min,
    m.swap_used_bytes_max AS swap_used_bytes_max,
    m.swap_used_bytes_last AS swap_used_bytes_last,
    m.disk_queue_milli_count AS disk_queue_milli_count,
    m.disk_queue_milli_sum AS disk_queue_milli_sum,
    m.disk_queue_milli_min AS disk_queue_milli_min,
    m.disk_queue_milli_max AS disk_queue_milli_max,
    m.disk_queue_milli_last AS disk_queue_milli_last,
    m.cpu_pressure_ppm_count AS cpu_pressure_ppm_count,
    m.cpu_pressure_ppm_sum AS cpu_pressure_ppm_sum,
    m.cpu_pressure_ppm_min AS cpu_pressure_ppm_min,
    m.cpu_pressure_ppm_max AS cpu_pressure_ppm_max,
    m.cpu_pressure_ppm_last AS cpu_pressure_ppm_last,
    m.memory_pressure_ppm_count AS memory_pressure_ppm_count,
    m.memory_pressure_ppm_sum AS memory_pressure_ppm_sum,
    m.memory_pressure_ppm_min AS memory_pressure_ppm_min,
    m.memory_pressure_ppm_max AS memory_pressure_ppm_max,
    m.memory_pressure_ppm_last AS memory_pressure_ppm_last,
    m.memory_full_pressure_ppm_count AS memory_full_pressure_ppm_count,
    m.memory_full_pressure_ppm_sum AS memory_full_pressure_ppm_sum,
    m.memory_full_pressure_ppm_min AS memory_full_pressure_ppm_min,
    m.memory_full_pressure_ppm_max AS memory_full_pressure_ppm_max,
    m.memory_full_pressure_ppm_last AS memory_full_pressure_ppm_last,
    m.io_pressure_ppm_count AS io_pressure_ppm_count,
    m.io_pressure_ppm_sum AS io_pressure_ppm_sum,
    m.io_pressure_ppm_min AS io_pressure_ppm_min,
    m.io_pressure_ppm_max AS io_pressure_ppm_max,
    m.io_pressure_ppm_last AS io_pressure_ppm_last,
    m.agent_collect_us_count AS agent_collect_us_count,
    m.agent_collect_us_sum AS agent_collect_us_sum,
    m.agent_collect_us_min AS agent_collect_us_min,
    m.agent_collect_us_max AS agent_collect_us_max,
    m.agent_collect_us_last AS agent_collect_us_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.network_tx_bytes_sum AS network_tx_bytes_sum,
    m.network_rx_bytes_sum AS network_rx_bytes_sum,
    m.network_errors_sum AS network_errors_sum,
    m.disk_read_bytes_sum AS disk_read_bytes_sum,
    m.disk_write_bytes_sum AS disk_write_bytes_sum,
    m.disk_busy_ms_sum AS disk_busy_ms_sum,
    m.swap_in_bytes_sum AS swap_in_bytes_sum,
    m.swap_out_bytes_sum AS swap_out_bytes_sum,
    m.tcp_retransmits_sum AS tcp_retransmits_sum,
    m.tcp_segments_out_sum AS tcp_segments_out_sum,
    m.rdma_tx_bytes_sum AS rdma_tx_bytes_sum,
    m.rdma_rx_bytes_sum AS rdma_rx_bytes_sum,
    m.rdma_errors_sum AS rdma_errors_sum
FROM host_samples_rollup_1m AS m FINAL
WHERE m.grouping = 'host'
COMMENT 'host.samples by 1m window and cluster, region, host, origin';

CREATE OR REPLACE VIEW host_windows_1h
(
    window DateTime('UTC') COMMENT 'start of the 1h window, event time',
    window_ms Int64 COMMENT 'start of the 1h window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    cpu_busy_ppm_count UInt64 COMMENT 'values of cpu_busy_ppm that were known',
    cpu_busy_ppm_sum Int64 COMMENT 'sum of: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_min Nullable(Int64) COMMENT 'least: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_max Nullable(Int64) COMMENT 'greatest: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_last Nullable(Int64) COMMENT 'latest: share of all processors\' time not idle [ppm]',
    cpu_iowait_ppm_count UInt64 COMMENT 'values of cpu_iowait_ppm that were known',
    cpu_iowait_ppm_sum Int64 COMMENT 'sum of: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_min Nullable(Int64) COMMENT 'least: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_max Nullable(Int64) COMMENT 'greatest: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_last Nullable(Int64) COMMENT 'latest: share of all processors\' time waiting for disks [ppm]',
    cpu_core_busy_max_ppm_count UInt64 COMMENT 'values of cpu_core_busy_max_ppm that were known',
    cpu_core_busy_max_ppm_sum Int64 COMMENT 'sum of: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_min Nullable(Int64) COMMENT 'least: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_max Nullable(Int64) COMMENT 'greatest: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_last Nullable(Int64) COMMENT 'latest: busiest logical processor: share of its time not idle [ppm]',
    load_1m_milli_count UInt64 COMMENT 'values of load_1m_milli that were known',
    load_1m_milli_sum Int64 COMMENT 'sum of: load average over one minute [1/1000]',
    load_1m_milli_min Nullable(Int64) COMMENT 'least: load average over one minute [1/1000]',
    load_1m_milli_max Nullable(Int64) COMMENT 'greatest: load average over one minute [1/1000]',
    load_1m_milli_last Nullable(Int64) COMMENT 'latest: load average over one minute [1/1000]',
    processors_count UInt64 COMMENT 'values of processors that were known',
    processors_sum Int64 COMMENT 'sum of: logical processors',
    processors_min Nullable(Int64) COMMENT 'least: logical processors',
    processors_max Nullable(Int64) COMMENT 'greatest: logical processors',
    processors_last Nullable(Int64) COMMENT 'latest: logical processors',
    memory_used_bytes_count UInt64 COMMENT 'values of memory_used_bytes that were known',
    memory_used_bytes_sum Int64 COMMENT 'sum of: total minus available [bytes]',
    memory_used_bytes_min Nullable(Int64) COMMENT 'least: total minus available [bytes]',
    memory_used_bytes_max Nullable(Int64) COMMENT 'greatest: total minus available [bytes]',
    memory_used_bytes_last Nullable(Int64) COMMENT 'latest: total minus available [bytes]',
    memory_total_bytes_count UInt64 COMMENT 'values of memory_total_bytes that were known',
    memory_total_bytes_sum Int64 COMMENT 'sum of: physical memory [bytes]',
    memory_total_bytes_min Nullable(Int64) COMMENT 'least: physical memory [bytes]',
    memory_total_bytes_max Nullable(Int64) COMMENT 'greatest: physical memory [bytes]',
    memory_total_bytes_last Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    swap_used_bytes_count UInt64 COMMENT 'values of swap_used_bytes that were known',
    swap_used_bytes_sum Int64 COMMENT 'sum of: swap in use [bytes]',
    swap_used_bytes_min Nullable(Int64) COMMENT 'least: swap in use [bytes]',
    swap_used_bytes_max Nullable(Int64) COMMENT 'greatest: swap in use [bytes]',
    swap_used_bytes_last Nullable(Int64) COMMENT 'latest: swap in use [bytes]',
    disk_queue_milli_count UInt64 COMMENT 'values of disk_queue_milli that were known',
    disk_queue_milli_sum Int64 COMMENT 'sum of: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_min Nullable(Int64) COMMENT 'least: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_max Nullable(Int64) COMMENT 'greatest: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_last Nullable(Int64) COMMENT 'latest: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    cpu_pressure_ppm_count UInt64 COMMENT 'values of cpu_pressure_ppm that were known',
    cpu_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for a processor [ppm]',
    memory_pressure_ppm_count UInt64 COMMENT 'values of memory_pressure_ppm that were known',
    memory_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for memory [ppm]',
    memory_full_pressure_ppm_count UInt64 COMMENT 'values of memory_full_pressure_ppm that were known',
    memory_full_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which all tasks waited for memory [ppm]',
    io_pressure_ppm_count UInt64 COMMENT 'values of io_pressure_ppm that were known',
    io_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for a disk [ppm]',
    agent_collect_us_count UInt64 COMMENT 'values of agent_collect_us that were known',
    agent_collect_us_sum Int64 COMMENT 'sum of: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_min Nullable(Int64) COMMENT 'least: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_max Nullable(Int64) COMMENT 'greatest: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_last Nullable(Int64) COMMENT 'latest: processor time of one round of the agent\'s collectors [us]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    network_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent, all interfaces with hardware [bytes]',
    network_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received, all interfaces with hardware [bytes]',
    network_errors_sum Nullable(Int64) COMMENT 'sum of: errors and drops, both ways',
    disk_read_bytes_sum Nullable(Int64) COMMENT 'sum of: read from disks [bytes]',
    disk_write_bytes_sum Nullable(Int64) COMMENT 'sum of: written to disks [bytes]',
    disk_busy_ms_sum Nullable(Int64) COMMENT 'sum of: time disks were busy, summed [ms]',
    swap_in_bytes_sum Nullable(Int64) COMMENT 'sum of: read back from swap [bytes]',
    swap_out_bytes_sum Nullable(Int64) COMMENT 'sum of: written to swap [bytes]',
    tcp_retransmits_sum Nullable(Int64) COMMENT 'sum of: TCP segments sent again',
    tcp_segments_out_sum Nullable(Int64) COMMENT 'sum of: TCP segments sent, repeats left out',
    rdma_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent, all InfiniBand and RoCE ports [bytes]',
    rdma_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received, all InfiniBand and RoCE ports [bytes]',
    rdma_errors_sum Nullable(Int64) COMMENT 'sum of: errors of all these ports, both ways'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.cpu_busy_ppm_count AS cpu_busy_ppm_count,
    m.cpu_busy_ppm_sum AS cpu_busy_ppm_sum,
    m.cpu_busy_ppm_min AS cpu_busy_ppm_min,
    m.cpu_busy_ppm_max AS cpu_busy_ppm_max,
    m.cpu_busy_ppm_last AS cpu_busy_ppm_last,
    m.cpu_iowait_ppm_count AS cpu_iowait_ppm_count,
    m.cpu_iowait_ppm_sum AS cpu_iowait_ppm_sum,
    m.cpu_iowait_ppm_min AS cpu_iowait_ppm_min,
    m.cpu_iowait_ppm_max AS cpu_iowait_ppm_max,
    m.cpu_iowait_ppm_last AS cpu_iowait_ppm_last,
    m.cpu_core_busy_max_ppm_count AS cpu_core_busy_max_ppm_count,
    m.cpu_core_busy_max_ppm_sum AS cpu_core_busy_max_ppm_sum,
    m.cpu_core_busy_max_ppm_min AS cpu_core_busy_max_ppm_min,
    m.cpu_core_busy_max_ppm_max AS cpu_core_busy_max_ppm_max,
    m.cpu_core_busy_max_ppm_last AS cpu_core_busy_max_ppm_last,
    m.load_1m_milli_count AS load_1m_milli_count,
    m.load_1m_milli_sum AS load_1m_milli_sum,
    m.load_1m_milli_min AS load_1m_milli_min,
    m.load_1m_milli_max AS load_1m_milli_max,
    m.load_1m_milli_last AS load_1m_milli_last,
    m.processors_count AS processors_count,
    m.processors_sum AS processors_sum,
    m.processors_min AS processors_min,
    m.processors_max AS processors_max,
    m.processors_last AS processors_last,
    m.memory_used_bytes_count AS memory_used_bytes_count,
    m.memory_used_bytes_sum AS memory_used_bytes_sum,
    m.memory_used_bytes_min AS memory_used_bytes_min,
    m.memory_used_bytes_max AS memory_used_bytes_max,
    m.memory_used_bytes_last AS memory_used_bytes_last,
    m.memory_total_bytes_count AS memory_total_bytes_count,
    m.memory_total_bytes_sum AS memory_total_bytes_sum,
    m.memory_total_bytes_min AS memory_total_bytes_min,
    m.memory_total_bytes_max AS memory_total_bytes_max,
    m.memory_total_bytes_last AS memory_total_bytes_last,
    m.swap_used_bytes_count AS swap_used_bytes_count,
    m.swap_used_bytes_sum AS swap_used_bytes_sum,
    m.swap_used_bytes_min AS swap_used_bytes_min,
    m.swap_used_bytes_max AS swap_used_bytes_max,
    m.swap_used_bytes_last AS swap_used_bytes_last,
    m.disk_queue_milli_count AS disk_queue_milli_count,
    m.disk_queue_milli_sum AS disk_queue_milli_sum,
    m.disk_queue_milli_min AS disk_queue_milli_min,
    m.disk_queue_milli_max AS disk_queue_milli_max,
    m.disk_queue_milli_last AS disk_queue_milli_last,
    m.cpu_pressure_ppm_count AS cpu_pressure_ppm_count,
    m.cpu_pressure_ppm_sum AS cpu_pressure_ppm_sum,
    m.cpu_pressure_ppm_min AS cpu_pressure_ppm_min,
    m.cpu_pressure_ppm_max AS cpu_pressure_ppm_max,
    m.cpu_pressure_ppm_last AS cpu_pressure_ppm_last,
    m.memory_pressure_ppm_count AS memory_pressure_ppm_count,
    m.memory_pressure_ppm_sum AS memory_pressure_ppm_sum,
    m.memory_pressure_ppm_min AS memory_pressure_ppm_min,
    m.memory_pressure_ppm_max AS memory_pressure_ppm_max,
    m.memory_pressure_ppm_last AS memory_pressure_ppm_last,
    m.memory_full_pressure_ppm_count AS memory_full_pressure_ppm_count,
    m.memory_full_pressure_ppm_sum AS memory_full_pressure_ppm_sum,
    m.memory_full_pressure_ppm_min AS memory_full_pressure_ppm_min,
    m.memory_full_pressure_ppm_max AS memory_full_pressure_ppm_max,
    m.memory_full_pressure_ppm_last AS memory_full_pressure_ppm_last,
    m.io_pressure_ppm_count AS io_pressure_ppm_count,
    m.io_pressure_ppm_sum AS io_pressure_ppm_sum,
    m.io_pressure_ppm_min AS io_pressure_ppm_min,
    m.io_pressure_ppm_max AS io_pressure_ppm_max,
    m.io_pressure_ppm_last AS io_pressure_ppm_last,
    m.agent_collect_us_count AS agent_collect_us_count,
    m.agent_collect_us_sum AS agent_collect_us_sum,
    m.agent_collect_us_min AS agent_collect_us_min,
    m.agent_collect_us_max AS agent_collect_us_max,
    m.agent_collect_us_last AS agent_collect_us_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.network_tx_bytes_sum AS network_tx_bytes_sum,
    m.network_rx_bytes_sum AS network_rx_bytes_sum,
    m.network_errors_sum AS network_errors_sum,
    m.disk_read_bytes_sum AS disk_read_bytes_sum,
    m.disk_write_bytes_sum AS disk_write_bytes_sum,
    m.disk_busy_ms_sum AS disk_busy_ms_sum,
    m.swap_in_bytes_sum AS swap_in_bytes_sum,
    m.swap_out_bytes_sum AS swap_out_bytes_sum,
    m.tcp_retransmits_sum AS tcp_retransmits_sum,
    m.tcp_segments_out_sum AS tcp_segments_out_sum,
    m.rdma_tx_bytes_sum AS rdma_tx_bytes_sum,
    m.rdma_rx_bytes_sum AS rdma_rx_bytes_sum,
    m.rdma_errors_sum AS rdma_errors_sum
FROM host_samples_rollup_1h AS m FINAL
WHERE m.grouping = 'host'
COMMENT 'host.samples by 1h window and cluster, region, host, origin';

CREATE OR REPLACE VIEW host_windows_1d
(
    window DateTime('UTC') COMMENT 'start of the 1d window, event time',
    window_ms Int64 COMMENT 'start of the 1d window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    cpu_busy_ppm_count UInt64 COMMENT 'values of cpu_busy_ppm that were known',
    cpu_busy_ppm_sum Int64 COMMENT 'sum of: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_min Nullable(Int64) COMMENT 'least: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_max Nullable(Int64) COMMENT 'greatest: share of all processors\' time not idle [ppm]',
    cpu_busy_ppm_last Nullable(Int64) COMMENT 'latest: share of all processors\' time not idle [ppm]',
    cpu_iowait_ppm_count UInt64 COMMENT 'values of cpu_iowait_ppm that were known',
    cpu_iowait_ppm_sum Int64 COMMENT 'sum of: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_min Nullable(Int64) COMMENT 'least: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_max Nullable(Int64) COMMENT 'greatest: share of all processors\' time waiting for disks [ppm]',
    cpu_iowait_ppm_last Nullable(Int64) COMMENT 'latest: share of all processors\' time waiting for disks [ppm]',
    cpu_core_busy_max_ppm_count UInt64 COMMENT 'values of cpu_core_busy_max_ppm that were known',
    cpu_core_busy_max_ppm_sum Int64 COMMENT 'sum of: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_min Nullable(Int64) COMMENT 'least: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_max Nullable(Int64) COMMENT 'greatest: busiest logical processor: share of its time not idle [ppm]',
    cpu_core_busy_max_ppm_last Nullable(Int64) COMMENT 'latest: busiest logical processor: share of its time not idle [ppm]',
    load_1m_milli_count UInt64 COMMENT 'values of load_1m_milli that were known',
    load_1m_milli_sum Int64 COMMENT 'sum of: load average over one minute [1/1000]',
    load_1m_milli_min Nullable(Int64) COMMENT 'least: load average over one minute [1/1000]',
    load_1m_milli_max Nullable(Int64) COMMENT 'greatest: load average over one minute [1/1000]',
    load_1m_milli_last Nullable(Int64) COMMENT 'latest: load average over one minute [1/1000]',
    processors_count UInt64 COMMENT 'values of processors that were known',
    processors_sum Int64 COMMENT 'sum of: logical processors',
    processors_min Nullable(Int64) COMMENT 'least: logical processors',
    processors_max Nullable(Int64) COMMENT 'greatest: logical processors',
    processors_last Nullable(Int64) COMMENT 'latest: logical processors',
    memory_used_bytes_count UInt64 COMMENT 'values of memory_used_bytes that were known',
    memory_used_bytes_sum Int64 COMMENT 'sum of: total minus available [bytes]',
    memory_used_bytes_min Nullable(Int64) COMMENT 'least: total minus available [bytes]',
    memory_used_bytes_max Nullable(Int64) COMMENT 'greatest: total minus available [bytes]',
    memory_used_bytes_last Nullable(Int64) COMMENT 'latest: total minus available [bytes]',
    memory_total_bytes_count UInt64 COMMENT 'values of memory_total_bytes that were known',
    memory_total_bytes_sum Int64 COMMENT 'sum of: physical memory [bytes]',
    memory_total_bytes_min Nullable(Int64) COMMENT 'least: physical memory [bytes]',
    memory_total_bytes_max Nullable(Int64) COMMENT 'greatest: physical memory [bytes]',
    memory_total_bytes_last Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    swap_used_bytes_count UInt64 COMMENT 'values of swap_used_bytes that were known',
    swap_used_bytes_sum Int64 COMMENT 'sum of: swap in use [bytes]',
    swap_used_bytes_min Nullable(Int64) COMMENT 'least: swap in use [bytes]',
    swap_used_bytes_max Nullable(Int64) COMMENT 'greatest: swap in use [bytes]',
    swap_used_bytes_last Nullable(Int64) COMMENT 'latest: swap in use [bytes]',
    disk_queue_milli_count UInt64 COMMENT 'values of disk_queue_milli that were known',
    disk_queue_milli_sum Int64 COMMENT 'sum of: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_min Nullable(Int64) COMMENT 'least: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_max Nullable(Int64) COMMENT 'greatest: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    disk_queue_milli_last Nullable(Int64) COMMENT 'latest: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    cpu_pressure_ppm_count UInt64 COMMENT 'values of cpu_pressure_ppm that were known',
    cpu_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for a processor [ppm]',
    cpu_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for a processor [ppm]',
    memory_pressure_ppm_count UInt64 COMMENT 'values of memory_pressure_ppm that were known',
    memory_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for memory [ppm]',
    memory_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for memory [ppm]',
    memory_full_pressure_ppm_count UInt64 COMMENT 'values of memory_full_pressure_ppm that were known',
    memory_full_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which all tasks waited for memory [ppm]',
    memory_full_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which all tasks waited for memory [ppm]',
    io_pressure_ppm_count UInt64 COMMENT 'values of io_pressure_ppm that were known',
    io_pressure_ppm_sum Int64 COMMENT 'sum of: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_min Nullable(Int64) COMMENT 'least: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_max Nullable(Int64) COMMENT 'greatest: share of the interval in which some task waited for a disk [ppm]',
    io_pressure_ppm_last Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for a disk [ppm]',
    agent_collect_us_count UInt64 COMMENT 'values of agent_collect_us that were known',
    agent_collect_us_sum Int64 COMMENT 'sum of: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_min Nullable(Int64) COMMENT 'least: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_max Nullable(Int64) COMMENT 'greatest: processor time of one round of the agent\'s collectors [us]',
    agent_collect_us_last Nullable(Int64) COMMENT 'latest: processor time of one round of the agent\'s collectors [us]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    network_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent, all interfaces with hardware [bytes]',
    network_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received, all interfaces with hardware [bytes]',
    network_errors_sum Nullable(Int64) COMMENT 'sum of: errors and drops, both ways',
    disk_read_bytes_sum Nullable(Int64) COMMENT 'sum of: read from disks [bytes]',
    disk_write_bytes_sum Nullable(Int64) COMMENT 'sum of: written to disks [bytes]',
    disk_busy_ms_sum Nullable(Int64) COMMENT 'sum of: time disks were busy, summed [ms]',
    swap_in_bytes_sum Nullable(Int64) COMMENT 'sum of: read back from swap [bytes]',
    swap_out_bytes_sum Nullable(Int64) COMMENT 'sum of: written to swap [bytes]',
    tcp_retransmits_sum Nullable(Int64) COMMENT 'sum of: TCP segments sent again',
    tcp_segments_out_sum Nullable(Int64) COMMENT 'sum of: TCP segments sent, repeats left out',
    rdma_tx_bytes_sum Nullable(Int64) COMMENT 'sum of: sent, all InfiniBand and RoCE ports [bytes]',
    rdma_rx_bytes_sum Nullable(Int64) COMMENT 'sum of: received, all InfiniBand and RoCE ports [bytes]',
    rdma_errors_sum Nullable(Int64) COMMENT 'sum of: errors of all these ports, both ways'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.cpu_busy_ppm_count AS cpu_busy_ppm_count,
    m.cpu_busy_ppm_sum AS cpu_busy_ppm_sum,
    m.cpu_busy_ppm_min AS cpu_busy_ppm_min,
    m.cpu_busy_ppm_max AS cpu_busy_ppm_max,
    m.cpu_busy_ppm_last AS cpu_busy_ppm_last,
    m.cpu_iowait_ppm_count AS cpu_iowait_ppm_count,
    m.cpu_iowait_ppm_sum AS cpu_iowait_ppm_sum,
    m.cpu_iowait_ppm_min AS cpu_iowait_ppm_min,
    m.cpu_iowait_ppm_max AS cpu_iowait_ppm_max,
    m.cpu_iowait_ppm_last AS cpu_iowait_ppm_last,
    m.cpu_core_busy_max_ppm_count AS cpu_core_busy_max_ppm_count,
    m.cpu_core_busy_max_ppm_sum AS cpu_core_busy_max_ppm_sum,
    m.cpu_core_busy_max_ppm_min AS cpu_core_busy_max_ppm_min,
    m.cpu_core_busy_max_ppm_max AS cpu_core_busy_max_ppm_max,
    m.cpu_core_busy_max_ppm_last AS cpu_core_busy_max_ppm_last,
    m.load_1m_milli_count AS load_1m_milli_count,
    m.load_1m_milli_sum AS load_1m_milli_sum,
    m.load_1m_milli_min AS load_1m_milli_min,
    m.load_1m_milli_max AS load_1m_milli_max,
    m.load_1m_milli_last AS load_1m_milli_last,
    m.processors_count AS processors_count,
    m.processors_sum AS processors_sum,
    m.processors_min AS processors_min,
    m.processors_max AS processors_max,
    m.processors_last AS processors_last,
    m.memory_used_bytes_count AS memory_used_bytes_count,
    m.memory_used_bytes_sum AS memory_used_bytes_sum,
    m.memory_used_bytes_min AS memory_used_bytes_min,
    m.memory_used_bytes_max AS memory_used_bytes_max,
    m.memory_used_bytes_last AS memory_used_bytes_last,
    m.memory_total_bytes_count AS memory_total_bytes_count,
    m.memory_total_bytes_sum AS memory_total_bytes_sum,
    m.memory_total_bytes_min AS memory_total_bytes_min,
    m.memory_total_bytes_max AS memory_total_bytes_max,
    m.memory_total_bytes_last AS memory_total_bytes_last,
    m.swap_used_bytes_count AS swap_used_bytes_count,
    m.swap_used_bytes_sum AS swap_used_bytes_sum,
    m.swap_used_bytes_min AS swap_used_bytes_min,
    m.swap_used_bytes_max AS swap_used_bytes_max,
    m.swap_used_bytes_last AS swap_used_bytes_last,
    m.disk_queue_milli_count AS disk_queue_milli_count,
    m.disk_queue_milli_sum AS disk_queue_milli_sum,
    m.disk_queue_milli_min AS disk_queue_milli_min,
    m.disk_queue_milli_max AS disk_queue_milli_max,
    m.disk_queue_milli_last AS disk_queue_milli_last,
    m.cpu_pressure_ppm_count AS cpu_pressure_ppm_count,
    m.cpu_pressure_ppm_sum AS cpu_pressure_ppm_sum,
    m.cpu_pressure_ppm_min AS cpu_pressure_ppm_min,
    m.cpu_pressure_ppm_max AS cpu_pressure_ppm_max,
    m.cpu_pressure_ppm_last AS cpu_pressure_ppm_last,
    m.memory_pressure_ppm_count AS memory_pressure_ppm_count,
    m.memory_pressure_ppm_sum AS memory_pressure_ppm_sum,
    m.memory_pressure_ppm_min AS memory_pressure_ppm_min,
    m.memory_pressure_ppm_max AS memory_pressure_ppm_max,
    m.memory_pressure_ppm_last AS memory_pressure_ppm_last,
    m.memory_full_pressure_ppm_count AS memory_full_pressure_ppm_count,
    m.memory_full_pressure_ppm_sum AS memory_full_pressure_ppm_sum,
    m.memory_full_pressure_ppm_min AS memory_full_pressure_ppm_min,
    m.memory_full_pressure_ppm_max AS memory_full_pressure_ppm_max,
    m.memory_full_pressure_ppm_last AS memory_full_pressure_ppm_last,
    m.io_pressure_ppm_count AS io_pressure_ppm_count,
    m.io_pressure_ppm_sum AS io_pressure_ppm_sum,
    m.io_pressure_ppm_min AS io_pressure_ppm_min,
    m.io_pressure_ppm_max AS io_pressure_ppm_max,
    m.io_pressure_ppm_last AS io_pressure_ppm_last,
    m.agent_collect_us_count AS agent_collect_us_count,
    m.agent_collect_us_sum AS agent_collect_us_sum,
    m.agent_collect_us_min AS agent_collect_us_min,
    m.agent_collect_us_max AS agent_collect_us_max,
    m.agent_collect_us_last AS agent_collect_us_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.network_tx_bytes_sum AS network_tx_bytes_sum,
    m.network_rx_bytes_sum AS network_rx_bytes_sum,
    m.network_errors_sum AS network_errors_sum,
    m.disk_read_bytes_sum AS disk_read_bytes_sum,
    m.disk_write_bytes_sum AS disk_write_bytes_sum,
    m.disk_busy_ms_sum AS disk_busy_ms_sum,
    m.swap_in_bytes_sum AS swap_in_bytes_sum,
    m.swap_out_bytes_sum AS swap_out_bytes_sum,
    m.tcp_retransmits_sum AS tcp_retransmits_sum,
    m.tcp_segments_out_sum AS tcp_segments_out_sum,
    m.rdma_tx_bytes_sum AS rdma_tx_bytes_sum,
    m.rdma_rx_bytes_sum AS rdma_rx_bytes_sum,
    m.rdma_errors_sum AS rdma_errors_sum
FROM host_samples_rollup_1d AS m FINAL
WHERE m.grouping = 'host'
COMMENT 'host.samples by 1d window and cluster, region, host, origin';

CREATE OR REPLACE VIEW engine_windows_1m
(
    window DateTime('UTC') COMMENT 'start of the 1m window, event time',
    window_ms Int64 COMMENT 'start of the 1m window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    engine_kind LowCardinality(Nullable(String)) COMMENT 'software: vllm, sglang, tgi, trtllm, llamacpp, simulated',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    running_count UInt64 COMMENT 'values of running that were known',
    running_sum Int64 COMMENT 'sum of: requests being computed [requests]',
    running_min Nullable(Int64) COMMENT 'least: requests being computed [requests]',
    running_max Nullable(Int64) COMMENT 'greatest: requests being computed [requests]',
    running_last Nullable(Int64) COMMENT 'latest: requests being computed [requests]',
    waiting_count UInt64 COMMENT 'values of waiting that were known',
    waiting_sum Int64 COMMENT 'sum of: requests in the queue [requests]',
    waiting_min Nullable(Int64) COMMENT 'least: requests in the queue [requests]',
    waiting_max Nullable(Int64) COMMENT 'greatest: requests in the queue [requests]',
    waiting_last Nullable(Int64) COMMENT 'latest: requests in the queue [requests]',
    kv_used_ppm_count UInt64 COMMENT 'values of kv_used_ppm that were known',
    kv_used_ppm_sum Int64 COMMENT 'sum of: share of KV cache blocks in use [ppm]',
    kv_used_ppm_min Nullable(Int64) COMMENT 'least: share of KV cache blocks in use [ppm]',
    kv_used_ppm_max Nullable(Int64) COMMENT 'greatest: share of KV cache blocks in use [ppm]',
    kv_used_ppm_last Nullable(Int64) COMMENT 'latest: share of KV cache blocks in use [ppm]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    preemptions_sum Nullable(Int64) COMMENT 'sum of: requests thrown out of the batch for lack of KV cache',
    prompt_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens computed or found in cache [tokens]',
    prefix_hit_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens found in cache [tokens]',
    generation_tokens_sum Nullable(Int64) COMMENT 'sum of: tokens generated [tokens]',
    finished_requests_sum Nullable(Int64) COMMENT 'sum of: requests that ended [requests]',
    running_bins Map(Int16, UInt64) COMMENT 'sketch of: requests being computed [requests]',
    running_requests_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, running_bins), of: requests being computed [requests]',
    running_requests_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, running_bins), of: requests being computed [requests]',
    running_requests_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, running_bins), of: requests being computed [requests]',
    running_requests_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, running_bins), of: requests being computed [requests]'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.running_bins) AS fp_running_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.engine_kind AS engine_kind,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.running_count AS running_count,
    m.running_sum AS running_sum,
    m.running_min AS running_min,
    m.running_max AS running_max,
    m.running_last AS running_last,
    m.waiting_count AS waiting_count,
    m.waiting_sum AS waiting_sum,
    m.waiting_min AS waiting_min,
    m.waiting_max AS waiting_max,
    m.waiting_last AS waiting_last,
    m.kv_used_ppm_count AS kv_used_ppm_count,
    m.kv_used_ppm_sum AS kv_used_ppm_sum,
    m.kv_used_ppm_min AS kv_used_ppm_min,
    m.kv_used_ppm_max AS kv_used_ppm_max,
    m.kv_used_ppm_last AS kv_used_ppm_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.preemptions_sum AS preemptions_sum,
    m.prompt_tokens_sum AS prompt_tokens_sum,
    m.prefix_hit_tokens_sum AS prefix_hit_tokens_sum,
    m.generation_tokens_sum AS generation_tokens_sum,
    m.finished_requests_sum AS finished_requests_sum,
    m.running_bins AS running_bins,
    if(empty(fp_running_bins), NULL, fp_running_bins[1]) AS running_requests_p50,
    if(empty(fp_running_bins), NULL, fp_running_bins[2]) AS running_requests_p90,
    if(empty(fp_running_bins), NULL, fp_running_bins[3]) AS running_requests_p95,
    if(empty(fp_running_bins), NULL, fp_running_bins[4]) AS running_requests_p99
FROM engine_samples_rollup_1m AS m FINAL
WHERE m.grouping = 'engine_sample'
COMMENT 'engine.samples by 1m window and cluster, region, host, engine_id, placement_group, model, model_version, precision, engine_kind, origin';

CREATE OR REPLACE VIEW engine_windows_1h
(
    window DateTime('UTC') COMMENT 'start of the 1h window, event time',
    window_ms Int64 COMMENT 'start of the 1h window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    engine_kind LowCardinality(Nullable(String)) COMMENT 'software: vllm, sglang, tgi, trtllm, llamacpp, simulated',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    running_count UInt64 COMMENT 'values of running that were known',
    running_sum Int64 COMMENT 'sum of: requests being computed [requests]',
    running_min Nullable(Int64) COMMENT 'least: requests being computed [requests]',
    running_max Nullable(Int64) COMMENT 'greatest: requests being computed [requests]',
    running_last Nullable(Int64) COMMENT 'latest: requests being computed [requests]',
    waiting_count UInt64 COMMENT 'values of waiting that were known',
    waiting_sum Int64 COMMENT 'sum of: requests in the queue [requests]',
    waiting_min Nullable(Int64) COMMENT 'least: requests in the queue [requests]',
    waiting_max Nullable(Int64) COMMENT 'greatest: requests in the queue [requests]',
    waiting_last Nullable(Int64) COMMENT 'latest: requests in the queue [requests]',
    kv_used_ppm_count UInt64 COMMENT 'values of kv_used_ppm that were known',
    kv_used_ppm_sum Int64 COMMENT 'sum of: share of KV cache blocks in use [ppm]',
    kv_used_ppm_min Nullable(Int64) COMMENT 'least: share of KV cache blocks in use [ppm]',
    kv_used_ppm_max Nullable(Int64) COMMENT 'greatest: share of KV cache blocks in use [ppm]',
    kv_used_ppm_last Nullable(Int64) COMMENT 'latest: share of KV cache blocks in use [ppm]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    preemptions_sum Nullable(Int64) COMMENT 'sum of: requests thrown out of the batch for lack of KV cache',
    prompt_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens computed or found in cache [tokens]',
    prefix_hit_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens found in cache [tokens]',
    generation_tokens_sum Nullable(Int64) COMMENT 'sum of: tokens generated [tokens]',
    finished_requests_sum Nullable(Int64) COMMENT 'sum of: requests that ended [requests]',
    running_bins Map(Int16, UInt64) COMMENT 'sketch of: requests being computed [requests]',
    running_requests_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, running_bins), of: requests being computed [requests]',
    running_requests_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, running_bins), of: requests being computed [requests]',
    running_requests_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, running_bins), of: requests being computed [requests]',
    running_requests_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, running_bins), of: requests being computed [requests]'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.running_bins) AS fp_running_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.engine_kind AS engine_kind,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.running_count AS running_count,
    m.running_sum AS running_sum,
    m.running_min AS running_min,
    m.running_max AS running_max,
    m.running_last AS running_last,
    m.waiting_count AS waiting_count,
    m.waiting_sum AS waiting_sum,
    m.waiting_min AS waiting_min,
    m.waiting_max AS waiting_max,
    m.waiting_last AS waiting_last,
    m.kv_used_ppm_count AS kv_used_ppm_count,
    m.kv_used_ppm_sum AS kv_used_ppm_sum,
    m.kv_used_ppm_min AS kv_used_ppm_min,
    m.kv_used_ppm_max AS kv_used_ppm_max,
    m.kv_used_ppm_last AS kv_used_ppm_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.preemptions_sum AS preemptions_sum,
    m.prompt_tokens_sum AS prompt_tokens_sum,
    m.prefix_hit_tokens_sum AS prefix_hit_tokens_sum,
    m.generation_tokens_sum AS generation_tokens_sum,
    m.finished_requests_sum AS finished_requests_sum,
    m.running_bins AS running_bins,
    if(empty(fp_running_bins), NULL, fp_running_bins[1]) AS running_requests_p50,
    if(empty(fp_running_bins), NULL, fp_running_bins[2]) AS running_requests_p90,
    if(empty(fp_running_bins), NULL, fp_running_bins[3]) AS running_requests_p95,
    if(empty(fp_running_bins), NULL, fp_running_bins[4]) AS running_requests_p99
FROM engine_samples_rollup_1h AS m FINAL
WHERE m.grouping = 'engine_sample'
COMMENT 'engine.samples by 1h window and cluster, region, host, engine_id, placement_group, model, model_version, precision, engine_kind, origin';

CREATE OR REPLACE VIEW engine_windows_1d
(
    window DateTime('UTC') COMMENT 'start of the 1d window, event time',
    window_ms Int64 COMMENT 'start of the 1d window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) COMMENT 'weight precision, such as fp8',
    engine_kind LowCardinality(Nullable(String)) COMMENT 'software: vllm, sglang, tgi, trtllm, llamacpp, simulated',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    running_count UInt64 COMMENT 'values of running that were known',
    running_sum Int64 COMMENT 'sum of: requests being computed [requests]',
    running_min Nullable(Int64) COMMENT 'least: requests being computed [requests]',
    running_max Nullable(Int64) COMMENT 'greatest: requests being computed [requests]',
    running_last Nullable(Int64) COMMENT 'latest: requests being computed [requests]',
    waiting_count UInt64 COMMENT 'values of waiting that were known',
    waiting_sum Int64 COMMENT 'sum of: requests in the queue [requests]',
    waiting_min Nullable(Int64) COMMENT 'least: requests in the queue [requests]',
    waiting_max Nullable(Int64) COMMENT 'greatest: requests in the queue [requests]',
    waiting_last Nullable(Int64) COMMENT 'latest: requests in the queue [requests]',
    kv_used_ppm_count UInt64 COMMENT 'values of kv_used_ppm that were known',
    kv_used_ppm_sum Int64 COMMENT 'sum of: share of KV cache blocks in use [ppm]',
    kv_used_ppm_min Nullable(Int64) COMMENT 'least: share of KV cache blocks in use [ppm]',
    kv_used_ppm_max Nullable(Int64) COMMENT 'greatest: share of KV cache blocks in use [ppm]',
    kv_used_ppm_last Nullable(Int64) COMMENT 'latest: share of KV cache blocks in use [ppm]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    preemptions_sum Nullable(Int64) COMMENT 'sum of: requests thrown out of the batch for lack of KV cache',
    prompt_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens computed or found in cache [tokens]',
    prefix_hit_tokens_sum Nullable(Int64) COMMENT 'sum of: prompt tokens found in cache [tokens]',
    generation_tokens_sum Nullable(Int64) COMMENT 'sum of: tokens generated [tokens]',
    finished_requests_sum Nullable(Int64) COMMENT 'sum of: requests that ended [requests]',
    running_bins Map(Int16, UInt64) COMMENT 'sketch of: requests being computed [requests]',
    running_requests_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, running_bins), of: requests being computed [requests]',
    running_requests_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, running_bins), of: requests being computed [requests]',
    running_requests_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, running_bins), of: requests being computed [requests]',
    running_requests_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, running_bins), of: requests being computed [requests]'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.running_bins) AS fp_running_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.model AS model,
    m.model_version AS model_version,
    m.precision AS precision,
    m.engine_kind AS engine_kind,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.running_count AS running_count,
    m.running_sum AS running_sum,
    m.running_min AS running_min,
    m.running_max AS running_max,
    m.running_last AS running_last,
    m.waiting_count AS waiting_count,
    m.waiting_sum AS waiting_sum,
    m.waiting_min AS waiting_min,
    m.waiting_max AS waiting_max,
    m.waiting_last AS waiting_last,
    m.kv_used_ppm_count AS kv_used_ppm_count,
    m.kv_used_ppm_sum AS kv_used_ppm_sum,
    m.kv_used_ppm_min AS kv_used_ppm_min,
    m.kv_used_ppm_max AS kv_used_ppm_max,
    m.kv_used_ppm_last AS kv_used_ppm_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.preemptions_sum AS preemptions_sum,
    m.prompt_tokens_sum AS prompt_tokens_sum,
    m.prefix_hit_tokens_sum AS prefix_hit_tokens_sum,
    m.generation_tokens_sum AS generation_tokens_sum,
    m.finished_requests_sum AS finished_requests_sum,
    m.running_bins AS running_bins,
    if(empty(fp_running_bins), NULL, fp_running_bins[1]) AS running_requests_p50,
    if(empty(fp_running_bins), NULL, fp_running_bins[2]) AS running_requests_p90,
    if(empty(fp_running_bins), NULL, fp_running_bins[3]) AS running_requests_p95,
    if(empty(fp_running_bins), NULL, fp_running_bins[4]) AS running_requests_p99
FROM engine_samples_rollup_1d AS m FINAL
WHERE m.grouping = 'engine_sample'
COMMENT 'engine.samples by 1d window and cluster, region, host, engine_id, placement_group, model, model_version, precision, engine_kind, origin';

CREATE OR REPLACE VIEW process_windows_1m
(
    window DateTime('UTC') COMMENT 'start of the 1m window, event time',
    window_ms Int64 COMMENT 'start of the 1m window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    process_name LowCardinality(Nullable(String)) COMMENT 'name of the program',
    workload LowCardinality(Nullable(String)) COMMENT 'what the process does',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    cpu_ppm_count UInt64 COMMENT 'values of cpu_ppm that were known',
    cpu_ppm_sum Int64 COMMENT 'sum of: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_min Nullable(Int64) COMMENT 'least: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_max Nullable(Int64) COMMENT 'greatest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_last Nullable(Int64) COMMENT 'latest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_thread_max_ppm_count UInt64 COMMENT 'values of cpu_thread_max_ppm that were known',
    cpu_thread_max_ppm_sum Int64 COMMENT 'sum of: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_min Nullable(Int64) COMMENT 'least: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_max Nullable(Int64) COMMENT 'greatest: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_last Nullable(Int64) COMMENT 'latest: busiest thread: share of one processor [ppm]',
    memory_rss_bytes_count UInt64 COMMENT 'values of memory_rss_bytes that were known',
    memory_rss_bytes_sum Int64 COMMENT 'sum of: resident memory [bytes]',
    memory_rss_bytes_min Nullable(Int64) COMMENT 'least: resident memory [bytes]',
    memory_rss_bytes_max Nullable(Int64) COMMENT 'greatest: resident memory [bytes]',
    memory_rss_bytes_last Nullable(Int64) COMMENT 'latest: resident memory [bytes]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    read_bytes_sum Nullable(Int64) COMMENT 'sum of: read from disks [bytes]',
    write_bytes_sum Nullable(Int64) COMMENT 'sum of: written to disks [bytes]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.process_name AS process_name,
    m.workload AS workload,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.cpu_ppm_count AS cpu_ppm_count,
    m.cpu_ppm_sum AS cpu_ppm_sum,
    m.cpu_ppm_min AS cpu_ppm_min,
    m.cpu_ppm_max AS cpu_ppm_max,
    m.cpu_ppm_last AS cpu_ppm_last,
    m.cpu_thread_max_ppm_count AS cpu_thread_max_ppm_count,
    m.cpu_thread_max_ppm_sum AS cpu_thread_max_ppm_sum,
    m.cpu_thread_max_ppm_min AS cpu_thread_max_ppm_min,
    m.cpu_thread_max_ppm_max AS cpu_thread_max_ppm_max,
    m.cpu_thread_max_ppm_last AS cpu_thread_max_ppm_last,
    m.memory_rss_bytes_count AS memory_rss_bytes_count,
    m.memory_rss_bytes_sum AS memory_rss_bytes_sum,
    m.memory_rss_bytes_min AS memory_rss_bytes_min,
    m.memory_rss_bytes_max AS memory_rss_bytes_max,
    m.memory_rss_bytes_last AS memory_rss_bytes_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.read_bytes_sum AS read_bytes_sum,
    m.write_bytes_sum AS write_bytes_sum
FROM host_processes_rollup_1m AS m FINAL
WHERE m.grouping = 'process'
COMMENT 'host.processes by 1m window and cluster, region, host, engine_id, placement_group, process_name, workload, origin';

CREATE OR REPLACE VIEW process_windows_1h
(
    window DateTime('UTC') COMMENT 'start of the 1h window, event time',
    window_ms Int64 COMMENT 'start of the 1h window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    process_name LowCardinality(Nullable(String)) COMMENT 'name of the program',
    workload LowCardinality(Nullable(String)) COMMENT 'what the process does',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    cpu_ppm_count UInt64 COMMENT 'values of cpu_ppm that were known',
    cpu_ppm_sum Int64 COMMENT 'sum of: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_min Nullable(Int64) COMMENT 'least: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_max Nullable(Int64) COMMENT 'greatest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_last Nullable(Int64) COMMENT 'latest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_thread_max_ppm_count UInt64 COMMENT 'values of cpu_thread_max_ppm that were known',
    cpu_thread_max_ppm_sum Int64 COMMENT 'sum of: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_min Nullable(Int64) COMMENT 'least: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_max Nullable(Int64) COMMENT 'greatest: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_last Nullable(Int64) COMMENT 'latest: busiest thread: share of one processor [ppm]',
    memory_rss_bytes_count UInt64 COMMENT 'values of memory_rss_bytes that were known',
    memory_rss_bytes_sum Int64 COMMENT 'sum of: resident memory [bytes]',
    memory_rss_bytes_min Nullable(Int64) COMMENT 'least: resident memory [bytes]',
    memory_rss_bytes_max Nullable(Int64) COMMENT 'greatest: resident memory [bytes]',
    memory_rss_bytes_last Nullable(Int64) COMMENT 'latest: resident memory [bytes]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    read_bytes_sum Nullable(Int64) COMMENT 'sum of: read from disks [bytes]',
    write_bytes_sum Nullable(Int64) COMMENT 'sum of: written to disks [bytes]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.process_name AS process_name,
    m.workload AS workload,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.cpu_ppm_count AS cpu_ppm_count,
    m.cpu_ppm_sum AS cpu_ppm_sum,
    m.cpu_ppm_min AS cpu_ppm_min,
    m.cpu_ppm_max AS cpu_ppm_max,
    m.cpu_ppm_last AS cpu_ppm_last,
    m.cpu_thread_max_ppm_count AS cpu_thread_max_ppm_count,
    m.cpu_thread_max_ppm_sum AS cpu_thread_max_ppm_sum,
    m.cpu_thread_max_ppm_min AS cpu_thread_max_ppm_min,
    m.cpu_thread_max_ppm_max AS cpu_thread_max_ppm_max,
    m.cpu_thread_max_ppm_last AS cpu_thread_max_ppm_last,
    m.memory_rss_bytes_count AS memory_rss_bytes_count,
    m.memory_rss_bytes_sum AS memory_rss_bytes_sum,
    m.memory_rss_bytes_min AS memory_rss_bytes_min,
    m.memory_rss_bytes_max AS memory_rss_bytes_max,
    m.memory_rss_bytes_last AS memory_rss_bytes_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.read_bytes_sum AS read_bytes_sum,
    m.write_bytes_sum AS write_bytes_sum
FROM host_processes_rollup_1h AS m FINAL
WHERE m.grouping = 'process'
COMMENT 'host.processes by 1h window and cluster, region, host, engine_id, placement_group, process_name, workload, origin';

CREATE OR REPLACE VIEW process_windows_1d
(
    window DateTime('UTC') COMMENT 'start of the 1d window, event time',
    window_ms Int64 COMMENT 'start of the 1d window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    process_name LowCardinality(Nullable(String)) COMMENT 'name of the program',
    workload LowCardinality(Nullable(String)) COMMENT 'what the process does',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    cpu_ppm_count UInt64 COMMENT 'values of cpu_ppm that were known',
    cpu_ppm_sum Int64 COMMENT 'sum of: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_min Nullable(Int64) COMMENT 'least: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_max Nullable(Int64) COMMENT 'greatest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_ppm_last Nullable(Int64) COMMENT 'latest: processor time of one processor: two threads at work are 2,000,000 [ppm]',
    cpu_thread_max_ppm_count UInt64 COMMENT 'values of cpu_thread_max_ppm that were known',
    cpu_thread_max_ppm_sum Int64 COMMENT 'sum of: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_min Nullable(Int64) COMMENT 'least: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_max Nullable(Int64) COMMENT 'greatest: busiest thread: share of one processor [ppm]',
    cpu_thread_max_ppm_last Nullable(Int64) COMMENT 'latest: busiest thread: share of one processor [ppm]',
    memory_rss_bytes_count UInt64 COMMENT 'values of memory_rss_bytes that were known',
    memory_rss_bytes_sum Int64 COMMENT 'sum of: resident memory [bytes]',
    memory_rss_bytes_min Nullable(Int64) COMMENT 'least: resident memory [bytes]',
    memory_rss_bytes_max Nullable(Int64) COMMENT 'greatest: resident memory [bytes]',
    memory_rss_bytes_last Nullable(Int64) COMMENT 'latest: resident memory [bytes]',
    interval_ms_sum Nullable(Int64) COMMENT 'sum of: time the differences of this sample cover [ms]',
    read_bytes_sum Nullable(Int64) COMMENT 'sum of: read from disks [bytes]',
    write_bytes_sum Nullable(Int64) COMMENT 'sum of: written to disks [bytes]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.process_name AS process_name,
    m.workload AS workload,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.cpu_ppm_count AS cpu_ppm_count,
    m.cpu_ppm_sum AS cpu_ppm_sum,
    m.cpu_ppm_min AS cpu_ppm_min,
    m.cpu_ppm_max AS cpu_ppm_max,
    m.cpu_ppm_last AS cpu_ppm_last,
    m.cpu_thread_max_ppm_count AS cpu_thread_max_ppm_count,
    m.cpu_thread_max_ppm_sum AS cpu_thread_max_ppm_sum,
    m.cpu_thread_max_ppm_min AS cpu_thread_max_ppm_min,
    m.cpu_thread_max_ppm_max AS cpu_thread_max_ppm_max,
    m.cpu_thread_max_ppm_last AS cpu_thread_max_ppm_last,
    m.memory_rss_bytes_count AS memory_rss_bytes_count,
    m.memory_rss_bytes_sum AS memory_rss_bytes_sum,
    m.memory_rss_bytes_min AS memory_rss_bytes_min,
    m.memory_rss_bytes_max AS memory_rss_bytes_max,
    m.memory_rss_bytes_last AS memory_rss_bytes_last,
    m.interval_ms_sum AS interval_ms_sum,
    m.read_bytes_sum AS read_bytes_sum,
    m.write_bytes_sum AS write_bytes_sum
FROM host_processes_rollup_1d AS m FINAL
WHERE m.grouping = 'process'
COMMENT 'host.processes by 1d window and cluster, region, host, engine_id, placement_group, process_name, workload, origin';

CREATE OR REPLACE VIEW training_windows_1m
(
    window DateTime('UTC') COMMENT 'start of the 1m window, event time',
    window_ms Int64 COMMENT 'start of the 1m window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    job LowCardinality(Nullable(String)) COMMENT 'training job',
    rank LowCardinality(Nullable(String)) COMMENT 'rank of the process in the job',
    model LowCardinality(Nullable(String)) COMMENT 'model that is trained',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    step_us_count UInt64 COMMENT 'values of step_us that were known',
    step_us_sum Int64 COMMENT 'sum of: end of the previous step to end of this one [us]',
    step_us_min Nullable(Int64) COMMENT 'least: end of the previous step to end of this one [us]',
    step_us_max Nullable(Int64) COMMENT 'greatest: end of the previous step to end of this one [us]',
    loss_micro_count UInt64 COMMENT 'values of loss_micro that were known',
    loss_micro_sum Int64 COMMENT 'sum of: training loss [1e-6]',
    loss_micro_min Nullable(Int64) COMMENT 'least: training loss [1e-6]',
    loss_micro_max Nullable(Int64) COMMENT 'greatest: training loss [1e-6]',
    loss_micro_last Nullable(Int64) COMMENT 'latest: training loss [1e-6]',
    checkpoint_age_ms_count UInt64 COMMENT 'values of checkpoint_age_ms that were known',
    checkpoint_age_ms_sum Int64 COMMENT 'sum of: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_min Nullable(Int64) COMMENT 'least: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_max Nullable(Int64) COMMENT 'greatest: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_last Nullable(Int64) COMMENT 'latest: end of the latest checkpoint to end of the step [ms]',
    samples_sum Nullable(Int64) COMMENT 'sum of: samples of this rank in the step',
    tokens_sum Nullable(Int64) COMMENT 'sum of: tokens of this rank in the step [tokens]',
    step_us_bins Map(Int16, UInt64) COMMENT 'sketch of: end of the previous step to end of this one [us]',
    step_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, step_us_bins), of: end of the previous step to end of this one [us]'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.step_us_bins) AS fp_step_us_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.job AS job,
    m.rank AS rank,
    m.model AS model,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.step_us_count AS step_us_count,
    m.step_us_sum AS step_us_sum,
    m.step_us_min AS step_us_min,
    m.step_us_max AS step_us_max,
    m.loss_micro_count AS loss_micro_count,
    m.loss_micro_sum AS loss_micro_sum,
    m.loss_micro_min AS loss_micro_min,
    m.loss_micro_max AS loss_micro_max,
    m.loss_micro_last AS loss_micro_last,
    m.checkpoint_age_ms_count AS checkpoint_age_ms_count,
    m.checkpoint_age_ms_sum AS checkpoint_age_ms_sum,
    m.checkpoint_age_ms_min AS checkpoint_age_ms_min,
    m.checkpoint_age_ms_max AS checkpoint_age_ms_max,
    m.checkpoint_age_ms_last AS checkpoint_age_ms_last,
    m.samples_sum AS samples_sum,
    m.tokens_sum AS tokens_sum,
    m.step_us_bins AS step_us_bins,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[1]) AS step_us_p50,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[2]) AS step_us_p90,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[3]) AS step_us_p95,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[4]) AS step_us_p99
FROM training_steps_rollup_1m AS m FINAL
WHERE m.grouping = 'training'
COMMENT 'training.steps by 1m window and cluster, region, host, engine_id, placement_group, job, rank, model, origin';

CREATE OR REPLACE VIEW training_windows_1h
(
    window DateTime('UTC') COMMENT 'start of the 1h window, event time',
    window_ms Int64 COMMENT 'start of the 1h window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    job LowCardinality(Nullable(String)) COMMENT 'training job',
    rank LowCardinality(Nullable(String)) COMMENT 'rank of the process in the job',
    model LowCardinality(Nullable(String)) COMMENT 'model that is trained',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    step_us_count UInt64 COMMENT 'values of step_us that were known',
    step_us_sum Int64 COMMENT 'sum of: end of the previous step to end of this one [us]',
    step_us_min Nullable(Int64) COMMENT 'least: end of the previous step to end of this one [us]',
    step_us_max Nullable(Int64) COMMENT 'greatest: end of the previous step to end of this one [us]',
    loss_micro_count UInt64 COMMENT 'values of loss_micro that were known',
    loss_micro_sum Int64 COMMENT 'sum of: training loss [1e-6]',
    loss_micro_min Nullable(Int64) COMMENT 'least: training loss [1e-6]',
    loss_micro_max Nullable(Int64) COMMENT 'greatest: training loss [1e-6]',
    loss_micro_last Nullable(Int64) COMMENT 'latest: training loss [1e-6]',
    checkpoint_age_ms_count UInt64 COMMENT 'values of checkpoint_age_ms that were known',
    checkpoint_age_ms_sum Int64 COMMENT 'sum of: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_min Nullable(Int64) COMMENT 'least: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_max Nullable(Int64) COMMENT 'greatest: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_last Nullable(Int64) COMMENT 'latest: end of the latest checkpoint to end of the step [ms]',
    samples_sum Nullable(Int64) COMMENT 'sum of: samples of this rank in the step',
    tokens_sum Nullable(Int64) COMMENT 'sum of: tokens of this rank in the step [tokens]',
    step_us_bins Map(Int16, UInt64) COMMENT 'sketch of: end of the previous step to end of this one [us]',
    step_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, step_us_bins), of: end of the previous step to end of this one [us]'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.step_us_bins) AS fp_step_us_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.job AS job,
    m.rank AS rank,
    m.model AS model,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.step_us_count AS step_us_count,
    m.step_us_sum AS step_us_sum,
    m.step_us_min AS step_us_min,
    m.step_us_max AS step_us_max,
    m.loss_micro_count AS loss_micro_count,
    m.loss_micro_sum AS loss_micro_sum,
    m.loss_micro_min AS loss_micro_min,
    m.loss_micro_max AS loss_micro_max,
    m.loss_micro_last AS loss_micro_last,
    m.checkpoint_age_ms_count AS checkpoint_age_ms_count,
    m.checkpoint_age_ms_sum AS checkpoint_age_ms_sum,
    m.checkpoint_age_ms_min AS checkpoint_age_ms_min,
    m.checkpoint_age_ms_max AS checkpoint_age_ms_max,
    m.checkpoint_age_ms_last AS checkpoint_age_ms_last,
    m.samples_sum AS samples_sum,
    m.tokens_sum AS tokens_sum,
    m.step_us_bins AS step_us_bins,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[1]) AS step_us_p50,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[2]) AS step_us_p90,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[3]) AS step_us_p95,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[4]) AS step_us_p99
FROM training_steps_rollup_1h AS m FINAL
WHERE m.grouping = 'training'
COMMENT 'training.steps by 1h window and cluster, region, host, engine_id, placement_group, job, rank, model, origin';

CREATE OR REPLACE VIEW training_windows_1d
(
    window DateTime('UTC') COMMENT 'start of the 1d window, event time',
    window_ms Int64 COMMENT 'start of the 1d window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    job LowCardinality(Nullable(String)) COMMENT 'training job',
    rank LowCardinality(Nullable(String)) COMMENT 'rank of the process in the job',
    model LowCardinality(Nullable(String)) COMMENT 'model that is trained',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    step_us_count UInt64 COMMENT 'values of step_us that were known',
    step_us_sum Int64 COMMENT 'sum of: end of the previous step to end of this one [us]',
    step_us_min Nullable(Int64) COMMENT 'least: end of the previous step to end of this one [us]',
    step_us_max Nullable(Int64) COMMENT 'greatest: end of the previous step to end of this one [us]',
    loss_micro_count UInt64 COMMENT 'values of loss_micro that were known',
    loss_micro_sum Int64 COMMENT 'sum of: training loss [1e-6]',
    loss_micro_min Nullable(Int64) COMMENT 'least: training loss [1e-6]',
    loss_micro_max Nullable(Int64) COMMENT 'greatest: training loss [1e-6]',
    loss_micro_last Nullable(Int64) COMMENT 'latest: training loss [1e-6]',
    checkpoint_age_ms_count UInt64 COMMENT 'values of checkpoint_age_ms that were known',
    checkpoint_age_ms_sum Int64 COMMENT 'sum of: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_min Nullable(Int64) COMMENT 'least: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_max Nullable(Int64) COMMENT 'greatest: end of the latest checkpoint to end of the step [ms]',
    checkpoint_age_ms_last Nullable(Int64) COMMENT 'latest: end of the latest checkpoint to end of the step [ms]',
    samples_sum Nullable(Int64) COMMENT 'sum of: samples of this rank in the step',
    tokens_sum Nullable(Int64) COMMENT 'sum of: tokens of this rank in the step [tokens]',
    step_us_bins Map(Int16, UInt64) COMMENT 'sketch of: end of the previous step to end of this one [us]',
    step_us_p50 Nullable(Float64) COMMENT 'percentile 50 of this row alone, of several p(0.5, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p90 Nullable(Float64) COMMENT 'percentile 90 of this row alone, of several p(0.9, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p95 Nullable(Float64) COMMENT 'percentile 95 of this row alone, of several p(0.95, step_us_bins), of: end of the previous step to end of this one [us]',
    step_us_p99 Nullable(Float64) COMMENT 'percentile 99 of this row alone, of several p(0.99, step_us_bins), of: end of the previous step to end of this one [us]'
)
AS WITH
    fp_quantiles_linear([0.5, 0.9, 0.95, 0.99], m.step_us_bins) AS fp_step_us_bins
SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.engine_id AS engine_id,
    m.placement_group AS placement_group,
    m.job AS job,
    m.rank AS rank,
    m.model AS model,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.step_us_count AS step_us_count,
    m.step_us_sum AS step_us_sum,
    m.step_us_min AS step_us_min,
    m.step_us_max AS step_us_max,
    m.loss_micro_count AS loss_micro_count,
    m.loss_micro_sum AS loss_micro_sum,
    m.loss_micro_min AS loss_micro_min,
    m.loss_micro_max AS loss_micro_max,
    m.loss_micro_last AS loss_micro_last,
    m.checkpoint_age_ms_count AS checkpoint_age_ms_count,
    m.checkpoint_age_ms_sum AS checkpoint_age_ms_sum,
    m.checkpoint_age_ms_min AS checkpoint_age_ms_min,
    m.checkpoint_age_ms_max AS checkpoint_age_ms_max,
    m.checkpoint_age_ms_last AS checkpoint_age_ms_last,
    m.samples_sum AS samples_sum,
    m.tokens_sum AS tokens_sum,
    m.step_us_bins AS step_us_bins,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[1]) AS step_us_p50,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[2]) AS step_us_p90,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[3]) AS step_us_p95,
    if(empty(fp_step_us_bins), NULL, fp_step_us_bins[4]) AS step_us_p99
FROM training_steps_rollup_1d AS m FINAL
WHERE m.grouping = 'training'
COMMENT 'training.steps by 1d window and cluster, region, host, engine_id, placement_group, job, rank, model, origin';

CREATE OR REPLACE VIEW custom_windows_1m
(
    window DateTime('UTC') COMMENT 'start of the 1m window, event time',
    window_ms Int64 COMMENT 'start of the 1m window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    service LowCardinality(Nullable(String)) COMMENT 'application that reported it',
    metric LowCardinality(Nullable(String)) COMMENT 'name of the metric',
    unit LowCardinality(Nullable(String)) COMMENT 'unit of the value, as the application names it',
    attributes LowCardinality(Nullable(String)) COMMENT 'what tells its series apart: sorted key=value, separated by commas',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    value_micro_count UInt64 COMMENT 'values of value_micro that were known',
    value_micro_sum Int64 COMMENT 'sum of: level; null where it is a counter [1e-6]',
    value_micro_min Nullable(Int64) COMMENT 'least: level; null where it is a counter [1e-6]',
    value_micro_max Nullable(Int64) COMMENT 'greatest: level; null where it is a counter [1e-6]',
    value_micro_last Nullable(Int64) COMMENT 'latest: level; null where it is a counter [1e-6]',
    increase_micro_sum Nullable(Int64) COMMENT 'sum of: increase since the last value; null where it is a level [1e-6]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.service AS service,
    m.metric AS metric,
    m.unit AS unit,
    m.attributes AS attributes,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.value_micro_count AS value_micro_count,
    m.value_micro_sum AS value_micro_sum,
    m.value_micro_min AS value_micro_min,
    m.value_micro_max AS value_micro_max,
    m.value_micro_last AS value_micro_last,
    m.increase_micro_sum AS increase_micro_sum
FROM custom_metrics_rollup_1m AS m FINAL
WHERE m.grouping = 'custom'
COMMENT 'custom.metrics by 1m window and cluster, region, host, service, metric, unit, attributes, origin';

CREATE OR REPLACE VIEW custom_windows_1h
(
    window DateTime('UTC') COMMENT 'start of the 1h window, event time',
    window_ms Int64 COMMENT 'start of the 1h window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    service LowCardinality(Nullable(String)) COMMENT 'application that reported it',
    metric LowCardinality(Nullable(String)) COMMENT 'name of the metric',
    unit LowCardinality(Nullable(String)) COMMENT 'unit of the value, as the application names it',
    attributes LowCardinality(Nullable(String)) COMMENT 'what tells its series apart: sorted key=value, separated by commas',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    value_micro_count UInt64 COMMENT 'values of value_micro that were known',
    value_micro_sum Int64 COMMENT 'sum of: level; null where it is a counter [1e-6]',
    value_micro_min Nullable(Int64) COMMENT 'least: level; null where it is a counter [1e-6]',
    value_micro_max Nullable(Int64) COMMENT 'greatest: level; null where it is a counter [1e-6]',
    value_micro_last Nullable(Int64) COMMENT 'latest: level; null where it is a counter [1e-6]',
    increase_micro_sum Nullable(Int64) COMMENT 'sum of: increase since the last value; null where it is a level [1e-6]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.service AS service,
    m.metric AS metric,
    m.unit AS unit,
    m.attributes AS attributes,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.value_micro_count AS value_micro_count,
    m.value_micro_sum AS value_micro_sum,
    m.value_micro_min AS value_micro_min,
    m.value_micro_max AS value_micro_max,
    m.value_micro_last AS value_micro_last,
    m.increase_micro_sum AS increase_micro_sum
FROM custom_metrics_rollup_1h AS m FINAL
WHERE m.grouping = 'custom'
COMMENT 'custom.metrics by 1h window and cluster, region, host, service, metric, unit, attributes, origin';

CREATE OR REPLACE VIEW custom_windows_1d
(
    window DateTime('UTC') COMMENT 'start of the 1d window, event time',
    window_ms Int64 COMMENT 'start of the 1d window, event time, UTC [ms]',
    time_of_day String COMMENT 'time of day of window as text, UTC, such as 14:05',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    service LowCardinality(Nullable(String)) COMMENT 'application that reported it',
    metric LowCardinality(Nullable(String)) COMMENT 'name of the metric',
    unit LowCardinality(Nullable(String)) COMMENT 'unit of the value, as the application names it',
    attributes LowCardinality(Nullable(String)) COMMENT 'what tells its series apart: sorted key=value, separated by commas',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    event_count UInt64 COMMENT 'events in this row',
    last_at_ms Int64 COMMENT 'greatest event time in this row [ms]',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    value_micro_count UInt64 COMMENT 'values of value_micro that were known',
    value_micro_sum Int64 COMMENT 'sum of: level; null where it is a counter [1e-6]',
    value_micro_min Nullable(Int64) COMMENT 'least: level; null where it is a counter [1e-6]',
    value_micro_max Nullable(Int64) COMMENT 'greatest: level; null where it is a counter [1e-6]',
    value_micro_last Nullable(Int64) COMMENT 'latest: level; null where it is a counter [1e-6]',
    increase_micro_sum Nullable(Int64) COMMENT 'sum of: increase since the last value; null where it is a level [1e-6]'
)
AS SELECT
    toDateTime(intDiv(m.window_ms, 1000), 'UTC') AS window,
    m.window_ms AS window_ms,
    formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC') AS time_of_day,
    m.cluster AS cluster,
    m.region AS region,
    m.host AS host,
    m.service AS service,
    m.metric AS metric,
    m.unit AS unit,
    m.attributes AS attributes,
    m.origin AS origin,
    m.event_count AS event_count,
    m.last_at_ms AS last_at_ms,
    m.definition_version AS definition_version,
    m.value_micro_count AS value_micro_count,
    m.value_micro_sum AS value_micro_sum,
    m.value_micro_min AS value_micro_min,
    m.value_micro_max AS value_micro_max,
    m.value_micro_last AS value_micro_last,
    m.increase_micro_sum AS increase_micro_sum
FROM custom_metrics_rollup_1d AS m FINAL
WHERE m.grouping = 'custom'
COMMENT 'custom.metrics by 1d window and cluster, region, host, service, metric, unit, attributes, origin';

CREATE OR REPLACE VIEW fleet_now
(
    seen DateTime64(3, 'UTC') COMMENT 'time of the GPU\'s latest sample',
    age_ms Int64 COMMENT 'how long ago that was, by this server\'s clock [ms]',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) COMMENT 'region of the cluster',
    host LowCardinality(Nullable(String)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name',
    workload LowCardinality(Nullable(String)) COMMENT 'what the GPU is used for',
    origin LowCardinality(Nullable(String)) COMMENT 'measured on real equipment or simulated',
    parent_uuid LowCardinality(Nullable(String)) COMMENT 'UUID of the GPU that this MIG device is a part of',
    mig_profile LowCardinality(Nullable(String)) COMMENT 'size of the MIG device, such as 1g.10gb',
    util_gpu_pct Nullable(Int64) COMMENT 'latest: share of time a kernel ran [%]',
    util_memory_pct Nullable(Int64) COMMENT 'latest: share of time memory was read or written [%]',
    power_mw Nullable(Int64) COMMENT 'latest: power draw [mW]',
    power_limit_mw Nullable(Int64) COMMENT 'latest: enforced power limit [mW]',
    temperature_c Nullable(Int64) COMMENT 'latest: core temperature [C]',
    temperature_memory_c Nullable(Int64) COMMENT 'latest: memory temperature [C]',
    clock_sm_mhz Nullable(Int64) COMMENT 'latest: SM clock [MHz]',
    clock_memory_mhz Nullable(Int64) COMMENT 'latest: memory clock [MHz]',
    sm_active_ppm Nullable(Int64) COMMENT 'latest: share of SMs with a resident warp [ppm]',
    tensor_active_ppm Nullable(Int64) COMMENT 'latest: share of cycles the tensor cores worked [ppm]',
    pcie_generation Nullable(Int64) COMMENT 'latest: PCIe generation of the link now',
    pcie_width Nullable(Int64) COMMENT 'latest: PCIe lanes in use [lanes]',
    pcie_width_max Nullable(Int64) COMMENT 'latest: PCIe lanes that GPU and slot have [lanes]',
    memory_used_bytes Nullable(Int64) COMMENT 'latest: memory in use, reserved excluded [bytes]',
    memory_total_bytes Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    sm_occupancy_ppm Nullable(Int64) COMMENT 'latest: resident warps of those that fit [ppm]',
    dram_active_ppm Nullable(Int64) COMMENT 'latest: share of the memory bandwidth in use [ppm]',
    memory_engine_bytes Nullable(Int64) COMMENT 'latest: memory that the engines on it may take [bytes]',
    host_cpu_busy_ppm Nullable(Int64) COMMENT 'latest: share of all processors\' time not idle [ppm]',
    host_cpu_iowait_ppm Nullable(Int64) COMMENT 'latest: share of all processors\' time waiting for disks [ppm]',
    host_cpu_core_busy_max_ppm Nullable(Int64) COMMENT 'latest: busiest logical processor: share of its time not idle [ppm]',
    host_load_1m_milli Nullable(Int64) COMMENT 'latest: load average over one minute [1/1000]',
    host_processors Nullable(Int64) COMMENT 'latest: logical processors',
    host_memory_used_bytes Nullable(Int64) COMMENT 'latest: total minus available [bytes]',
    host_memory_total_bytes Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    host_swap_used_bytes Nullable(Int64) COMMENT 'latest: swap in use [bytes]',
    host_disk_queue_milli Nullable(Int64) COMMENT 'latest: mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    host_cpu_pressure_ppm Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for a processor [ppm]',
    host_memory_pressure_ppm Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for memory [ppm]',
    host_memory_full_pressure_ppm Nullable(Int64) COMMENT 'latest: share of the interval in which all tasks waited for memory [ppm]',
    host_io_pressure_ppm Nullable(Int64) COMMENT 'latest: share of the interval in which some task waited for a disk [ppm]',
    host_agent_collect_us Nullable(Int64) COMMENT 'latest: processor time of one round of the agent\'s collectors [us]',
    model LowCardinality(Nullable(String)) COMMENT 'model the engine serves',
    engine_running Nullable(Int64) COMMENT 'latest: requests being computed [requests]',
    engine_waiting Nullable(Int64) COMMENT 'latest: requests in the queue [requests]',
    engine_kv_used_ppm Nullable(Int64) COMMENT 'latest: share of KV cache blocks in use [ppm]'
)
AS SELECT
    fromUnixTimestamp64Milli(g.last_at_ms, 'UTC') AS seen,
    toUnixTimestamp64Milli(now64(3)) - g.last_at_ms AS age_ms,
    g.cluster AS cluster,
    g.region AS region,
    g.host AS host,
    g.engine_id AS engine_id,
    g.placement_group AS placement_group,
    g.gpu_uuid AS gpu_uuid,
    g.gpu_model AS gpu_model,
    g.workload AS workload,
    g.origin AS origin,
    g.parent_uuid AS parent_uuid,
    g.mig_profile AS mig_profile,
    g.util_gpu_pct AS util_gpu_pct,
    g.util_memory_pct AS util_memory_pct,
    g.power_mw AS power_mw,
    g.power_limit_mw AS power_limit_mw,
    g.temperature_c AS temperature_c,
    g.temperature_memory_c AS temperature_memory_c,
    g.clock_sm_mhz AS clock_sm_mhz,
    g.clock_memory_mhz AS clock_memory_mhz,
    g.sm_active_ppm AS sm_active_ppm,
    g.tensor_active_ppm AS tensor_active_ppm,
    g.pcie_generation AS pcie_generation,
    g.pcie_width AS pcie_width,
    g.pcie_width_max AS pcie_width_max,
    g.memory_used_bytes AS memory_used_bytes,
    g.memory_total_bytes AS memory_total_bytes,
    g.sm_occupancy_ppm AS sm_occupancy_ppm,
    g.dram_active_ppm AS dram_active_ppm,
    g.memory_engine_bytes AS memory_engine_bytes,
    h.cpu_busy_ppm AS host_cpu_busy_ppm,
    h.cpu_iowait_ppm AS host_cpu_iowait_ppm,
    h.cpu_core_busy_max_ppm AS host_cpu_core_busy_max_ppm,
    h.load_1m_milli AS host_load_1m_milli,
    h.processors AS host_processors,
    h.memory_used_bytes AS host_memory_used_bytes,
    h.memory_total_bytes AS host_memory_total_bytes,
    h.swap_used_bytes AS host_swap_used_bytes,
    h.disk_queue_milli AS host_disk_queue_milli,
    h.cpu_pressure_ppm AS host_cpu_pressure_ppm,
    h.memory_pressure_ppm AS host_memory_pressure_ppm,
    h.memory_full_pressure_ppm AS host_memory_full_pressure_ppm,
    h.io_pressure_ppm AS host_io_pressure_ppm,
    h.agent_collect_us AS host_agent_collect_us,
    e.model AS model,
    e.running AS engine_running,
    e.waiting AS engine_waiting,
    e.kv_used_ppm AS engine_kv_used_ppm
FROM (
    SELECT
        p.gpu_uuid AS gpu_uuid,
        tupleElement(argMax(tuple(p.cluster), p.last_at_ms), 1) AS cluster,
        tupleElement(argMax(tuple(p.region), p.last_at_ms), 1) AS region,
        tupleElement(argMax(tuple(p.host), p.last_at_ms), 1) AS host,
        tupleElement(argMax(tuple(p.engine_id), p.last_at_ms), 1) AS engine_id,
        tupleElement(argMax(tuple(p.placement_group), p.last_at_ms), 1) AS placement_group,
        tupleElement(argMax(tuple(p.gpu_model), p.last_at_ms), 1) AS gpu_model,
        tupleElement(argMax(tuple(p.workload), p.last_at_ms), 1) AS workload,
        tupleElement(argMax(tuple(p.origin), p.last_at_ms), 1) AS origin,
        tupleElement(argMax(tuple(p.parent_uuid), p.last_at_ms), 1) AS parent_uuid,
        tupleElement(argMax(tuple(p.mig_profile), p.last_at_ms), 1) AS mig_profile,
        max(p.last_at_ms) AS last_at_ms,
        tupleElement(argMax(tuple(p.util_gpu_pct_last), (p.last_at_ms, ifNull(p.util_gpu_pct_last, -9223372036854775807))), 1) AS util_gpu_pct,
        tupleElement(argMax(tuple(p.util_memory_pct_last), (p.last_at_ms, ifNull(p.util_memory_pct_last, -9223372036854775807))), 1) AS util_memory_pct,
        tupleElement(argMax(tuple(p.power_mw_last), (p.last_at_ms, ifNull(p.power_mw_last, -9223372036854775807))), 1) AS power_mw,
        tupleElement(argMax(tuple(p.power_limit_mw_last), (p.last_at_ms, ifNull(p.power_limit_mw_last, -9223372036854775807))), 1) AS power_limit_mw,
        tupleElement(argMax(tuple(p.temperature_c_last), (p.last_at_ms, ifNull(p.temperature_c_last, -9223372036854775807))), 1) AS temperature_c,
        tupleElement(argMax(tuple(p.temperature_memory_c_last), (p.last_at_ms, ifNull(p.temperature_memory_c_last, -9223372036854775807))), 1) AS temperature_memory_c,
        tupleElement(argMax(tuple(p.clock_sm_mhz_last), (p.last_at_ms, ifNull(p.clock_sm_mhz_last, -9223372036854775807))), 1) AS clock_sm_mhz,
        tupleElement(argMax(tuple(p.clock_memory_mhz_last), (p.last_at_ms, ifNull(p.clock_memory_mhz_last, -9223372036854775807))), 1) AS clock_memory_mhz,
        tupleElement(argMax(tuple(p.sm_active_ppm_last), (p.last_at_ms, ifNull(p.sm_active_ppm_last, -9223372036854775807))), 1) AS sm_active_ppm,
        tupleElement(argMax(tuple(p.tensor_active_ppm_last), (p.last_at_ms, ifNull(p.tensor_active_ppm_last, -9223372036854775807))), 1) AS tensor_active_ppm,
        tupleElement(argMax(tuple(p.pcie_generation_last), (p.last_at_ms, ifNull(p.pcie_generation_last, -9223372036854775807))), 1) AS pcie_generation,
        tupleElement(argMax(tuple(p.pcie_width_last), (p.last_at_ms, ifNull(p.pcie_width_last, -9223372036854775807))), 1) AS pcie_width,
        tupleElement(argMax(tuple(p.pcie_width_max_last), (p.last_at_ms, ifNull(p.pcie_width_max_last, -9223372036854775807))), 1) AS pcie_width_max,
        tupleElement(argMax(tuple(p.memory_used_bytes_last), (p.last_at_ms, ifNull(p.memory_used_bytes_last, -9223372036854775807))), 1) AS memory_used_bytes,
        tupleElement(argMax(tuple(p.memory_total_bytes_last), (p.last_at_ms, ifNull(p.memory_total_bytes_last, -9223372036854775807))), 1) AS memory_total_bytes,
        tupleElement(argMax(tuple(p.sm_occupancy_ppm_last), (p.last_at_ms, ifNull(p.sm_occupancy_ppm_last, -9223372036854775807))), 1) AS sm_occupancy_ppm,
        tupleElement(argMax(tuple(p.dram_active_ppm_last), (p.last_at_ms, ifNull(p.dram_active_ppm_last, -9223372036854775807))), 1) AS dram_active_ppm,
        tupleElement(argMax(tuple(p.memory_engine_bytes_last), (p.last_at_ms, ifNull(p.memory_engine_bytes_last, -9223372036854775807))), 1) AS memory_engine_bytes
    FROM gpu_samples_partials AS p FINAL
    WHERE p.grouping = 'gpu' AND p.window_ms >= toUnixTimestamp64Milli(now64(3)) - 300000
    GROUP BY p.gpu_uuid
) AS g
LEFT JOIN (
    SELECT
        p.cluster AS cluster,
        p.host AS host,
        tupleElement(argMax(tuple(p.region), p.last_at_ms), 1) AS region,
        tupleElement(argMax(tuple(p.origin), p.last_at_ms), 1) AS origin,
        max(p.last_at_ms) AS last_at_ms,
        tupleElement(argMax(tuple(p.cpu_busy_ppm_last), (p.last_at_ms, ifNull(p.cpu_busy_ppm_last, -9223372036854775807))), 1) AS cpu_busy_ppm,
        tupleElement(argMax(tuple(p.cpu_iowait_ppm_last), (p.last_at_ms, ifNull(p.cpu_iowait_ppm_last, -9223372036854775807))), 1) AS cpu_iowait_ppm,
        tupleElement(argMax(tuple(p.cpu_core_busy_max_ppm_last), (p.last_at_ms, ifNull(p.cpu_core_busy_max_ppm_last, -9223372036854775807))), 1) AS cpu_core_busy_max_ppm,
        tupleElement(argMax(tuple(p.load_1m_milli_last), (p.last_at_ms, ifNull(p.load_1m_milli_last, -9223372036854775807))), 1) AS load_1m_milli,
        tupleElement(argMax(tuple(p.processors_last), (p.last_at_ms, ifNull(p.processors_last, -9223372036854775807))), 1) AS processors,
        tupleElement(argMax(tuple(p.memory_used_bytes_last), (p.last_at_ms, ifNull(p.memory_used_bytes_last, -9223372036854775807))), 1) AS memory_used_bytes,
        tupleElement(argMax(tuple(p.memory_total_bytes_last), (p.last_at_ms, ifNull(p.memory_total_bytes_last, -9223372036854775807))), 1) AS memory_total_bytes,
        tupleElement(argMax(tuple(p.swap_used_bytes_last), (p.last_at_ms, ifNull(p.swap_used_bytes_last, -9223372036854775807))), 1) AS swap_used_bytes,
        tupleElement(argMax(tuple(p.disk_queue_milli_last), (p.last_at_ms, ifNull(p.disk_queue_milli_last, -9223372036854775807))), 1) AS disk_queue_milli,
        tupleElement(argMax(tuple(p.cpu_pressure_ppm_last), (p.last_at_ms, ifNull(p.cpu_pressure_ppm_last, -9223372036854775807))), 1) AS cpu_pressure_ppm,
        tupleElement(argMax(tuple(p.memory_pressure_ppm_last), (p.last_at_ms, ifNull(p.memory_pressure_ppm_last, -9223372036854775807))), 1) AS memory_pressure_ppm,
        tupleElement(argMax(tuple(p.memory_full_pressure_ppm_last), (p.last_at_ms, ifNull(p.memory_full_pressure_ppm_last, -9223372036854775807))), 1) AS memory_full_pressure_ppm,
        tupleElement(argMax(tuple(p.io_pressure_ppm_last), (p.last_at_ms, ifNull(p.io_pressure_ppm_last, -9223372036854775807))), 1) AS io_pressure_ppm,
        tupleElement(argMax(tuple(p.agent_collect_us_last), (p.last_at_ms, ifNull(p.agent_collect_us_last, -9223372036854775807))), 1) AS agent_collect_us
    FROM host_samples_partials AS p FINAL
    WHERE p.grouping = 'host' AND p.window_ms >= toUnixTimestamp64Milli(now64(3)) - 300000
    GROUP BY p.cluster, p.host
) AS h
    ON g.cluster <=> h.cluster AND g.host = h.host
LEFT JOIN (
    SELECT
        p.engine_id AS engine_id,
        tupleElement(argMax(tuple(p.cluster), p.last_at_ms), 1) AS cluster,
        tupleElement(argMax(tuple(p.region), p.last_at_ms), 1) AS region,
        tupleElement(argMax(tuple(p.host), p.last_at_ms), 1) AS host,
        tupleElement(argMax(tuple(p.placement_group), p.last_at_ms), 1) AS placement_group,
        tupleElement(argMax(tuple(p.model), p.last_at_ms), 1) AS model,
        tupleElement(argMax(tuple(p.model_version), p.last_at_ms), 1) AS model_version,
        tupleElement(argMax(tuple(p.precision), p.last_at_ms), 1) AS precision,
        tupleElement(argMax(tuple(p.engine_kind), p.last_at_ms), 1) AS engine_kind,
        tupleElement(argMax(tuple(p.origin), p.last_at_ms), 1) AS origin,
        max(p.last_at_ms) AS last_at_ms,
        tupleElement(argMax(tuple(p.running_last), (p.last_at_ms, ifNull(p.running_last, -9223372036854775807))), 1) AS running,
        tupleElement(argMax(tuple(p.waiting_last), (p.last_at_ms, ifNull(p.waiting_last, -9223372036854775807))), 1) AS waiting,
        tupleElement(argMax(tuple(p.kv_used_ppm_last), (p.last_at_ms, ifNull(p.kv_used_ppm_last, -9223372036854775807))), 1) AS kv_used_ppm
    FROM engine_samples_partials AS p FINAL
    WHERE p.grouping = 'engine_sample' AND p.window_ms >= toUnixTimestamp64Milli(now64(3)) - 300000
    GROUP BY p.engine_id
) AS e ON g.engine_id = e.engine_id
COMMENT 'every GPU with a sample in the last 5 minutes, as it is';

CREATE OR REPLACE VIEW latency_by_concurrency
(
    window DateTime('UTC') COMMENT 'start of the 10 s window, event time',
    window_ms Int64 COMMENT 'start of the 10 s window, event time, UTC [ms]',
    cluster LowCardinality(Nullable(String)) COMMENT 'cluster',
    region LowCardinality(Nullable(String)) COMMENT 'region',
    host LowCardinality(Nullable(String)) COMMENT 'machine',
    engine_id LowCardinality(Nullable(String)) COMMENT 'the engine',
    placement_group LowCardinality(Nullable(String)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) COMMENT 'model as served',
    model_version LowCardinality(Nullable(String)) COMMENT 'its version',
    precision LowCardinality(Nullable(String)) COMMENT 'of its weights',
    origin LowCardinality(Nullable(String)) COMMENT 'where the requests come from',
    running Float64 COMMENT 'mean number of requests the engine ran at one time',
    at_once UInt32 COMMENT 'the same on the nearest power of two, at least 1',
    requests UInt64 COMMENT 'requests that ended',
    failed UInt64 COMMENT 'of them: failed on our side: errors of server, engine and network, timeouts, rejections for overload',
    ttft_us_bins Map(Int16, UInt64) COMMENT 'sketch of TTFT of good requests [us]',
    itl_bins Map(Int16, UInt64) COMMENT 'sketch of ITL of good requests [us]',
    tpot_us_bins Map(Int16, UInt64) COMMENT 'sketch of TPOT of good requests [us]',
    e2e_us_bins Map(Int16, UInt64) COMMENT 'sketch of E2E of good requests [us]',
    queue_us_bins Map(Int16, UInt64) COMMENT 'sketch of time in the queue of good requests [us]',
    input_tokens_sum Nullable(Int64) COMMENT 'prompt tokens of good requests',
    output_tokens_sum Nullable(Int64) COMMENT 'generated tokens of good requests'
)
AS SELECT
    toDateTime(intDiv(r.window_ms, 1000), 'UTC') AS window,
    r.window_ms AS window_ms,
    r.cluster AS cluster,
    r.region AS region,
    r.host AS host,
    r.engine_id AS engine_id,
    r.placement_group AS placement_group,
    r.model AS model,
    r.model_version AS model_version,
    r.precision AS precision,
    r.origin AS origin,
    e.running AS running,
    toUInt32(exp2(round(log2(greatest(1, e.running))))) AS at_once,
    r.requests AS requests,
    r.failed AS failed,
    r.ttft_us_bins AS ttft_us_bins,
    r.itl_bins AS itl_bins,
    r.tpot_us_bins AS tpot_us_bins,
    r.e2e_us_bins AS e2e_us_bins,
    r.queue_us_bins AS queue_us_bins,
    r.input_tokens_sum AS input_tokens_sum,
    r.output_tokens_sum AS output_tokens_sum
FROM (
    SELECT
        p.window_ms AS window_ms,
        p.cluster AS cluster,
        p.region AS region,
        p.host AS host,
        p.engine_id AS engine_id,
        p.placement_group AS placement_group,
        p.model AS model,
        p.model_version AS model_version,
        p.precision AS precision,
        p.origin AS origin,
        sum(p.event_count) AS requests,
        sumIf(p.event_count, ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client') AS failed,
        sumMapIf(p.ttft_us_bins, ifNull(status, '') = 'ok') AS ttft_us_bins,
        sumMapIf(p.itl_bins, ifNull(status, '') = 'ok') AS itl_bins,
        sumMapIf(p.tpot_us_bins, ifNull(status, '') = 'ok') AS tpot_us_bins,
        sumMapIf(p.e2e_us_bins, ifNull(status, '') = 'ok') AS e2e_us_bins,
        sumMapIf(p.queue_us_bins, ifNull(status, '') = 'ok') AS queue_us_bins,
        sumIf(p.input_tokens_sum, ifNull(status, '') = 'ok') AS input_tokens_sum,
        sumIf(p.output_tokens_sum, ifNull(status, '') = 'ok') AS output_tokens_sum
    FROM llm_requests_partials AS p FINAL
    WHERE p.grouping = 'engine' AND p.engine_id IS NOT NULL
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.origin
) AS r
INNER JOIN (
    SELECT s.window_ms AS window_ms, s.engine_id AS engine_id,
        sum(assumeNotNull(s.mean_running)) AS running
    FROM (
        SELECT p.window_ms AS window_ms, p.engine_id AS engine_id, p.model AS model,
            sum(toInt128(p.running_sum)) / nullIf(sum(p.running_count), 0) AS mean_running
        FROM engine_samples_partials AS p FINAL
        WHERE p.grouping = 'engine_sample'
        GROUP BY p.window_ms, p.engine_id, p.model
    ) AS s
    WHERE s.mean_running IS NOT NULL
    GROUP BY s.window_ms, s.engine_id
) AS e ON r.window_ms = e.window_ms AND r.engine_id = e.engine_id
COMMENT 'latencies of an engine\'s requests beside its running batch, by 10 s window';

CREATE OR REPLACE VIEW costs
(
    minute DateTime('UTC') COMMENT 'start of the minute, event time',
    minute_ms Int64 COMMENT 'start of the minute, event time, UTC [ms]',
    version UInt64 COMMENT 'of the rows of a bill the greatest counts',
    revision UInt64 COMMENT 'source offset of the last change in this bill',
    final UInt32 COMMENT '1 once no request that ends in time can change it, else 0',
    weights_version UInt32 COMMENT 'version of the weights that parts were split by',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    total_nusd Nullable(Int64) COMMENT 'the bill: what is known of GPU, host and energy; null: nothing had a price [nUSD]',
    gpu_nusd Nullable(Int64) COMMENT 'GPU time at its price; null: no price [nUSD]',
    host_nusd Nullable(Int64) COMMENT 'overhead of the hosts; null: no price [nUSD]',
    energy_nusd Nullable(Int64) COMMENT 'energy at tariff and PUE; null: no price or not measured [nUSD]',
    gpu_ms Int64 COMMENT 'GPU time, estimated time included [ms]',
    energy_mj Nullable(Int64) COMMENT 'energy; null: not measured [mJ]',
    meter_mj Nullable(Int64) COMMENT 'energy at the meter, with PUE; null: not measured, or no PUE [mJ]',
    carbon_ug Nullable(Int64) COMMENT 'CO2e of its energy with PUE; null: not measured, or no intensity of the grid [ug]',
    unpriced_gpu_ms Int64 COMMENT 'GPU time without a price [ms]',
    unpriced_energy_mj Int64 COMMENT 'energy without a price [mJ]',
    unmeasured_gpu_ms Int64 COMMENT 'GPU time whose energy was not measured [ms]',
    estimated_gpu_ms Int64 COMMENT 'GPU time billed for gaps between readings; above 0: the bill is estimated [ms]',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    line_tenant Array(LowCardinality(Nullable(String))) COMMENT 'of each line who sent the request',
    line_model Array(LowCardinality(Nullable(String))) COMMENT 'of each line the model as served',
    line_slo_class Array(LowCardinality(Nullable(String))) COMMENT 'of each line the service class',
    line_status Array(LowCardinality(Nullable(String))) COMMENT 'of each line how its requests ended',
    line_requests Array(Int64) COMMENT 'of each line requests that ended in this minute',
    line_prefill_tokens Array(Nullable(Int64)) COMMENT 'of each line prompt tokens computed; null: not reported [tokens]',
    line_cached_tokens Array(Nullable(Int64)) COMMENT 'of each line prompt tokens from the prefix cache; null: not reported [tokens]',
    line_decode_tokens Array(Nullable(Int64)) COMMENT 'of each line generated tokens; null: not reported [tokens]',
    line_kv_token_ms Array(Nullable(Int64)) COMMENT 'of each line tokens in the KV cache times how long; null: not reported [token-ms]',
    part_name Array(LowCardinality(Nullable(String))) COMMENT 'what each part is for: request, __overhead__, __wasted__, __unattributed__, __idle__, __training__, __unpriced__',
    part_kind Array(LowCardinality(Nullable(String))) COMMENT 'what each part was paid for: prefill, decode, kv, startup, held',
    part_tenant Array(LowCardinality(Nullable(String))) COMMENT 'whose each part is; null: nobody\'s in particular',
    part_model Array(LowCardinality(Nullable(String))) COMMENT 'model of each part',
    part_slo_class Array(LowCardinality(Nullable(String))) COMMENT 'service class of each part',
    part_status Array(LowCardinality(Nullable(String))) COMMENT 'how the requests of each part ended',
    part_amount Array(Nullable(Int64)) COMMENT 'units each part pays for; null where its kind has none [tokens or token-ms]',
    part_cost_nusd Array(Nullable(Int64)) COMMENT 'cost of each part; null: no price [nUSD]',
    part_energy_mj Array(Nullable(Int64)) COMMENT 'energy of each part; null: not measured [mJ]',
    part_carbon_ug Array(Nullable(Int64)) COMMENT 'CO2e of each part; null: not measured, or no intensity of the grid [ug]',
    part_gpu_ms Array(Nullable(Int64)) COMMENT 'GPU time of each part [ms]'
)
AS SELECT
    toDateTime(intDiv(minute_ms, 1000), 'UTC') AS minute,
    t.minute_ms AS minute_ms,
    t.version AS version,
    t.revision AS revision,
    t.final AS final,
    t.weights_version AS weights_version,
    t.definition_version AS definition_version,
    t.total_nusd AS total_nusd,
    t.gpu_nusd AS gpu_nusd,
    t.host_nusd AS host_nusd,
    t.energy_nusd AS energy_nusd,
    t.gpu_ms AS gpu_ms,
    t.energy_mj AS energy_mj,
    t.meter_mj AS meter_mj,
    t.carbon_ug AS carbon_ug,
    t.unpriced_gpu_ms AS unpriced_gpu_ms,
    t.unpriced_energy_mj AS unpriced_energy_mj,
    t.unmeasured_gpu_ms AS unmeasured_gpu_ms,
    t.estimated_gpu_ms AS estimated_gpu_ms,
    t.use AS use,
    t.owner AS owner,
    t.placement_group AS placement_group,
    t.region AS region,
    t.host AS host,
    t.gpu_model AS gpu_model,
    t.prices_version AS prices_version,
    t.line_tenant AS line_tenant,
    t.line_model AS line_model,
    t.line_slo_class AS line_slo_class,
    t.line_status AS line_status,
    t.line_requests AS line_requests,
    t.line_prefill_tokens AS line_prefill_tokens,
    t.line_cached_tokens AS line_cached_tokens,
    t.line_decode_tokens AS line_decode_tokens,
    t.line_kv_token_ms AS line_kv_token_ms,
    t.part_name AS part_name,
    t.part_kind AS part_kind,
    t.part_tenant AS part_tenant,
    t.part_model AS part_model,
    t.part_slo_class AS part_slo_class,
    t.part_status AS part_status,
    t.part_amount AS part_amount,
    t.part_cost_nusd AS part_cost_nusd,
    t.part_energy_mj AS part_energy_mj,
    arrayResize(t.part_carbon_ug, length(t.part_name), NULL) AS part_carbon_ug,
    t.part_gpu_ms AS part_gpu_ms
FROM token_costs AS t FINAL
COMMENT 'bills by minute, the last revision of each, with all its parts';

CREATE OR REPLACE VIEW cost_late
(
    minute DateTime('UTC') COMMENT 'start of the minute, event time',
    placement_group String COMMENT 'engines that share any GPU; else the host',
    newest_offset UInt64 COMMENT 'offset of the last row that no bill holds',
    billed_offset Nullable(UInt64) COMMENT 'offset of the last row that a bill holds; null: no bill'
)
AS SELECT
    toDateTime(intDiv(r.of_ms, 1000), 'UTC') AS minute,
    r.of_group AS placement_group,
    max(r.newest) AS newest_offset,
    max(c.billed) AS billed_offset
FROM (
    SELECT intDiv(window_ms, 60000) * 60000 AS of_ms, ifNull(coalesce(placement_group, host), '') AS of_group, toUInt32(max(log_partition) % ifNull((SELECT max(log_partition) + 1 FROM token_costs), 1)) AS of_partition,
        max(log_offset) AS newest, 1 AS is_billed
    FROM usage FINAL WHERE 1 GROUP BY of_ms, of_group
    UNION ALL
    SELECT intDiv(window_ms, 60000) * 60000 AS of_ms, ifNull(coalesce(placement_group, host), '') AS of_group, toUInt32(max(log_partition) % ifNull((SELECT max(log_partition) + 1 FROM token_costs), 1)) AS of_partition,
        max(log_offset) AS newest, 0 AS is_billed
    FROM gpu_shares FINAL WHERE 1 GROUP BY of_ms, of_group
    UNION ALL
    SELECT intDiv(window_ms, 60000) * 60000 AS of_ms, ifNull(coalesce(placement_group, host), '') AS of_group, toUInt32(max(log_partition) % ifNull((SELECT max(log_partition) + 1 FROM token_costs), 1)) AS of_partition,
        max(log_offset) AS newest, 1 AS is_billed
    FROM gpu_samples_partials FINAL WHERE grouping = 'gpu' GROUP BY of_ms, of_group
) AS r
INNER JOIN (
    SELECT log_partition, max(minute_ms) AS final_ms FROM token_costs FINAL WHERE final = 1
    GROUP BY log_partition
) AS p ON r.of_partition = p.log_partition
LEFT JOIN (
    SELECT minute_ms, placement_group, toNullable(max(revision)) AS billed, min(final) AS is_final
    FROM token_costs FINAL GROUP BY minute_ms, placement_group
) AS c ON r.of_ms = c.minute_ms AND r.of_group = c.placement_group
WHERE if(c.billed IS NULL, r.is_billed = 1, r.newest > c.billed OR c.is_final = 0) AND r.of_ms <= p.final_ms
GROUP BY r.of_ms, r.of_group
COMMENT 'final minutes with rows that no final bill holds, too late for it or as it failed: rerate them';

CREATE OR REPLACE VIEW cost_parts
(
    minute DateTime('UTC') COMMENT 'start of the minute, event time',
    minute_ms Int64 COMMENT 'start of the minute, event time, UTC [ms]',
    version UInt64 COMMENT 'of the rows of a bill the greatest counts',
    revision UInt64 COMMENT 'source offset of the last change in this bill',
    final UInt32 COMMENT '1 once no request that ends in time can change it, else 0',
    weights_version UInt32 COMMENT 'version of the weights that parts were split by',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    part LowCardinality(Nullable(String)) COMMENT 'what the part is for: request, __overhead__, __wasted__, __unattributed__, __idle__, __training__, __unpriced__',
    kind LowCardinality(Nullable(String)) COMMENT 'what the part was paid for: prefill, decode, kv, startup, held',
    tenant LowCardinality(Nullable(String)) COMMENT 'whose the part is; null: nobody\'s in particular',
    model LowCardinality(Nullable(String)) COMMENT 'model of the part',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class of the part',
    status LowCardinality(Nullable(String)) COMMENT 'how the requests of the part ended',
    amount Nullable(Int64) COMMENT 'units the part pays for; null where its kind has none [tokens or token-ms]',
    cost_nusd Nullable(Int64) COMMENT 'cost of the part; null: no price [nUSD]',
    energy_mj Nullable(Int64) COMMENT 'energy of the part; null: not measured [mJ]',
    carbon_ug Nullable(Int64) COMMENT 'CO2e of the part; null: not measured, or no intensity of the grid [ug]',
    gpu_ms Nullable(Int64) COMMENT 'GPU time of the part [ms]',
    amount_unit LowCardinality(Nullable(String)) COMMENT 'what the amount counts; sums are of one unit alone',
    meter_mj Nullable(Int64) COMMENT 'energy of the part at the meter, with the bill\'s PUE [mJ]'
)
AS SELECT
    toDateTime(intDiv(minute_ms, 1000), 'UTC') AS minute,
    t.minute_ms AS minute_ms,
    t.version AS version,
    t.revision AS revision,
    t.final AS final,
    t.weights_version AS weights_version,
    t.use AS use,
    t.owner AS owner,
    t.placement_group AS placement_group,
    t.region AS region,
    t.host AS host,
    t.gpu_model AS gpu_model,
    t.prices_version AS prices_version,
    each_part AS part,
    each_kind AS kind,
    each_tenant AS tenant,
    each_model AS model,
    each_slo_class AS slo_class,
    each_status AS status,
    each_amount AS amount,
    each_cost_nusd AS cost_nusd,
    each_energy_mj AS energy_mj,
    each_carbon_ug AS carbon_ug,
    each_gpu_ms AS gpu_ms,
    multiIf(each_kind IN ('prefill', 'decode'), 'tokens', each_kind = 'kv', 'token-ms', NULL) AS amount_unit,
    toInt64(intDiv(toInt128(each_energy_mj) * t.meter_mj, nullIf(t.energy_mj, 0))) AS meter_mj
FROM token_costs AS t FINAL
ARRAY JOIN
    t.part_name AS each_part,
    t.part_kind AS each_kind,
    t.part_tenant AS each_tenant,
    t.part_model AS each_model,
    t.part_slo_class AS each_slo_class,
    t.part_status AS each_status,
    t.part_amount AS each_amount,
    t.part_cost_nusd AS each_cost_nusd,
    t.part_energy_mj AS each_energy_mj,
    arrayResize(t.part_carbon_ug, length(t.part_name), NULL) AS each_carbon_ug,
    t.part_gpu_ms AS each_gpu_ms
COMMENT 'parts of the bills, a row each, the last revision of each bill';

CREATE OR REPLACE VIEW cost_lines
(
    minute DateTime('UTC') COMMENT 'start of the minute, event time',
    minute_ms Int64 COMMENT 'start of the minute, event time, UTC [ms]',
    version UInt64 COMMENT 'of the rows of a bill the greatest counts',
    revision UInt64 COMMENT 'source offset of the last change in this bill',
    final UInt32 COMMENT '1 once no request that ends in time can change it, else 0',
    weights_version UInt32 COMMENT 'version of the weights that parts were split by',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    tenant LowCardinality(Nullable(String)) COMMENT 'of the line who sent the request',
    model LowCardinality(Nullable(String)) COMMENT 'of the line the model as served',
    slo_class LowCardinality(Nullable(String)) COMMENT 'of the line the service class',
    status LowCardinality(Nullable(String)) COMMENT 'of the line how its requests ended',
    requests Int64 COMMENT 'of the line requests that ended in this minute',
    prefill_tokens Nullable(Int64) COMMENT 'of the line prompt tokens computed; null: not reported [tokens]',
    cached_tokens Nullable(Int64) COMMENT 'of the line prompt tokens from the prefix cache; null: not reported [tokens]',
    decode_tokens Nullable(Int64) COMMENT 'of the line generated tokens; null: not reported [tokens]',
    kv_token_ms Nullable(Int64) COMMENT 'of the line tokens in the KV cache times how long; null: not reported [token-ms]',
    unpriced LowCardinality(Nullable(String)) COMMENT 'yes: the bill lacks a cost; else null',
    unmetered LowCardinality(Nullable(String)) COMMENT 'yes: the bill lacks energy at the meter; else null',
    uncounted LowCardinality(Nullable(String)) COMMENT 'yes: the bill lacks CO2e; else null'
)
AS SELECT
    toDateTime(intDiv(minute_ms, 1000), 'UTC') AS minute,
    t.minute_ms AS minute_ms,
    t.version AS version,
    t.revision AS revision,
    t.final AS final,
    t.weights_version AS weights_version,
    t.use AS use,
    t.owner AS owner,
    t.placement_group AS placement_group,
    t.region AS region,
    t.host AS host,
    t.gpu_model AS gpu_model,
    t.prices_version AS prices_version,
    each_tenant AS tenant,
    each_model AS model,
    each_slo_class AS slo_class,
    each_status AS status,
    each_requests AS requests,
    each_prefill_tokens AS prefill_tokens,
    each_cached_tokens AS cached_tokens,
    each_decode_tokens AS decode_tokens,
    each_kv_token_ms AS kv_token_ms,
    if(t.total_nusd IS NULL, 'yes', NULL) AS unpriced,
    if(t.meter_mj IS NULL, 'yes', NULL) AS unmetered,
    if(t.carbon_ug IS NULL, 'yes', NULL) AS uncounted
FROM token_costs AS t FINAL
ARRAY JOIN
    t.line_tenant AS each_tenant,
    t.line_model AS each_model,
    t.line_slo_class AS each_slo_class,
    t.line_status AS each_status,
    t.line_requests AS each_requests,
    t.line_prefill_tokens AS each_prefill_tokens,
    t.line_cached_tokens AS each_cached_tokens,
    t.line_decode_tokens AS each_decode_tokens,
    t.line_kv_token_ms AS each_kv_token_ms
COMMENT 'lines of the bills, a row each, the last revision of each bill';

CREATE OR REPLACE VIEW unit_costs
(
    hour DateTime('UTC') COMMENT 'start of the hour, event time',
    tenant LowCardinality(Nullable(String)) COMMENT 'whose; null: nobody\'s in particular',
    model LowCardinality(Nullable(String)) COMMENT 'model as served; null: nobody\'s in particular',
    unused LowCardinality(Nullable(String)) COMMENT 'the part of bills, of what is of no request: waiting, idle, start-up',
    requests UInt64 COMMENT 'requests that ended',
    cached_tokens Nullable(Int64) COMMENT 'prompt tokens from the prefix cache, of bills with a cost: none of their own',
    cost_nusd Nullable(Int128) COMMENT 'cost [nUSD]',
    energy_mj Nullable(Int128) COMMENT 'energy of the GPUs [mJ]',
    gpu_ms Nullable(Int128) COMMENT 'GPU time [ms]',
    meter_mj Nullable(Int128) COMMENT 'energy at the meter, with PUE [mJ]',
    carbon_ug Nullable(Int128) COMMENT 'CO2e, with PUE [ug]',
    uncached_tokens Nullable(Int128) COMMENT 'prompt token that was computed, where it has a price [tokens]',
    uncached_nusd Nullable(Int128) COMMENT 'cost by prompt token that was computed [nUSD]',
    usd_per_million_uncached Nullable(Float64) COMMENT 'a million of: prompt token that was computed [USD]',
    kwh_per_million_uncached Nullable(Float64) COMMENT 'a million of: prompt token that was computed [kWh]',
    g_per_million_uncached Nullable(Float64) COMMENT 'a million of: prompt token that was computed [g]',
    output_tokens Nullable(Int128) COMMENT 'generated token, with the cache that is held meanwhile, where it has a price [tokens]',
    output_nusd Nullable(Int128) COMMENT 'cost by generated token, with the cache that is held meanwhile [nUSD]',
    usd_per_million_output Nullable(Float64) COMMENT 'a million of: generated token, with the cache that is held meanwhile [USD]',
    kwh_per_million_output Nullable(Float64) COMMENT 'a million of: generated token, with the cache that is held meanwhile [kWh]',
    g_per_million_output Nullable(Float64) COMMENT 'a million of: generated token, with the cache that is held meanwhile [g]',
    usd_per_request Nullable(Float64) COMMENT 'a request of bills that have it, with all of its tokens [USD]',
    kwh_per_request Nullable(Float64) COMMENT 'a request of bills that have it, with all of its tokens [kWh]',
    g_per_request Nullable(Float64) COMMENT 'a request of bills that have it, with all of its tokens [g]'
)
AS SELECT
    of_hour AS hour,
    tenant,
    model,
    unused,
    u.of_requests AS requests,
    u.of_cached_tokens AS cached_tokens,
    u.of_cost_nusd AS cost_nusd,
    u.of_energy_mj AS energy_mj,
    u.of_gpu_ms AS gpu_ms,
    u.of_meter_mj AS meter_mj,
    u.of_carbon_ug AS carbon_ug,
    u.of_uncached_tokens AS uncached_tokens,
    u.of_uncached_nusd AS uncached_nusd,
    u.of_usd_per_million_uncached AS usd_per_million_uncached,
    u.of_kwh_per_million_uncached AS kwh_per_million_uncached,
    u.of_g_per_million_uncached AS g_per_million_uncached,
    u.of_output_tokens AS output_tokens,
    u.of_output_nusd AS output_nusd,
    u.of_usd_per_million_output AS usd_per_million_output,
    u.of_kwh_per_million_output AS kwh_per_million_output,
    u.of_g_per_million_output AS g_per_million_output,
    u.of_usd_per_request AS usd_per_request,
    u.of_kwh_per_request AS kwh_per_request,
    u.of_g_per_request AS g_per_request
FROM (
    SELECT
        of_hour, tenant, model, unused,
        sum(requests) AS of_requests,
        sum(cached_tokens) AS of_cached_tokens,
        sum(toInt128(cost_nusd)) AS of_cost_nusd,
        sum(toInt128(energy_mj)) AS of_energy_mj,
        sum(toInt128(gpu_ms)) AS of_gpu_ms,
        sum(toInt128(meter_mj)) AS of_meter_mj,
        sum(toInt128(carbon_ug)) AS of_carbon_ug,
        sumIf(toInt128(amount), kind = 'prefill' AND cost_nusd IS NOT NULL) AS of_uncached_tokens,
        if(ifNull(sumIf(toInt128(amount), kind = 'decode'), 0) > 0, sumIf(toInt128(cost_nusd), kind IN ('prefill')), sumIf(toInt128(cost_nusd), kind IN ('prefill', 'kv'))) AS of_uncached_nusd,
        if(ifNull(sumIf(toInt128(amount), kind = 'decode'), 0) > 0, sumIf(toInt128(cost_nusd), kind IN ('prefill')), sumIf(toInt128(cost_nusd), kind IN ('prefill', 'kv'))) / 1e9 / nullIf(sumIf(toInt128(amount), kind = 'prefill' AND cost_nusd IS NOT NULL), 0) * 1e6 AS of_usd_per_million_uncached,
        if(ifNull(sumIf(toInt128(amount), kind = 'decode'), 0) > 0, sumIf(toInt128(meter_mj), kind IN ('prefill')), sumIf(toInt128(meter_mj), kind IN ('prefill', 'kv'))) / 3.6e9 / nullIf(sumIf(toInt128(amount), kind = 'prefill' AND meter_mj IS NOT NULL), 0) * 1e6 AS of_kwh_per_million_uncached,
        if(ifNull(sumIf(toInt128(amount), kind = 'decode'), 0) > 0, sumIf(toInt128(carbon_ug), kind IN ('prefill')), sumIf(toInt128(carbon_ug), kind IN ('prefill', 'kv'))) / 1e6 / nullIf(sumIf(toInt128(amount), kind = 'prefill' AND carbon_ug IS NOT NULL), 0) * 1e6 AS of_g_per_million_uncached,
        sumIf(toInt128(amount), kind = 'decode' AND cost_nusd IS NOT NULL) AS of_output_tokens,
        if(ifNull(sumIf(toInt128(amount), kind = 'decode'), 0) > 0, sumIf(toInt128(cost_nusd), kind IN ('decode', 'kv')), NULL) AS of_output_nusd,
        if(ifNull(sumIf(toInt128(amount), kind = 'decode'), 0) > 0, sumIf(toInt128(cost_nusd), kind IN ('decode', 'kv')), NULL) / 1e9 / nullIf(sumIf(toInt128(amount), kind = 'decode' AND cost_nusd IS NOT NULL), 0) * 1e6 AS of_usd_per_million_output,
        if(ifNull(sumIf(toInt128(amount), kind = 'decode'), 0) > 0, sumIf(toInt128(meter_mj), kind IN ('decode', 'kv')), NULL) / 3.6e9 / nullIf(sumIf(toInt128(amount), kind = 'decode' AND meter_mj IS NOT NULL), 0) * 1e6 AS of_kwh_per_million_output,
        if(ifNull(sumIf(toInt128(amount), kind = 'decode'), 0) > 0, sumIf(toInt128(carbon_ug), kind IN ('decode', 'kv')), NULL) / 1e6 / nullIf(sumIf(toInt128(amount), kind = 'decode' AND carbon_ug IS NOT NULL), 0) * 1e6 AS of_g_per_million_output,
        sum(toInt128(cost_nusd)) / 1e9 / nullIf(sum(usd_requests), 0) AS of_usd_per_request,
        sum(toInt128(meter_mj)) / 3.6e9 / nullIf(sum(kwh_requests), 0) AS of_kwh_per_request,
        sum(toInt128(carbon_ug)) / 1e6 / nullIf(sum(g_requests), 0) AS of_g_per_request
    FROM (
        SELECT toStartOfHour(minute) AS of_hour, tenant, model, if(status IS NULL, part, NULL) AS unused,
            kind, amount, cost_nusd, energy_mj, meter_mj, carbon_ug, gpu_ms,
            toUInt64(0) AS requests, toUInt64(0) AS usd_requests, toUInt64(0) AS kwh_requests, toUInt64(0) AS g_requests, CAST(NULL, 'Nullable(Int64)') AS cached_tokens
        FROM cost_parts
        UNION ALL
        SELECT toStartOfHour(minute) AS of_hour, tenant, model, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            toUInt64(requests), toUInt64(if(unpriced IS NULL, requests, 0)), toUInt64(if(unmetered IS NULL, requests, 0)), toUInt64(if(uncounted IS NULL, requests, 0)), if(unpriced IS NULL, cached_tokens, NULL)
        FROM cost_lines
    )
    GROUP BY of_hour, tenant, model, unused
) AS u
COMMENT 'unit costs by hour, tenant and model: prices times tokens are the cost, all rows are the bills';

CREATE OR REPLACE VIEW costs_1h
(
    hour DateTime('UTC') COMMENT 'start of the hour, event time',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    total_nusd Nullable(Int64) COMMENT 'the bill: what is known of GPU, host and energy; null: nothing had a price [nUSD]',
    gpu_nusd Nullable(Int64) COMMENT 'GPU time at its price; null: no price [nUSD]',
    host_nusd Nullable(Int64) COMMENT 'overhead of the hosts; null: no price [nUSD]',
    energy_nusd Nullable(Int64) COMMENT 'energy at tariff and PUE; null: no price or not measured [nUSD]',
    gpu_ms Int64 COMMENT 'GPU time, estimated time included [ms]',
    energy_mj Nullable(Int64) COMMENT 'energy; null: not measured [mJ]',
    meter_mj Nullable(Int64) COMMENT 'energy at the meter, with PUE; null: not measured, or no PUE [mJ]',
    carbon_ug Nullable(Int64) COMMENT 'CO2e of its energy with PUE; null: not measured, or no intensity of the grid [ug]',
    unpriced_gpu_ms Int64 COMMENT 'GPU time without a price [ms]',
    unpriced_energy_mj Int64 COMMENT 'energy without a price [mJ]',
    unmeasured_gpu_ms Int64 COMMENT 'GPU time whose energy was not measured [ms]',
    estimated_gpu_ms Int64 COMMENT 'GPU time billed for gaps between readings; above 0: the bill is estimated [ms]',
    final UInt32 COMMENT '1 once all its minutes are final'
)
AS SELECT
    toStartOfHour(minute) AS hour,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    sum(c.total_nusd) AS total_nusd,
    sum(c.gpu_nusd) AS gpu_nusd,
    sum(c.host_nusd) AS host_nusd,
    sum(c.energy_nusd) AS energy_nusd,
    sum(c.gpu_ms) AS gpu_ms,
    sum(c.energy_mj) AS energy_mj,
    sum(c.meter_mj) AS meter_mj,
    sum(c.carbon_ug) AS carbon_ug,
    sum(c.unpriced_gpu_ms) AS unpriced_gpu_ms,
    sum(c.unpriced_energy_mj) AS unpriced_energy_mj,
    sum(c.unmeasured_gpu_ms) AS unmeasured_gpu_ms,
    sum(c.estimated_gpu_ms) AS estimated_gpu_ms,
    min(c.final) AS final
FROM costs AS c
GROUP BY hour, use, owner, placement_group, region, host, gpu_model, prices_version
COMMENT 'sums of costs by hour';

CREATE OR REPLACE VIEW cost_parts_1h
(
    hour DateTime('UTC') COMMENT 'start of the hour, event time',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    part LowCardinality(Nullable(String)) COMMENT 'what the part is for: request, __overhead__, __wasted__, __unattributed__, __idle__, __training__, __unpriced__',
    kind LowCardinality(Nullable(String)) COMMENT 'what the part was paid for: prefill, decode, kv, startup, held',
    tenant LowCardinality(Nullable(String)) COMMENT 'whose the part is; null: nobody\'s in particular',
    model LowCardinality(Nullable(String)) COMMENT 'model of the part',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class of the part',
    status LowCardinality(Nullable(String)) COMMENT 'how the requests of the part ended',
    amount_unit LowCardinality(Nullable(String)) COMMENT 'what the amount counts; sums are of one unit alone',
    amount Nullable(Int64) COMMENT 'units the part pays for; null where its kind has none [tokens or token-ms]',
    cost_nusd Nullable(Int64) COMMENT 'cost of the part; null: no price [nUSD]',
    energy_mj Nullable(Int64) COMMENT 'energy of the part; null: not measured [mJ]',
    carbon_ug Nullable(Int64) COMMENT 'CO2e of the part; null: not measured, or no intensity of the grid [ug]',
    gpu_ms Nullable(Int64) COMMENT 'GPU time of the part [ms]',
    meter_mj Nullable(Int64) COMMENT 'energy of the part at the meter, with the bill\'s PUE [mJ]',
    final UInt32 COMMENT '1 once all its minutes are final'
)
AS SELECT
    toStartOfHour(minute) AS hour,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    part,
    kind,
    tenant,
    model,
    slo_class,
    status,
    amount_unit,
    sum(c.amount) AS amount,
    sum(c.cost_nusd) AS cost_nusd,
    sum(c.energy_mj) AS energy_mj,
    sum(c.carbon_ug) AS carbon_ug,
    sum(c.gpu_ms) AS gpu_ms,
    sum(c.meter_mj) AS meter_mj,
    min(c.final) AS final
FROM cost_parts AS c
GROUP BY hour, use, owner, placement_group, region, host, gpu_model, prices_version, part, kind, tenant, model, slo_class, status, amount_unit
COMMENT 'sums of cost_parts by hour';

CREATE OR REPLACE VIEW costs_1d
(
    day DateTime('UTC') COMMENT 'start of the day, event time',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    total_nusd Nullable(Int64) COMMENT 'the bill: what is known of GPU, host and energy; null: nothing had a price [nUSD]',
    gpu_nusd Nullable(Int64) COMMENT 'GPU time at its price; null: no price [nUSD]',
    host_nusd Nullable(Int64) COMMENT 'overhead of the hosts; null: no price [nUSD]',
    energy_nusd Nullable(Int64) COMMENT 'energy at tariff and PUE; null: no price or not measured [nUSD]',
    gpu_ms Int64 COMMENT 'GPU time, estimated time included [ms]',
    energy_mj Nullable(Int64) COMMENT 'energy; null: not measured [mJ]',
    meter_mj Nullable(Int64) COMMENT 'energy at the meter, with PUE; null: not measured, or no PUE [mJ]',
    carbon_ug Nullable(Int64) COMMENT 'CO2e of its energy with PUE; null: not measured, or no intensity of the grid [ug]',
    unpriced_gpu_ms Int64 COMMENT 'GPU time without a price [ms]',
    unpriced_energy_mj Int64 COMMENT 'energy without a price [mJ]',
    unmeasured_gpu_ms Int64 COMMENT 'GPU time whose energy was not measured [ms]',
    estimated_gpu_ms Int64 COMMENT 'GPU time billed for gaps between readings; above 0: the bill is estimated [ms]',
    final UInt32 COMMENT '1 once all its minutes are final'
)
AS SELECT
    toStartOfDay(minute) AS day,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    sum(c.total_nusd) AS total_nusd,
    sum(c.gpu_nusd) AS gpu_nusd,
    sum(c.host_nusd) AS host_nusd,
    sum(c.energy_nusd) AS energy_nusd,
    sum(c.gpu_ms) AS gpu_ms,
    sum(c.energy_mj) AS energy_mj,
    sum(c.meter_mj) AS meter_mj,
    sum(c.carbon_ug) AS carbon_ug,
    sum(c.unpriced_gpu_ms) AS unpriced_gpu_ms,
    sum(c.unpriced_energy_mj) AS unpriced_energy_mj,
    sum(c.unmeasured_gpu_ms) AS unmeasured_gpu_ms,
    sum(c.estimated_gpu_ms) AS estimated_gpu_ms,
    min(c.final) AS final
FROM costs AS c
GROUP BY day, use, owner, placement_group, region, host, gpu_model, prices_version
COMMENT 'sums of costs by day';

CREATE OR REPLACE VIEW cost_parts_1d
(
    day DateTime('UTC') COMMENT 'start of the day, event time',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    part LowCardinality(Nullable(String)) COMMENT 'what the part is for: request, __overhead__, __wasted__, __unattributed__, __idle__, __training__, __unpriced__',
    kind LowCardinality(Nullable(String)) COMMENT 'what the part was paid for: prefill, decode, kv, startup, held',
    tenant LowCardinality(Nullable(String)) COMMENT 'whose the part is; null: nobody\'s in particular',
    model LowCardinality(Nullable(String)) COMMENT 'model of the part',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class of the part',
    status LowCardinality(Nullable(String)) COMMENT 'how the requests of the part ended',
    amount_unit LowCardinality(Nullable(String)) COMMENT 'what the amount counts; sums are of one unit alone',
    amount Nullable(Int64) COMMENT 'units the part pays for; null where its kind has none [tokens or token-ms]',
    cost_nusd Nullable(Int64) COMMENT 'cost of the part; null: no price [nUSD]',
    energy_mj Nullable(Int64) COMMENT 'energy of the part; null: not measured [mJ]',
    carbon_ug Nullable(Int64) COMMENT 'CO2e of the part; null: not measured, or no intensity of the grid [ug]',
    gpu_ms Nullable(Int64) COMMENT 'GPU time of the part [ms]',
    meter_mj Nullable(Int64) COMMENT 'energy of the part at the meter, with the bill\'s PUE [mJ]',
    final UInt32 COMMENT '1 once all its minutes are final'
)
AS SELECT
    toStartOfDay(minute) AS day,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    part,
    kind,
    tenant,
    model,
    slo_class,
    status,
    amount_unit,
    sum(c.amount) AS amount,
    sum(c.cost_nusd) AS cost_nusd,
    sum(c.energy_mj) AS energy_mj,
    sum(c.carbon_ug) AS carbon_ug,
    sum(c.gpu_ms) AS gpu_ms,
    sum(c.meter_mj) AS meter_mj,
    min(c.final) AS final
FROM cost_parts AS c
GROUP BY day, use, owner, placement_group, region, host, gpu_model, prices_version, part, kind, tenant, model, slo_class, status, amount_unit
COMMENT 'sums of cost_parts by day';

CREATE OR REPLACE VIEW billed
(
    window_ms Int64 COMMENT 'start of its minute, hour or day, UTC [ms]',
    oldest_ms Int64 COMMENT 'the first minute in it with a bill [ms]',
    newest_ms Int64 COMMENT 'the latest minute in it with a bill [ms]',
    use LowCardinality(Nullable(String)) COMMENT 'what the GPUs are for',
    region LowCardinality(Nullable(String)) COMMENT 'region of the GPUs',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of the GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    weights_version LowCardinality(Nullable(String)) COMMENT 'version of the weights that parts were split by',
    definition_version LowCardinality(Nullable(String)) COMMENT 'version of the metric definitions',
    bills Int64 COMMENT 'bills',
    provisional Int64 COMMENT 'bills that may still change',
    total_nusd Nullable(Int64) COMMENT 'the bill: what is known of GPU, host and energy; null: nothing had a price',
    gpu_nusd Nullable(Int64) COMMENT 'GPU time at its price; null: no price',
    host_nusd Nullable(Int64) COMMENT 'overhead of the hosts; null: no price',
    energy_nusd Nullable(Int64) COMMENT 'energy at tariff and PUE; null: no price or not measured',
    gpu_ms Nullable(Int64) COMMENT 'GPU time, estimated time included',
    energy_mj Nullable(Int64) COMMENT 'energy; null: not measured',
    unpriced_gpu_ms Nullable(Int64) COMMENT 'GPU time without a price',
    estimated_gpu_ms Nullable(Int64) COMMENT 'GPU time billed for gaps between readings; above 0: the bill is estimated',
    meter_mj Nullable(Int64) COMMENT 'energy at the meter, with PUE; null: not measured, or no PUE',
    carbon_ug Nullable(Int64) COMMENT 'CO2e of its energy with PUE; null: not measured, or no intensity of the grid',
    unpriced_energy_mj Nullable(Int64) COMMENT 'energy without a price',
    unmeasured_gpu_ms Nullable(Int64) COMMENT 'GPU time whose energy was not measured'
)
AS WITH
    (
        SELECT groupUniqArray((level, window_ms))
        FROM
        (
            SELECT level, window_ms FROM dirty_windows WHERE topic = 'costs'
            GROUP BY level, window_ms, writer HAVING max(noted) > max(done)
        )
    ) AS pending,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1d FINAL
        WHERE detail = 1 AND window_ms + 172800000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 86400000) * 86400000, arrayFilter(one -> one.1 IN ('1m', '1h', '1d'), pending))))
            AND 86400000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 86400000 <= {to_ms:Int64}
    ) AS of_1d,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1h FINAL
        WHERE detail = 1 AND window_ms + 7200000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 3600000) * 3600000, arrayFilter(one -> one.1 IN ('1m', '1h'), pending))))
            AND 3600000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 3600000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
    ) AS of_1h,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1m FINAL
        WHERE detail = 1 AND window_ms + 120000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 60000) * 60000, arrayFilter(one -> one.1 IN ('1m'), pending))))
            AND 60000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 60000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
            AND NOT has(of_1h, intDiv(window_ms, 3600000) * 3600000)
    ) AS of_1m,
    (SELECT (min(minute_ms), max(minute_ms) + 60000) FROM token_costs) AS known,
    arrayFilter(minute -> NOT has(of_1d, intDiv(minute, 86400000) * 86400000) AND NOT has(of_1h, intDiv(minute, 3600000) * 3600000) AND NOT has(of_1m, minute), arrayMap(n -> n * 60000, range(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), greatest(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), intDiv(least({to_ms:Int64}, known.2) + 59999, 60000))))) AS lacking
SELECT window_ms, oldest_ms, newest_ms, use, region, gpu_model, prices_version, weights_version, definition_version, bills, provisional, total_nusd, gpu_nusd, host_nusd, energy_nusd, gpu_ms, energy_mj, unpriced_gpu_ms, estimated_gpu_ms, meter_mj, carbon_ug, unpriced_energy_mj, unmeasured_gpu_ms
FROM
(
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_region AS region, each_gpu_model AS gpu_model, each_prices_version AS prices_version, each_weights_version AS weights_version, each_definition_version AS definition_version, each_count AS bills, each_provisional AS provisional, each_total_nusd AS total_nusd, each_gpu_nusd AS gpu_nusd, each_host_nusd AS host_nusd, each_energy_nusd AS energy_nusd, each_gpu_ms AS gpu_ms, each_energy_mj AS energy_mj, each_unpriced_gpu_ms AS unpriced_gpu_ms, each_estimated_gpu_ms AS estimated_gpu_ms, each_meter_mj AS meter_mj, each_carbon_ug AS carbon_ug, each_unpriced_energy_mj AS unpriced_energy_mj, each_unmeasured_gpu_ms AS unmeasured_gpu_ms
    FROM token_costs_rollup_1d AS t FINAL
ARRAY JOIN t.bill_use AS each_use, t.bill_region AS each_region, arrayResize(t.bill_gpu_model, length(t.bill_use), NULL) AS each_gpu_model, arrayResize(t.bill_prices_version, length(t.bill_use), NULL) AS each_prices_version, arrayResize(t.bill_weights_version, length(t.bill_use), NULL) AS each_weights_version, arrayResize(t.bill_definition_version, length(t.bill_use), NULL) AS each_definition_version, t.bill_count AS each_count, t.bill_provisional AS each_provisional, t.bill_total_nusd AS each_total_nusd, t.bill_gpu_nusd AS each_gpu_nusd, t.bill_host_nusd AS each_host_nusd, t.bill_energy_nusd AS each_energy_nusd, t.bill_gpu_ms AS each_gpu_ms, t.bill_energy_mj AS each_energy_mj, t.bill_unpriced_gpu_ms AS each_unpriced_gpu_ms, t.bill_estimated_gpu_ms AS each_estimated_gpu_ms, arrayResize(t.bill_meter_mj, length(t.bill_use), NULL) AS each_meter_mj, arrayResize(t.bill_carbon_ug, length(t.bill_use), NULL) AS each_carbon_ug, arrayResize(t.bill_unpriced_energy_mj, length(t.bill_use), NULL) AS each_unpriced_energy_mj, arrayResize(t.bill_unmeasured_gpu_ms, length(t.bill_use), NULL) AS each_unmeasured_gpu_ms
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1d, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_region AS region, each_gpu_model AS gpu_model, each_prices_version AS prices_version, each_weights_version AS weights_version, each_definition_version AS definition_version, each_count AS bills, each_provisional AS provisional, each_total_nusd AS total_nusd, each_gpu_nusd AS gpu_nusd, each_host_nusd AS host_nusd, each_energy_nusd AS energy_nusd, each_gpu_ms AS gpu_ms, each_energy_mj AS energy_mj, each_unpriced_gpu_ms AS unpriced_gpu_ms, each_estimated_gpu_ms AS estimated_gpu_ms, each_meter_mj AS meter_mj, each_carbon_ug AS carbon_ug, each_unpriced_energy_mj AS unpriced_energy_mj, each_unmeasured_gpu_ms AS unmeasured_gpu_ms
    FROM token_costs_rollup_1h AS t FINAL
ARRAY JOIN t.bill_use AS each_use, t.bill_region AS each_region, arrayResize(t.bill_gpu_model, length(t.bill_use), NULL) AS each_gpu_model, arrayResize(t.bill_prices_version, length(t.bill_use), NULL) AS each_prices_version, arrayResize(t.bill_weights_version, length(t.bill_use), NULL) AS each_weights_version, arrayResize(t.bill_definition_version, length(t.bill_use), NULL) AS each_definition_version, t.bill_count AS each_count, t.bill_provisional AS each_provisional, t.bill_total_nusd AS each_total_nusd, t.bill_gpu_nusd AS each_gpu_nusd, t.bill_host_nusd AS each_host_nusd, t.bill_energy_nusd AS each_energy_nusd, t.bill_gpu_ms AS each_gpu_ms, t.bill_energy_mj AS each_energy_mj, t.bill_unpriced_gpu_ms AS each_unpriced_gpu_ms, t.bill_estimated_gpu_ms AS each_estimated_gpu_ms, arrayResize(t.bill_meter_mj, length(t.bill_use), NULL) AS each_meter_mj, arrayResize(t.bill_carbon_ug, length(t.bill_use), NULL) AS each_carbon_ug, arrayResize(t.bill_unpriced_energy_mj, length(t.bill_use), NULL) AS each_unpriced_energy_mj, arrayResize(t.bill_unmeasured_gpu_ms, length(t.bill_use), NULL) AS each_unmeasured_gpu_ms
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1h, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_region AS region, each_gpu_model AS gpu_model, each_prices_version AS prices_version, each_weights_version AS weights_version, each_definition_version AS definition_version, each_count AS bills, each_provisional AS provisional, each_total_nusd AS total_nusd, each_gpu_nusd AS gpu_nusd, each_host_nusd AS host_nusd, each_energy_nusd AS energy_nusd, each_gpu_ms AS gpu_ms, each_energy_mj AS energy_mj, each_unpriced_gpu_ms AS unpriced_gpu_ms, each_estimated_gpu_ms AS estimated_gpu_ms, each_meter_mj AS meter_mj, each_carbon_ug AS carbon_ug, each_unpriced_energy_mj AS unpriced_energy_mj, each_unmeasured_gpu_ms AS unmeasured_gpu_ms
    FROM token_costs_rollup_1m AS t FINAL
ARRAY JOIN t.bill_use AS each_use, t.bill_region AS each_region, arrayResize(t.bill_gpu_model, length(t.bill_use), NULL) AS each_gpu_model, arrayResize(t.bill_prices_version, length(t.bill_use), NULL) AS each_prices_version, arrayResize(t.bill_weights_version, length(t.bill_use), NULL) AS each_weights_version, arrayResize(t.bill_definition_version, length(t.bill_use), NULL) AS each_definition_version, t.bill_count AS each_count, t.bill_provisional AS each_provisional, t.bill_total_nusd AS each_total_nusd, t.bill_gpu_nusd AS each_gpu_nusd, t.bill_host_nusd AS each_host_nusd, t.bill_energy_nusd AS each_energy_nusd, t.bill_gpu_ms AS each_gpu_ms, t.bill_energy_mj AS each_energy_mj, t.bill_unpriced_gpu_ms AS each_unpriced_gpu_ms, t.bill_estimated_gpu_ms AS each_estimated_gpu_ms, arrayResize(t.bill_meter_mj, length(t.bill_use), NULL) AS each_meter_mj, arrayResize(t.bill_carbon_ug, length(t.bill_use), NULL) AS each_carbon_ug, arrayResize(t.bill_unpriced_energy_mj, length(t.bill_use), NULL) AS each_unpriced_energy_mj, arrayResize(t.bill_unmeasured_gpu_ms, length(t.bill_use), NULL) AS each_unmeasured_gpu_ms
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1m, t.window_ms)
    UNION ALL
    SELECT t.minute_ms, t.minute_ms, t.minute_ms, t.use AS use, t.region AS region, t.gpu_model AS gpu_model, t.prices_version AS prices_version, toString(t.weights_version) AS weights_version, toString(t.definition_version) AS definition_version, 1 AS bills, toInt64(t.final = 0) AS provisional, t.total_nusd AS total_nusd, t.gpu_nusd AS gpu_nusd, t.host_nusd AS host_nusd, t.energy_nusd AS energy_nusd, t.gpu_ms AS gpu_ms, t.energy_mj AS energy_mj, t.unpriced_gpu_ms AS unpriced_gpu_ms, t.estimated_gpu_ms AS estimated_gpu_ms, t.meter_mj AS meter_mj, t.carbon_ug AS carbon_ug, t.unpriced_energy_mj AS unpriced_energy_mj, t.unmeasured_gpu_ms AS unmeasured_gpu_ms
    FROM token_costs AS t FINAL
    WHERE t.minute_ms >= {from_ms:Int64} AND t.minute_ms < {to_ms:Int64} AND t.minute_ms IN (SELECT arrayJoin(lacking))
)
COMMENT 'bills of a range, by use, region, type of GPU and versions';

CREATE OR REPLACE VIEW billed_parts
(
    window_ms Int64 COMMENT 'start of its minute, hour or day, UTC [ms]',
    oldest_ms Int64 COMMENT 'the first minute in it with a bill [ms]',
    newest_ms Int64 COMMENT 'the latest minute in it with a bill [ms]',
    part LowCardinality(Nullable(String)) COMMENT 'what for',
    kind LowCardinality(Nullable(String)) COMMENT 'what was paid for',
    tenant LowCardinality(Nullable(String)) COMMENT 'whose',
    model LowCardinality(Nullable(String)) COMMENT 'model',
    status LowCardinality(Nullable(String)) COMMENT 'how requests ended',
    region LowCardinality(Nullable(String)) COMMENT 'region of the GPUs',
    idle_use LowCardinality(Nullable(String)) COMMENT 'what idle GPUs are for; else null',
    idle_owner LowCardinality(Nullable(String)) COMMENT 'engine or host that stood idle; else null',
    idle_gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of idle GPUs; else null',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class',
    amount Nullable(Int64) COMMENT 'units each part pays for; null where its kind has none',
    cost_nusd Nullable(Int64) COMMENT 'cost of each part; null: no price',
    energy_mj Nullable(Int64) COMMENT 'energy of each part; null: not measured',
    gpu_ms Nullable(Int64) COMMENT 'GPU time of each part',
    carbon_ug Nullable(Int64) COMMENT 'CO2e of each part; null: not measured, or no intensity of the grid',
    meter_mj Nullable(Int64) COMMENT 'energy of the part at the meter, with the bill\'s PUE'
)
AS WITH
    (
        SELECT groupUniqArray((level, window_ms))
        FROM
        (
            SELECT level, window_ms FROM dirty_windows WHERE topic = 'costs'
            GROUP BY level, window_ms, writer HAVING max(noted) > max(done)
        )
    ) AS pending,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1d FINAL
        WHERE detail = 1 AND window_ms + 172800000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 86400000) * 86400000, arrayFilter(one -> one.1 IN ('1m', '1h', '1d'), pending))))
            AND 86400000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 86400000 <= {to_ms:Int64}
    ) AS of_1d,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1h FINAL
        WHERE detail = 1 AND window_ms + 7200000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 3600000) * 3600000, arrayFilter(one -> one.1 IN ('1m', '1h'), pending))))
            AND 3600000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 3600000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
    ) AS of_1h,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1m FINAL
        WHERE detail = 1 AND window_ms + 120000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 60000) * 60000, arrayFilter(one -> one.1 IN ('1m'), pending))))
            AND 60000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 60000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
            AND NOT has(of_1h, intDiv(window_ms, 3600000) * 3600000)
    ) AS of_1m,
    (SELECT (min(minute_ms), max(minute_ms) + 60000) FROM token_costs) AS known,
    arrayFilter(minute -> NOT has(of_1d, intDiv(minute, 86400000) * 86400000) AND NOT has(of_1h, intDiv(minute, 3600000) * 3600000) AND NOT has(of_1m, minute), arrayMap(n -> n * 60000, range(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), greatest(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), intDiv(least({to_ms:Int64}, known.2) + 59999, 60000))))) AS lacking
SELECT window_ms, oldest_ms, newest_ms, part, kind, tenant, model, status, region, idle_use, idle_owner, idle_gpu_model, slo_class, amount, cost_nusd, energy_mj, gpu_ms, carbon_ug, meter_mj
FROM
(
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_name AS part, each_kind AS kind, each_tenant AS tenant, each_model AS model, each_status AS status, each_region AS region, each_use AS idle_use, each_owner AS idle_owner, each_gpu_model AS idle_gpu_model, each_slo_class AS slo_class, each_amount AS amount, each_cost_nusd AS cost_nusd, each_energy_mj AS energy_mj, each_gpu_ms AS gpu_ms, each_carbon_ug AS carbon_ug, each_meter_mj AS meter_mj
    FROM token_costs_rollup_1d AS t FINAL
ARRAY JOIN t.part_name AS each_name, t.part_kind AS each_kind, t.part_tenant AS each_tenant, t.part_model AS each_model, t.part_status AS each_status, t.part_region AS each_region, t.part_use AS each_use, t.part_owner AS each_owner, t.part_gpu_model AS each_gpu_model, arrayResize(t.part_slo_class, length(t.part_name), NULL) AS each_slo_class, t.part_amount AS each_amount, t.part_cost_nusd AS each_cost_nusd, t.part_energy_mj AS each_energy_mj, t.part_gpu_ms AS each_gpu_ms, arrayResize(t.part_carbon_ug, length(t.part_name), NULL) AS each_carbon_ug, arrayResize(t.part_meter_mj, length(t.part_name), NULL) AS each_meter_mj
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1d, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_name AS part, each_kind AS kind, each_tenant AS tenant, each_model AS model, each_status AS status, each_region AS region, each_use AS idle_use, each_owner AS idle_owner, each_gpu_model AS idle_gpu_model, each_slo_class AS slo_class, each_amount AS amount, each_cost_nusd AS cost_nusd, each_energy_mj AS energy_mj, each_gpu_ms AS gpu_ms, each_carbon_ug AS carbon_ug, each_meter_mj AS meter_mj
    FROM token_costs_rollup_1h AS t FINAL
ARRAY JOIN t.part_name AS each_name, t.part_kind AS each_kind, t.part_tenant AS each_tenant, t.part_model AS each_model, t.part_status AS each_status, t.part_region AS each_region, t.part_use AS each_use, t.part_owner AS each_owner, t.part_gpu_model AS each_gpu_model, arrayResize(t.part_slo_class, length(t.part_name), NULL) AS each_slo_class, t.part_amount AS each_amount, t.part_cost_nusd AS each_cost_nusd, t.part_energy_mj AS each_energy_mj, t.part_gpu_ms AS each_gpu_ms, arrayResize(t.part_carbon_ug, length(t.part_name), NULL) AS each_carbon_ug, arrayResize(t.part_meter_mj, length(t.part_name), NULL) AS each_meter_mj
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1h, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_name AS part, each_kind AS kind, each_tenant AS tenant, each_model AS model, each_status AS status, each_region AS region, each_use AS idle_use, each_owner AS idle_owner, each_gpu_model AS idle_gpu_model, each_slo_class AS slo_class, each_amount AS amount, each_cost_nusd AS cost_nusd, each_energy_mj AS energy_mj, each_gpu_ms AS gpu_ms, each_carbon_ug AS carbon_ug, each_meter_mj AS meter_mj
    FROM token_costs_rollup_1m AS t FINAL
ARRAY JOIN t.part_name AS each_name, t.part_kind AS each_kind, t.part_tenant AS each_tenant, t.part_model AS each_model, t.part_status AS each_status, t.part_region AS each_region, t.part_use AS each_use, t.part_owner AS each_owner, t.part_gpu_model AS each_gpu_model, arrayResize(t.part_slo_class, length(t.part_name), NULL) AS each_slo_class, t.part_amount AS each_amount, t.part_cost_nusd AS each_cost_nusd, t.part_energy_mj AS each_energy_mj, t.part_gpu_ms AS each_gpu_ms, arrayResize(t.part_carbon_ug, length(t.part_name), NULL) AS each_carbon_ug, arrayResize(t.part_meter_mj, length(t.part_name), NULL) AS each_meter_mj
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1m, t.window_ms)
    UNION ALL
    SELECT t.minute_ms, t.minute_ms, t.minute_ms, each_name AS part, each_kind AS kind, each_tenant AS tenant, each_model AS model, each_status AS status, t.region AS region, if(each_name IN ('__idle__', '__wasted__'), t.use, NULL) AS idle_use, if(each_name IN ('__idle__', '__wasted__'), t.owner, NULL) AS idle_owner, if(each_name IN ('__idle__', '__wasted__'), t.gpu_model, NULL) AS idle_gpu_model, each_slo_class AS slo_class, each_amount AS amount, each_cost_nusd AS cost_nusd, each_energy_mj AS energy_mj, each_gpu_ms AS gpu_ms, each_carbon_ug AS carbon_ug, toInt64(intDiv(toInt128(each_energy_mj) * t.meter_mj, nullIf(t.energy_mj, 0))) AS meter_mj
    FROM token_costs AS t FINAL
ARRAY JOIN t.part_name AS each_name, t.part_kind AS each_kind, t.part_tenant AS each_tenant, t.part_model AS each_model, t.part_slo_class AS each_slo_class, t.part_status AS each_status, t.part_amount AS each_amount, t.part_cost_nusd AS each_cost_nusd, t.part_energy_mj AS each_energy_mj, arrayResize(t.part_carbon_ug, length(t.part_name), NULL) AS each_carbon_ug, t.part_gpu_ms AS each_gpu_ms
    WHERE t.minute_ms >= {from_ms:Int64} AND t.minute_ms < {to_ms:Int64} AND t.minute_ms IN (SELECT arrayJoin(lacking))
)
COMMENT 'parts of the bills of a range: cost_parts, added up over owners';

CREATE OR REPLACE VIEW billed_lines
(
    window_ms Int64 COMMENT 'start of its minute, hour or day, UTC [ms]',
    oldest_ms Int64 COMMENT 'the first minute in it with a bill [ms]',
    newest_ms Int64 COMMENT 'the latest minute in it with a bill [ms]',
    tenant LowCardinality(Nullable(String)) COMMENT 'whose',
    model LowCardinality(Nullable(String)) COMMENT 'model',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class',
    status LowCardinality(Nullable(String)) COMMENT 'how requests ended',
    region LowCardinality(Nullable(String)) COMMENT 'region of the GPUs',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of the GPUs; null where they are of several',
    unpriced LowCardinality(Nullable(String)) COMMENT 'yes: the bill lacks a cost; else null',
    unmetered LowCardinality(Nullable(String)) COMMENT 'yes: the bill lacks energy at the meter; else null',
    uncounted LowCardinality(Nullable(String)) COMMENT 'yes: the bill lacks CO2e; else null',
    requests Int64 COMMENT 'requests that ended in this minute',
    prefill_tokens Nullable(Int64) COMMENT 'prompt tokens computed; null: not reported',
    cached_tokens Nullable(Int64) COMMENT 'prompt tokens from the prefix cache; null: not reported',
    decode_tokens Nullable(Int64) COMMENT 'generated tokens; null: not reported'
)
AS WITH
    (
        SELECT groupUniqArray((level, window_ms))
        FROM
        (
            SELECT level, window_ms FROM dirty_windows WHERE topic = 'costs'
            GROUP BY level, window_ms, writer HAVING max(noted) > max(done)
        )
    ) AS pending,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1d FINAL
        WHERE detail = 1 AND window_ms + 172800000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 86400000) * 86400000, arrayFilter(one -> one.1 IN ('1m', '1h', '1d'), pending))))
            AND 86400000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 86400000 <= {to_ms:Int64}
    ) AS of_1d,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1h FINAL
        WHERE detail = 1 AND window_ms + 7200000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 3600000) * 3600000, arrayFilter(one -> one.1 IN ('1m', '1h'), pending))))
            AND 3600000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 3600000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
    ) AS of_1h,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1m FINAL
        WHERE detail = 1 AND window_ms + 120000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 60000) * 60000, arrayFilter(one -> one.1 IN ('1m'), pending))))
            AND 60000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 60000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
            AND NOT has(of_1h, intDiv(window_ms, 3600000) * 3600000)
    ) AS of_1m,
    (SELECT (min(minute_ms), max(minute_ms) + 60000) FROM token_costs) AS known,
    arrayFilter(minute -> NOT has(of_1d, intDiv(minute, 86400000) * 86400000) AND NOT has(of_1h, intDiv(minute, 3600000) * 3600000) AND NOT has(of_1m, minute), arrayMap(n -> n * 60000, range(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), greatest(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), intDiv(least({to_ms:Int64}, known.2) + 59999, 60000))))) AS lacking
SELECT window_ms, oldest_ms, newest_ms, tenant, model, slo_class, status, region, gpu_model, unpriced, unmetered, uncounted, requests, prefill_tokens, cached_tokens, decode_tokens
FROM
(
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_tenant AS tenant, each_model AS model, each_slo_class AS slo_class, each_status AS status, each_region AS region, each_gpu_model AS gpu_model, each_unpriced AS unpriced, each_unmetered AS unmetered, each_uncounted AS uncounted, each_requests AS requests, each_prefill_tokens AS prefill_tokens, each_cached_tokens AS cached_tokens, each_decode_tokens AS decode_tokens
    FROM token_costs_rollup_1d AS t FINAL
ARRAY JOIN t.line_tenant AS each_tenant, t.line_model AS each_model, t.line_slo_class AS each_slo_class, t.line_status AS each_status, t.line_region AS each_region, t.line_gpu_model AS each_gpu_model, arrayResize(t.line_unpriced, length(t.line_tenant), NULL) AS each_unpriced, arrayResize(t.line_unmetered, length(t.line_tenant), NULL) AS each_unmetered, arrayResize(t.line_uncounted, length(t.line_tenant), NULL) AS each_uncounted, t.line_requests AS each_requests, t.line_prefill_tokens AS each_prefill_tokens, t.line_cached_tokens AS each_cached_tokens, t.line_decode_tokens AS each_decode_tokens
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1d, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_tenant AS tenant, each_model AS model, each_slo_class AS slo_class, each_status AS status, each_region AS region, each_gpu_model AS gpu_model, each_unpriced AS unpriced, each_unmetered AS unmetered, each_uncounted AS uncounted, each_requests AS requests, each_prefill_tokens AS prefill_tokens, each_cached_tokens AS cached_tokens, each_decode_tokens AS decode_tokens
    FROM token_costs_rollup_1h AS t FINAL
ARRAY JOIN t.line_tenant AS each_tenant, t.line_model AS each_model, t.line_slo_class AS each_slo_class, t.line_status AS each_status, t.line_region AS each_region, t.line_gpu_model AS each_gpu_model, arrayResize(t.line_unpriced, length(t.line_tenant), NULL) AS each_unpriced, arrayResize(t.line_unmetered, length(t.line_tenant), NULL) AS each_unmetered, arrayResize(t.line_uncounted, length(t.line_tenant), NULL) AS each_uncounted, t.line_requests AS each_requests, t.line_prefill_tokens AS each_prefill_tokens, t.line_cached_tokens AS each_cached_tokens, t.line_decode_tokens AS each_decode_tokens
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1h, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_tenant AS tenant, each_model AS model, each_slo_class AS slo_class, each_status AS status, each_region AS region, each_gpu_model AS gpu_model, each_unpriced AS unpriced, each_unmetered AS unmetered, each_uncounted AS uncounted, each_requests AS requests, each_prefill_tokens AS prefill_tokens, each_cached_tokens AS cached_tokens, each_decode_tokens AS decode_tokens
    FROM token_costs_rollup_1m AS t FINAL
ARRAY JOIN t.line_tenant AS each_tenant, t.line_model AS each_model, t.line_slo_class AS each_slo_class, t.line_status AS each_status, t.line_region AS each_region, t.line_gpu_model AS each_gpu_model, arrayResize(t.line_unpriced, length(t.line_tenant), NULL) AS each_unpriced, arrayResize(t.line_unmetered, length(t.line_tenant), NULL) AS each_unmetered, arrayResize(t.line_uncounted, length(t.line_tenant), NULL) AS each_uncounted, t.line_requests AS each_requests, t.line_prefill_tokens AS each_prefill_tokens, t.line_cached_tokens AS each_cached_tokens, t.line_decode_tokens AS each_decode_tokens
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1m, t.window_ms)
    UNION ALL
    SELECT t.minute_ms, t.minute_ms, t.minute_ms, each_tenant AS tenant, each_model AS model, each_slo_class AS slo_class, each_status AS status, t.region AS region, t.gpu_model AS gpu_model, if(t.total_nusd IS NULL, 'yes', NULL) AS unpriced, if(t.meter_mj IS NULL, 'yes', NULL) AS unmetered, if(t.carbon_ug IS NULL, 'yes', NULL) AS uncounted, each_requests AS requests, each_prefill_tokens AS prefill_tokens, each_cached_tokens AS cached_tokens, each_decode_tokens AS decode_tokens
    FROM token_costs AS t FINAL
ARRAY JOIN t.line_tenant AS each_tenant, t.line_model AS each_model, t.line_slo_class AS each_slo_class, t.line_status AS each_status, t.line_requests AS each_requests, t.line_prefill_tokens AS each_prefill_tokens, t.line_cached_tokens AS each_cached_tokens, t.line_decode_tokens AS each_decode_tokens, t.line_kv_token_ms AS each_kv_token_ms
    WHERE t.minute_ms >= {from_ms:Int64} AND t.minute_ms < {to_ms:Int64} AND t.minute_ms IN (SELECT arrayJoin(lacking))
)
COMMENT 'usage in the bills of a range: cost_lines, added up over owners';

CREATE OR REPLACE VIEW billed_owners
(
    window_ms Int64 COMMENT 'start of its minute, hour or day, UTC [ms]',
    oldest_ms Int64 COMMENT 'the first minute in it with a bill [ms]',
    newest_ms Int64 COMMENT 'the latest minute in it with a bill [ms]',
    use LowCardinality(Nullable(String)) COMMENT 'what the GPUs are for',
    owner LowCardinality(Nullable(String)) COMMENT 'engine id; the host where no engine holds the GPU',
    host LowCardinality(Nullable(String)) COMMENT 'host of the GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of the GPUs; null where they are of several',
    region LowCardinality(Nullable(String)) COMMENT 'region of the GPUs',
    total_nusd Nullable(Int64) COMMENT 'the bill: what is known of GPU, host and energy; null: nothing had a price',
    gpu_ms Nullable(Int64) COMMENT 'GPU time, estimated time included',
    energy_mj Nullable(Int64) COMMENT 'energy; null: not measured',
    meter_mj Nullable(Int64) COMMENT 'energy at the meter, with PUE; null: not measured, or no PUE',
    carbon_ug Nullable(Int64) COMMENT 'CO2e of its energy with PUE; null: not measured, or no intensity of the grid'
)
AS WITH
    (
        SELECT groupUniqArray((level, window_ms))
        FROM
        (
            SELECT level, window_ms FROM dirty_windows WHERE topic = 'costs'
            GROUP BY level, window_ms, writer HAVING max(noted) > max(done)
        )
    ) AS pending,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1d FINAL
        WHERE detail = 1 AND window_ms + 172800000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 86400000) * 86400000, arrayFilter(one -> one.1 IN ('1m', '1h', '1d'), pending))))
            AND 86400000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 86400000 <= {to_ms:Int64}
    ) AS of_1d,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1h FINAL
        WHERE detail = 1 AND window_ms + 7200000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 3600000) * 3600000, arrayFilter(one -> one.1 IN ('1m', '1h'), pending))))
            AND 3600000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 3600000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
    ) AS of_1h,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1m FINAL
        WHERE detail = 1 AND window_ms + 120000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 60000) * 60000, arrayFilter(one -> one.1 IN ('1m'), pending))))
            AND 60000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 60000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
            AND NOT has(of_1h, intDiv(window_ms, 3600000) * 3600000)
    ) AS of_1m,
    (SELECT (min(minute_ms), max(minute_ms) + 60000) FROM token_costs) AS known,
    arrayFilter(minute -> NOT has(of_1d, intDiv(minute, 86400000) * 86400000) AND NOT has(of_1h, intDiv(minute, 3600000) * 3600000) AND NOT has(of_1m, minute), arrayMap(n -> n * 60000, range(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), greatest(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), intDiv(least({to_ms:Int64}, known.2) + 59999, 60000))))) AS lacking
SELECT window_ms, oldest_ms, newest_ms, use, owner, host, gpu_model, region, total_nusd, gpu_ms, energy_mj, meter_mj, carbon_ug
FROM
(
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_name AS owner, each_host AS host, each_gpu_model AS gpu_model, each_region AS region, each_total_nusd AS total_nusd, each_gpu_ms AS gpu_ms, each_energy_mj AS energy_mj, each_meter_mj AS meter_mj, each_carbon_ug AS carbon_ug
    FROM token_costs_rollup_1d AS t FINAL
ARRAY JOIN t.owner_use AS each_use, t.owner_name AS each_name, t.owner_host AS each_host, t.owner_gpu_model AS each_gpu_model, t.owner_region AS each_region, t.owner_total_nusd AS each_total_nusd, t.owner_gpu_ms AS each_gpu_ms, t.owner_energy_mj AS each_energy_mj, t.owner_meter_mj AS each_meter_mj, t.owner_carbon_ug AS each_carbon_ug
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1d, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_name AS owner, each_host AS host, each_gpu_model AS gpu_model, each_region AS region, each_total_nusd AS total_nusd, each_gpu_ms AS gpu_ms, each_energy_mj AS energy_mj, each_meter_mj AS meter_mj, each_carbon_ug AS carbon_ug
    FROM token_costs_rollup_1h AS t FINAL
ARRAY JOIN t.owner_use AS each_use, t.owner_name AS each_name, t.owner_host AS each_host, t.owner_gpu_model AS each_gpu_model, t.owner_region AS each_region, t.owner_total_nusd AS each_total_nusd, t.owner_gpu_ms AS each_gpu_ms, t.owner_energy_mj AS each_energy_mj, t.owner_meter_mj AS each_meter_mj, t.owner_carbon_ug AS each_carbon_ug
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1h, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_name AS owner, each_host AS host, each_gpu_model AS gpu_model, each_region AS region, each_total_nusd AS total_nusd, each_gpu_ms AS gpu_ms, each_energy_mj AS energy_mj, each_meter_mj AS meter_mj, each_carbon_ug AS carbon_ug
    FROM token_costs_rollup_1m AS t FINAL
ARRAY JOIN t.owner_use AS each_use, t.owner_name AS each_name, t.owner_host AS each_host, t.owner_gpu_model AS each_gpu_model, t.owner_region AS each_region, t.owner_total_nusd AS each_total_nusd, t.owner_gpu_ms AS each_gpu_ms, t.owner_energy_mj AS each_energy_mj, t.owner_meter_mj AS each_meter_mj, t.owner_carbon_ug AS each_carbon_ug
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1m, t.window_ms)
    UNION ALL
    SELECT t.minute_ms, t.minute_ms, t.minute_ms, t.use AS use, t.owner AS owner, t.host AS host, t.gpu_model AS gpu_model, t.region AS region, t.total_nusd AS total_nusd, t.gpu_ms AS gpu_ms, t.energy_mj AS energy_mj, t.meter_mj AS meter_mj, t.carbon_ug AS carbon_ug
    FROM token_costs AS t FINAL
    WHERE t.minute_ms >= {from_ms:Int64} AND t.minute_ms < {to_ms:Int64} AND t.minute_ms IN (SELECT arrayJoin(lacking))
)
COMMENT 'bills of a range by their owner';

CREATE OR REPLACE VIEW billed_owner_parts
(
    window_ms Int64 COMMENT 'start of its minute, hour or day, UTC [ms]',
    oldest_ms Int64 COMMENT 'the first minute in it with a bill [ms]',
    newest_ms Int64 COMMENT 'the latest minute in it with a bill [ms]',
    use LowCardinality(Nullable(String)) COMMENT 'what the GPUs are for',
    owner LowCardinality(Nullable(String)) COMMENT 'engine id; the host where no engine holds the GPU',
    part LowCardinality(Nullable(String)) COMMENT 'what for',
    model LowCardinality(Nullable(String)) COMMENT 'model',
    status LowCardinality(Nullable(String)) COMMENT 'how requests ended',
    cost_nusd Nullable(Int64) COMMENT 'cost of each part; null: no price',
    gpu_ms Nullable(Int64) COMMENT 'GPU time of each part'
)
AS WITH
    (
        SELECT groupUniqArray((level, window_ms))
        FROM
        (
            SELECT level, window_ms FROM dirty_windows WHERE topic = 'costs'
            GROUP BY level, window_ms, writer HAVING max(noted) > max(done)
        )
    ) AS pending,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1d FINAL
        WHERE detail = 1 AND window_ms + 172800000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 86400000) * 86400000, arrayFilter(one -> one.1 IN ('1m', '1h', '1d'), pending))))
            AND 86400000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 86400000 <= {to_ms:Int64}
    ) AS of_1d,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1h FINAL
        WHERE detail = 1 AND window_ms + 7200000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 3600000) * 3600000, arrayFilter(one -> one.1 IN ('1m', '1h'), pending))))
            AND 3600000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 3600000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
    ) AS of_1h,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1m FINAL
        WHERE detail = 1 AND window_ms + 120000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 60000) * 60000, arrayFilter(one -> one.1 IN ('1m'), pending))))
            AND 60000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 60000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
            AND NOT has(of_1h, intDiv(window_ms, 3600000) * 3600000)
    ) AS of_1m,
    (SELECT (min(minute_ms), max(minute_ms) + 60000) FROM token_costs) AS known,
    arrayFilter(minute -> NOT has(of_1d, intDiv(minute, 86400000) * 86400000) AND NOT has(of_1h, intDiv(minute, 3600000) * 3600000) AND NOT has(of_1m, minute), arrayMap(n -> n * 60000, range(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), greatest(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), intDiv(least({to_ms:Int64}, known.2) + 59999, 60000))))) AS lacking
SELECT window_ms, oldest_ms, newest_ms, use, owner, part, model, status, cost_nusd, gpu_ms
FROM
(
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_owner AS owner, each_name AS part, each_model AS model, each_status AS status, each_cost_nusd AS cost_nusd, each_gpu_ms AS gpu_ms
    FROM token_costs_rollup_1d AS t FINAL
ARRAY JOIN t.owner_part_use AS each_use, t.owner_part_owner AS each_owner, t.owner_part_name AS each_name, t.owner_part_model AS each_model, t.owner_part_status AS each_status, t.owner_part_cost_nusd AS each_cost_nusd, t.owner_part_gpu_ms AS each_gpu_ms
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1d, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_owner AS owner, each_name AS part, each_model AS model, each_status AS status, each_cost_nusd AS cost_nusd, each_gpu_ms AS gpu_ms
    FROM token_costs_rollup_1h AS t FINAL
ARRAY JOIN t.owner_part_use AS each_use, t.owner_part_owner AS each_owner, t.owner_part_name AS each_name, t.owner_part_model AS each_model, t.owner_part_status AS each_status, t.owner_part_cost_nusd AS each_cost_nusd, t.owner_part_gpu_ms AS each_gpu_ms
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1h, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_owner AS owner, each_name AS part, each_model AS model, each_status AS status, each_cost_nusd AS cost_nusd, each_gpu_ms AS gpu_ms
    FROM token_costs_rollup_1m AS t FINAL
ARRAY JOIN t.owner_part_use AS each_use, t.owner_part_owner AS each_owner, t.owner_part_name AS each_name, t.owner_part_model AS each_model, t.owner_part_status AS each_status, t.owner_part_cost_nusd AS each_cost_nusd, t.owner_part_gpu_ms AS each_gpu_ms
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1m, t.window_ms)
    UNION ALL
    SELECT t.minute_ms, t.minute_ms, t.minute_ms, t.use AS use, t.owner AS owner, each_name AS part, each_model AS model, each_status AS status, each_cost_nusd AS cost_nusd, each_gpu_ms AS gpu_ms
    FROM token_costs AS t FINAL
ARRAY JOIN t.part_name AS each_name, t.part_kind AS each_kind, t.part_tenant AS each_tenant, t.part_model AS each_model, t.part_slo_class AS each_slo_class, t.part_status AS each_status, t.part_amount AS each_amount, t.part_cost_nusd AS each_cost_nusd, t.part_energy_mj AS each_energy_mj, arrayResize(t.part_carbon_ug, length(t.part_name), NULL) AS each_carbon_ug, t.part_gpu_ms AS each_gpu_ms
    WHERE t.minute_ms >= {from_ms:Int64} AND t.minute_ms < {to_ms:Int64} AND t.minute_ms IN (SELECT arrayJoin(lacking))
)
COMMENT 'parts of the bills of a range by owner, added up over tenants';

CREATE OR REPLACE VIEW billed_owner_lines
(
    window_ms Int64 COMMENT 'start of its minute, hour or day, UTC [ms]',
    oldest_ms Int64 COMMENT 'the first minute in it with a bill [ms]',
    newest_ms Int64 COMMENT 'the latest minute in it with a bill [ms]',
    use LowCardinality(Nullable(String)) COMMENT 'what the GPUs are for',
    owner LowCardinality(Nullable(String)) COMMENT 'engine id; the host where no engine holds the GPU',
    model LowCardinality(Nullable(String)) COMMENT 'model',
    unpriced LowCardinality(Nullable(String)) COMMENT 'yes: the bill lacks a cost; else null',
    requests Int64 COMMENT 'requests that ended in this minute',
    prefill_tokens Nullable(Int64) COMMENT 'prompt tokens computed; null: not reported',
    cached_tokens Nullable(Int64) COMMENT 'prompt tokens from the prefix cache; null: not reported',
    decode_tokens Nullable(Int64) COMMENT 'generated tokens; null: not reported'
)
AS WITH
    (
        SELECT groupUniqArray((level, window_ms))
        FROM
        (
            SELECT level, window_ms FROM dirty_windows WHERE topic = 'costs'
            GROUP BY level, window_ms, writer HAVING max(noted) > max(done)
        )
    ) AS pending,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1d FINAL
        WHERE detail = 1 AND window_ms + 172800000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 86400000) * 86400000, arrayFilter(one -> one.1 IN ('1m', '1h', '1d'), pending))))
            AND 86400000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 86400000 <= {to_ms:Int64}
    ) AS of_1d,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1h FINAL
        WHERE detail = 1 AND window_ms + 7200000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 3600000) * 3600000, arrayFilter(one -> one.1 IN ('1m', '1h'), pending))))
            AND 3600000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 3600000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
    ) AS of_1h,
    (
        SELECT groupUniqArray(window_ms)
        FROM token_costs_rollup_1m FINAL
        WHERE detail = 1 AND window_ms + 120000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 60000) * 60000, arrayFilter(one -> one.1 IN ('1m'), pending))))
            AND 60000 <= {bucket_ms:Int64}
            AND window_ms >= {from_ms:Int64} AND window_ms + 60000 <= {to_ms:Int64}
            AND NOT has(of_1d, intDiv(window_ms, 86400000) * 86400000)
            AND NOT has(of_1h, intDiv(window_ms, 3600000) * 3600000)
    ) AS of_1m,
    (SELECT (min(minute_ms), max(minute_ms) + 60000) FROM token_costs) AS known,
    arrayFilter(minute -> NOT has(of_1d, intDiv(minute, 86400000) * 86400000) AND NOT has(of_1h, intDiv(minute, 3600000) * 3600000) AND NOT has(of_1m, minute), arrayMap(n -> n * 60000, range(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), greatest(intDiv(greatest({from_ms:Int64}, known.1) + 59999, 60000), intDiv(least({to_ms:Int64}, known.2) + 59999, 60000))))) AS lacking
SELECT window_ms, oldest_ms, newest_ms, use, owner, model, unpriced, requests, prefill_tokens, cached_tokens, decode_tokens
FROM
(
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_owner AS owner, each_model AS model, each_unpriced AS unpriced, each_requests AS requests, each_prefill_tokens AS prefill_tokens, each_cached_tokens AS cached_tokens, each_decode_tokens AS decode_tokens
    FROM token_costs_rollup_1d AS t FINAL
ARRAY JOIN t.owner_line_use AS each_use, t.owner_line_owner AS each_owner, t.owner_line_model AS each_model, arrayResize(t.owner_line_unpriced, length(t.owner_line_use), NULL) AS each_unpriced, t.owner_line_requests AS each_requests, t.owner_line_prefill_tokens AS each_prefill_tokens, t.owner_line_cached_tokens AS each_cached_tokens, t.owner_line_decode_tokens AS each_decode_tokens
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1d, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_owner AS owner, each_model AS model, each_unpriced AS unpriced, each_requests AS requests, each_prefill_tokens AS prefill_tokens, each_cached_tokens AS cached_tokens, each_decode_tokens AS decode_tokens
    FROM token_costs_rollup_1h AS t FINAL
ARRAY JOIN t.owner_line_use AS each_use, t.owner_line_owner AS each_owner, t.owner_line_model AS each_model, arrayResize(t.owner_line_unpriced, length(t.owner_line_use), NULL) AS each_unpriced, t.owner_line_requests AS each_requests, t.owner_line_prefill_tokens AS each_prefill_tokens, t.owner_line_cached_tokens AS each_cached_tokens, t.owner_line_decode_tokens AS each_decode_tokens
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1h, t.window_ms)
    UNION ALL
    SELECT t.window_ms, t.oldest_ms, t.newest_ms, each_use AS use, each_owner AS owner, each_model AS model, each_unpriced AS unpriced, each_requests AS requests, each_prefill_tokens AS prefill_tokens, each_cached_tokens AS cached_tokens, each_decode_tokens AS decode_tokens
    FROM token_costs_rollup_1m AS t FINAL
ARRAY JOIN t.owner_line_use AS each_use, t.owner_line_owner AS each_owner, t.owner_line_model AS each_model, arrayResize(t.owner_line_unpriced, length(t.owner_line_use), NULL) AS each_unpriced, t.owner_line_requests AS each_requests, t.owner_line_prefill_tokens AS each_prefill_tokens, t.owner_line_cached_tokens AS each_cached_tokens, t.owner_line_decode_tokens AS each_decode_tokens
    WHERE t.window_ms >= {from_ms:Int64} AND t.window_ms < {to_ms:Int64} AND has(of_1m, t.window_ms)
    UNION ALL
    SELECT t.minute_ms, t.minute_ms, t.minute_ms, t.use AS use, t.owner AS owner, each_model AS model, if(t.total_nusd IS NULL, 'yes', NULL) AS unpriced, each_requests AS requests, each_prefill_tokens AS prefill_tokens, each_cached_tokens AS cached_tokens, each_decode_tokens AS decode_tokens
    FROM token_costs AS t FINAL
ARRAY JOIN t.line_tenant AS each_tenant, t.line_model AS each_model, t.line_slo_class AS each_slo_class, t.line_status AS each_status, t.line_requests AS each_requests, t.line_prefill_tokens AS each_prefill_tokens, t.line_cached_tokens AS each_cached_tokens, t.line_decode_tokens AS each_decode_tokens, t.line_kv_token_ms AS each_kv_token_ms
    WHERE t.minute_ms >= {from_ms:Int64} AND t.minute_ms < {to_ms:Int64} AND t.minute_ms IN (SELECT arrayJoin(lacking))
)
COMMENT 'usage in the bills of a range by owner, added up over tenants';

CREATE OR REPLACE VIEW fault_impact
(
    fault DateTime64(3, 'UTC') COMMENT 'when the first event came',
    fault_ms Int64 COMMENT 'the same, UTC [ms]',
    engine_id Nullable(String) COMMENT 'engine that the GPU served then; null: none',
    host String COMMENT 'machine of the GPU that was the first',
    gpu_uuids Array(String) COMMENT 'GPUs that reported, the first at the front',
    kinds Array(String) COMMENT 'kinds of their events',
    codes Array(UInt32) COMMENT 'XID numbers',
    events UInt64 COMMENT 'how many',
    recovered_ms Nullable(Int64) COMMENT 'end of the first request that was answered well again [ms]',
    until_ms Int64 COMMENT 'the same, or until when it was looked for [ms]',
    requests UInt64 COMMENT 'requests of the engine that were open from then until then',
    failed UInt64 COMMENT 'of them those that were lost with the engine',
    lost Array(Tuple(request_id String, tenant Nullable(String), model String, error_kind String, began_ms Int64, at_ms Int64, output_tokens Nullable(UInt32), trace_id Nullable(String))) COMMENT 'these, one by one, with when they began and ended [ms]',
    other_failed UInt64 COMMENT 'of them those that failed otherwise, client faults aside',
    aborted UInt64 COMMENT 'of them those whose client went away',
    client_fault UInt64 COMMENT 'of them those rejected for what the client sent',
    tenants UInt64 COMMENT 'how many tenants they were of',
    most_of_them Array(String) COMMENT 'the tenants with the most of them',
    input_tokens Nullable(Int64) COMMENT 'their prompt tokens',
    output_tokens Nullable(Int64) COMMENT 'their generated tokens'
)
AS WITH
    seen AS (
        SELECT
            g.at_ms AS at, g.gpu_uuid AS gpu, g.host AS machine, g.kind AS sign, g.code AS number,
            ifNull(g.engine_id, if(v.seen_ms >= g.at_ms - 300000, v.engine, NULL)) AS engine
        FROM (
            SELECT e.at_ms AS at_ms, e.gpu_uuid AS gpu_uuid, e.host AS host, e.kind AS kind, e.code AS code,
                e.engine_id AS engine_id
            FROM gpu_events AS e FINAL
            WHERE intDiv(e.at_ms, 60000) >= intDiv({from_ms:Int64} - 900000, 60000)
                AND e.at_ms >= {from_ms:Int64} - 900000 AND e.at_ms < {to_ms:Int64} + 900000
                AND e.verdict = 'accepted' AND e.severity != 'info'
        ) AS g
        ASOF LEFT JOIN (
            SELECT w.gpu_uuid AS uuid, w.window_ms AS seen_ms, w.engine_id AS engine
            FROM gpu_samples_partials AS w FINAL
            WHERE w.grouping = 'gpu' AND w.engine_id IS NOT NULL
                AND w.window_ms >= {from_ms:Int64} - 1200000
                AND w.window_ms < {to_ms:Int64} + 900000
                AND w.gpu_uuid IN (SELECT e.gpu_uuid FROM gpu_events AS e WHERE intDiv(e.at_ms, 60000) >= intDiv({from_ms:Int64} - 900000, 60000)
                AND e.at_ms >= {from_ms:Int64} - 900000 AND e.at_ms < {to_ms:Int64} + 900000
                AND e.verdict = 'accepted' AND e.severity != 'info' AND e.engine_id IS NULL)
        ) AS v ON g.gpu_uuid = v.uuid AND g.at_ms >= v.seen_ms
    ),
    faults AS (
        SELECT
            named, any(of_engine) AS engine,
            arraySort(groupArray((at, gpu, machine, sign, number))) AS signs,
            arrayMap(i -> i > 1 AND signs[i].1 - signs[i - 1].1 > 60000, arrayEnumerate(signs)) AS apart,
            arrayJoin(arraySplit((one, is_apart) -> is_apart, signs, apart)) AS fault,
            fault[1].1 AS began
        FROM (SELECT *, toString(ifNull(engine, gpu)) AS named, CAST(engine AS Nullable(String)) AS of_engine FROM seen)
        GROUP BY named
        HAVING began >= {from_ms:Int64} AND began < {to_ms:Int64}
    ),
    hit AS (
        SELECT
            f.named AS named, f.began AS began,
            groupArray((r.start, r.at, r.status, r.kind, r.lost, r.tenant, r.prompt, r.generated)) AS ended,
            arraySort(arrayMap(one -> one.2, arrayFilter(one -> one.5, ended))) AS losses,
            arrayFirstIndex((one, before) -> one - before > 60000, losses,
                arrayPopBack(arrayPushFront(losses, f.began))) AS apart,
            if(apart = 1 OR empty(losses), f.began, losses[if(apart = 0, length(losses), apart - 1)]) AS last,
            nullIf(arrayMin(arrayMap(one -> one.2,
                arrayFilter(one -> one.1 >= last AND (ifNull(one.3, '') = 'ok'), ended))), 0) AS over,
            ifNull(over, f.began + 900000) AS until,
            arrayFilter(one -> one.1 < until, ended) AS open,
            groupArrayIf((r.id, r.tenant, r.model, r.kind, r.start, r.at, r.generated, r.trace), r.lost) AS all_lost,
            arrayFilter(one -> one.5 < until, all_lost) AS lost,
            arrayMap(one -> assumeNotNull(one), arrayFilter(one -> one IS NOT NULL, open.6)) AS of_tenant
        FROM faults AS f
        INNER JOIN (
            SELECT
                l.engine_id AS engine, l.at_ms AS at, l.at_ms - intDiv(ifNull(l.e2e_us, 0), 1000) AS start,
                l.status AS status, ifNull(l.error_kind, '') AS kind, kind IN ('engine_lost', 'network') AS lost,
                CAST(l.tenant AS Nullable(String)) AS tenant, l.input_tokens AS prompt, l.output_tokens AS generated,
                l.request_id AS id, l.model AS model, l.trace_id AS trace
            FROM llm_requests AS l FINAL
            WHERE intDiv(l.at_ms, 60000) >= intDiv({from_ms:Int64}, 60000)
                AND intDiv(l.at_ms, 60000) <= intDiv({to_ms:Int64} + 900000, 60000)
                AND l.verdict = 'accepted' AND l.engine_id IN (SELECT engine FROM faults WHERE engine IS NOT NULL)
        ) AS r ON f.engine = r.engine
        WHERE r.at >= f.began AND r.at < f.began + 900000
        GROUP BY f.named, f.began
    )
SELECT
    fromUnixTimestamp64Milli(s.began, 'UTC') AS fault,
    s.began AS fault_ms,
    s.engine AS engine_id,
    s.fault[1].3 AS host,
    arrayDistinct(arrayMap(one -> toString(one.2), s.fault)) AS gpu_uuids,
    arrayDistinct(arrayMap(one -> toString(one.4), s.fault)) AS kinds,
    arrayMap(one -> assumeNotNull(one), arrayDistinct(arrayFilter(one -> one IS NOT NULL, s.fault.5))) AS codes,
    length(s.fault) AS events,
    q.over AS recovered_ms,
    ifNull(q.over, s.began + 900000) AS until_ms,
    length(q.open) AS requests,
    arrayCount(one -> one.5, q.open) AS failed,
    CAST(q.lost, 'Array(Tuple(request_id String, tenant Nullable(String), model String, error_kind String, began_ms Int64, at_ms Int64, output_tokens Nullable(UInt32), trace_id Nullable(String)))') AS lost,
    arrayCount(one -> NOT one.5 AND (ifNull(one.3, '') NOT IN ('ok', 'aborted') AND ifNull(one.4, '') != 'client'), q.open) AS other_failed,
    arrayCount(one -> (ifNull(one.3, '') = 'aborted'), q.open) AS aborted,
    arrayCount(one -> (ifNull(one.3, '') NOT IN ('ok', 'aborted') AND ifNull(one.4, '') = 'client'), q.open) AS client_fault,
    arrayUniq(q.of_tenant) AS tenants,
    arrayReduce('topK(5)', q.of_tenant) AS most_of_them,
    arrayReduce('sum', q.open.7) AS input_tokens,
    arrayReduce('sum', q.open.8) AS output_tokens
FROM faults AS s
LEFT JOIN hit AS q ON s.began = q.began AND s.named = q.named
COMMENT 'faults of GPUs that began in a range, with their requests';

CREATE OR REPLACE VIEW slow_requests
(
    ended DateTime64(3, 'UTC') COMMENT 'when it ended',
    at_ms Int64 COMMENT 'the same, UTC [ms]',
    request_id String COMMENT 'id of the request',
    trace_id Nullable(String) COMMENT 'W3C trace id',
    tenant Nullable(String) COMMENT 'who sent it',
    model Nullable(String) COMMENT 'model that answered',
    model_version Nullable(String) COMMENT 'its version',
    host Nullable(String) COMMENT 'machine',
    engine_id Nullable(String) COMMENT 'engine',
    gpu_uuids Array(String) COMMENT 'GPUs of the engine in the minute of its end',
    status String COMMENT 'how it ended',
    error_kind Nullable(String) COMMENT 'why it failed',
    ttft_us Nullable(UInt32) COMMENT 'received to first token [us]',
    e2e_us Nullable(UInt32) COMMENT 'received to last byte [us]',
    queue_us Nullable(UInt32) COMMENT 'of it: waiting for the engine; null: it does not say [us]',
    prefill_us Nullable(UInt32) COMMENT 'of it: scheduled to first token, likewise [us]',
    generation_us Nullable(Int64) COMMENT 'of it: first token to last byte [us]',
    other_us Nullable(Int64) COMMENT 'of it: to the first token, neither queue nor prefill [us]',
    input_tokens Nullable(UInt32) COMMENT 'prompt tokens',
    cached_tokens Nullable(UInt32) COMMENT 'of them from the prefix cache',
    output_tokens Nullable(UInt32) COMMENT 'generated tokens'
)
AS
SELECT
    fromUnixTimestamp64Milli(r.at_ms, 'UTC') AS ended,
    r.at_ms AS at_ms,
    r.request_id AS request_id,
    r.trace_id AS trace_id,
    r.tenant AS tenant,
    r.model AS model,
    r.model_version AS model_version,
    r.host AS host,
    r.engine_id AS engine_id,
    g.uuids AS gpu_uuids,
    r.status AS status,
    r.error_kind AS error_kind,
    r.ttft_us AS ttft_us,
    r.e2e_us AS e2e_us,
    r.queue_us AS queue_us,
    r.prefill_us AS prefill_us,
    toInt64(r.e2e_us) - toInt64(r.ttft_us) AS generation_us,
    toInt64(r.ttft_us) - toInt64(r.queue_us) - toInt64(r.prefill_us) AS other_us,
    r.input_tokens AS input_tokens,
    r.cached_tokens AS cached_tokens,
    r.output_tokens AS output_tokens
FROM (
    SELECT *
    FROM llm_requests FINAL
    WHERE intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000)
        AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
        AND at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64} AND verdict = 'accepted'
) AS r
LEFT JOIN (
    SELECT engine_id, intDiv(window_ms, 60000) AS minute,
        arraySort(arrayMap(one -> toString(one), groupUniqArray(gpu_uuid))) AS uuids
    FROM gpu_windows
    WHERE window_ms >= intDiv({from_ms:Int64}, 60000) * 60000
        AND window_ms < {to_ms:Int64} + 60000 AND engine_id IS NOT NULL
    GROUP BY engine_id, minute
) AS g ON r.engine_id = g.engine_id AND intDiv(r.at_ms, 60000) = g.minute
COMMENT 'requests of a range: where their time went, on which GPUs';

CREATE OR REPLACE VIEW covered_time
(
    covered_ms Int64 COMMENT 'time of the range that has data [ms]',
    first_ms Nullable(Int64) COMMENT 'first window with data; null: none [ms]',
    end_ms Nullable(Int64) COMMENT 'end of the last one [ms]',
    coverage Nullable(Float64) COMMENT 'share of the range that has data'
)
AS WITH
    (
        SELECT groupUniqArray(intDiv(window_ms, 3600000))
        FROM
        (
            SELECT window_ms FROM llm_requests_rollup_1h WHERE grouping = 'service'
                AND window_ms > {from_ms:Int64} - 3600000 AND window_ms < {to_ms:Int64}
            UNION ALL
            SELECT window_ms FROM gpu_samples_rollup_1h WHERE grouping = 'gpu'
                AND window_ms > {from_ms:Int64} - 3600000 AND window_ms < {to_ms:Int64}
            UNION ALL
            SELECT window_ms FROM host_samples_rollup_1h WHERE grouping = 'host'
                AND window_ms > {from_ms:Int64} - 3600000 AND window_ms < {to_ms:Int64}
            UNION ALL
            SELECT window_ms FROM engine_samples_rollup_1h WHERE grouping = 'engine_sample'
                AND window_ms > {from_ms:Int64} - 3600000 AND window_ms < {to_ms:Int64}
        )
        WHERE {to_ms:Int64} - {from_ms:Int64} > 21600000
    ) AS hours,
    arrayFilter(hour -> has(hours, hour - 1) AND has(hours, hour + 1), hours) AS whole_hours,
    arrayConcat(
        arrayFilter(hour -> NOT has(whole_hours, hour), hours),
        if({to_ms:Int64} - {from_ms:Int64} > 21600000, [intDiv({from_ms:Int64}, 3600000), intDiv({to_ms:Int64}, 3600000)], range(intDiv({from_ms:Int64}, 3600000), intDiv({to_ms:Int64}, 3600000) + 1))) AS looked_into
SELECT
    arraySum(arrayMap(
        (one, next_ms) -> if(next_ms - one.1 <= greatest(one.2, 300000), next_ms - one.1, one.2),
        windows,
        if(empty(windows), emptyArrayInt64(), arrayPushBack(arrayMap(one -> one.1, arrayPopFront(windows)),
            toInt64(9000000000000000))))) AS covered_ms,
    if(empty(windows), NULL, windows[1].1) AS first_ms,
    if(empty(windows), NULL, windows[-1].1 + windows[-1].2) AS end_ms,
    covered_ms / nullIf({to_ms:Int64} - {from_ms:Int64}, 0) AS coverage
FROM (
    SELECT arraySort(groupUniqArray((start_ms, width_ms))) AS windows
    FROM (
        SELECT arrayJoin(whole_hours) * 3600000 AS start_ms, toInt64(3600000) AS width_ms
        UNION ALL
        SELECT start_ms, width_ms
        FROM (
            SELECT DISTINCT window_ms AS start_ms, toInt64(10000) AS width_ms FROM llm_requests_partials
            WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND NOT ({to_ms:Int64} - {from_ms:Int64} > 3600000 AND window_ms >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND window_ms < intDiv({to_ms:Int64}, 60000) * 60000)
            UNION ALL
            SELECT DISTINCT window_ms AS start_ms, toInt64(60000) AS width_ms FROM llm_requests_rollup_1m
            WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND ({to_ms:Int64} - {from_ms:Int64} > 3600000 AND window_ms >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND window_ms < intDiv({to_ms:Int64}, 60000) * 60000 OR window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND {to_ms:Int64} - {from_ms:Int64} <= 3600000 AND window_ms < intDiv(ifNull((SELECT minOrNull(window_ms) FROM llm_requests_partials WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND {to_ms:Int64} - {from_ms:Int64} <= 3600000), {to_ms:Int64}), 60000) * 60000)
            UNION ALL
            SELECT DISTINCT window_ms AS start_ms, toInt64(10000) AS width_ms FROM gpu_samples_partials
            WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND NOT ({to_ms:Int64} - {from_ms:Int64} > 3600000 AND window_ms >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND window_ms < intDiv({to_ms:Int64}, 60000) * 60000)
            UNION ALL
            SELECT DISTINCT window_ms AS start_ms, toInt64(60000) AS width_ms FROM gpu_samples_rollup_1m
            WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND ({to_ms:Int64} - {from_ms:Int64} > 3600000 AND window_ms >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND window_ms < intDiv({to_ms:Int64}, 60000) * 60000 OR window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND {to_ms:Int64} - {from_ms:Int64} <= 3600000 AND window_ms < intDiv(ifNull((SELECT minOrNull(window_ms) FROM gpu_samples_partials WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND {to_ms:Int64} - {from_ms:Int64} <= 3600000), {to_ms:Int64}), 60000) * 60000)
            UNION ALL
            SELECT DISTINCT window_ms AS start_ms, toInt64(10000) AS width_ms FROM host_samples_partials
            WHERE grouping = 'host' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND NOT ({to_ms:Int64} - {from_ms:Int64} > 3600000 AND window_ms >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND window_ms < intDiv({to_ms:Int64}, 60000) * 60000)
            UNION ALL
            SELECT DISTINCT window_ms AS start_ms, toInt64(60000) AS width_ms FROM host_samples_rollup_1m
            WHERE grouping = 'host' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND ({to_ms:Int64} - {from_ms:Int64} > 3600000 AND window_ms >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND window_ms < intDiv({to_ms:Int64}, 60000) * 60000 OR window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND {to_ms:Int64} - {from_ms:Int64} <= 3600000 AND window_ms < intDiv(ifNull((SELECT minOrNull(window_ms) FROM host_samples_partials WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND {to_ms:Int64} - {from_ms:Int64} <= 3600000), {to_ms:Int64}), 60000) * 60000)
            UNION ALL
            SELECT DISTINCT window_ms AS start_ms, toInt64(10000) AS width_ms FROM engine_samples_partials
            WHERE grouping = 'engine_sample' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND NOT ({to_ms:Int64} - {from_ms:Int64} > 3600000 AND window_ms >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND window_ms < intDiv({to_ms:Int64}, 60000) * 60000)
            UNION ALL
            SELECT DISTINCT window_ms AS start_ms, toInt64(60000) AS width_ms FROM engine_samples_rollup_1m
            WHERE grouping = 'engine_sample' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND ({to_ms:Int64} - {from_ms:Int64} > 3600000 AND window_ms >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND window_ms < intDiv({to_ms:Int64}, 60000) * 60000 OR window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND {to_ms:Int64} - {from_ms:Int64} <= 3600000 AND window_ms < intDiv(ifNull((SELECT minOrNull(window_ms) FROM engine_samples_partials WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND {to_ms:Int64} - {from_ms:Int64} <= 3600000), {to_ms:Int64}), 60000) * 60000)
        )
        WHERE intDiv(start_ms, 3600000) IN (SELECT arrayJoin(looked_into))
    )
)
COMMENT 'how much of a range has data';

CREATE OR REPLACE VIEW who_changed
(
    metric String COMMENT 'what changed: requests, failed, ttft_p99_us, cost_nusd, ...',
    dimension String COMMENT 'tenant, model, model_version, host or engine_id',
    name Nullable(String) COMMENT 'which of them; null: nobody in particular',
    before Nullable(Float64) COMMENT 'its value over the range before',
    now Nullable(Float64) COMMENT 'its value over the range',
    all_before Nullable(Float64) COMMENT 'that of all together before',
    all_now Nullable(Float64) COMMENT 'that of all together',
    explains Nullable(Float64) COMMENT 'share of the change of all that would not be had it not changed'
)
AS WITH
    (
        SELECT groupUniqArray(intDiv(window_ms, 3600000) * 3600000)
        FROM (
            SELECT level, window_ms FROM dirty_windows WHERE topic = 'llm.requests' AND level IN ('1m', '1h')
            GROUP BY level, window_ms, writer HAVING max(noted) > max(done)
        )
    ) AS pending_hours,
    read AS (
        SELECT grouping, tenant, model, model_version, host, engine_id, event_count, status, error_kind, input_tokens_sum, cached_tokens_sum, output_tokens_sum, ttft_us_bins, tpot_us_bins, e2e_us_bins, (window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND NOT (intDiv(window_ms, 60000) * 60000 >= {from_ms:Int64} AND intDiv(window_ms, 60000) * 60000 + 60000 <= {to_ms:Int64} AND intDiv(window_ms, 60000) * 60000 < (SELECT toUnixTimestamp64Milli(now64(3))) - 86400000) AND NOT (intDiv(window_ms, 3600000) * 3600000 >= {from_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 3600000 <= {to_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 4200000 <= (SELECT toUnixTimestamp64Milli(now64(3))) AND NOT has(pending_hours, intDiv(window_ms, 3600000) * 3600000))) AS in_is, (window_ms >= {before_from_ms:Int64} AND window_ms < {before_to_ms:Int64} AND NOT (intDiv(window_ms, 60000) * 60000 >= {before_from_ms:Int64} AND intDiv(window_ms, 60000) * 60000 + 60000 <= {before_to_ms:Int64} AND intDiv(window_ms, 60000) * 60000 < (SELECT toUnixTimestamp64Milli(now64(3))) - 86400000) AND NOT (intDiv(window_ms, 3600000) * 3600000 >= {before_from_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 3600000 <= {before_to_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 4200000 <= (SELECT toUnixTimestamp64Milli(now64(3))) AND NOT has(pending_hours, intDiv(window_ms, 3600000) * 3600000))) AS in_was
        FROM llm_requests_partials FINAL
        WHERE grouping IN ('service', 'engine') AND ((window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}) OR (window_ms >= {before_from_ms:Int64} AND window_ms < {before_to_ms:Int64})) AND (in_is OR in_was)
        UNION ALL
        SELECT grouping, tenant, model, model_version, host, engine_id, event_count, status, error_kind, input_tokens_sum, cached_tokens_sum, output_tokens_sum, ttft_us_bins, tpot_us_bins, e2e_us_bins, (intDiv(window_ms, 60000) * 60000 >= {from_ms:Int64} AND intDiv(window_ms, 60000) * 60000 + 60000 <= {to_ms:Int64} AND intDiv(window_ms, 60000) * 60000 < (SELECT toUnixTimestamp64Milli(now64(3))) - 86400000 AND NOT (intDiv(window_ms, 3600000) * 3600000 >= {from_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 3600000 <= {to_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 4200000 <= (SELECT toUnixTimestamp64Milli(now64(3))) AND NOT has(pending_hours, intDiv(window_ms, 3600000) * 3600000))) AS in_is, (intDiv(window_ms, 60000) * 60000 >= {before_from_ms:Int64} AND intDiv(window_ms, 60000) * 60000 + 60000 <= {before_to_ms:Int64} AND intDiv(window_ms, 60000) * 60000 < (SELECT toUnixTimestamp64Milli(now64(3))) - 86400000 AND NOT (intDiv(window_ms, 3600000) * 3600000 >= {before_from_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 3600000 <= {before_to_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 4200000 <= (SELECT toUnixTimestamp64Milli(now64(3))) AND NOT has(pending_hours, intDiv(window_ms, 3600000) * 3600000))) AS in_was
        FROM llm_requests_rollup_1m FINAL
        WHERE grouping IN ('service', 'engine') AND ((window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}) OR (window_ms >= {before_from_ms:Int64} AND window_ms < {before_to_ms:Int64})) AND (in_is OR in_was)
        UNION ALL
        SELECT grouping, tenant, model, model_version, host, engine_id, event_count, status, error_kind, input_tokens_sum, cached_tokens_sum, output_tokens_sum, ttft_us_bins, tpot_us_bins, e2e_us_bins, (intDiv(window_ms, 3600000) * 3600000 >= {from_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 3600000 <= {to_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 4200000 <= (SELECT toUnixTimestamp64Milli(now64(3))) AND NOT has(pending_hours, intDiv(window_ms, 3600000) * 3600000)) AS in_is, (intDiv(window_ms, 3600000) * 3600000 >= {before_from_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 3600000 <= {before_to_ms:Int64} AND intDiv(window_ms, 3600000) * 3600000 + 4200000 <= (SELECT toUnixTimestamp64Milli(now64(3))) AND NOT has(pending_hours, intDiv(window_ms, 3600000) * 3600000)) AS in_was
        FROM llm_requests_rollup_1h FINAL
        WHERE grouping IN ('service', 'engine') AND ((window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}) OR (window_ms >= {before_from_ms:Int64} AND window_ms < {before_to_ms:Int64})) AND (in_is OR in_was)
    ),
    groups AS (
        SELECT one.1 AS dimension, one.2 AS name,
            if(countIf(in_is) = 0, 0, sumIf(event_count, in_is)) AS requests_is,
            if(countIf(in_is) = 0, 0, sumIf(if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client', event_count, 0), in_is)) AS failed_is,
            if(countIf(in_is) = 0, 0, sumIf(toInt128(input_tokens_sum), in_is)) AS input_tokens_is,
            if(countIf(in_is) = 0, 0, sumIf(toInt128(cached_tokens_sum), in_is)) AS cached_tokens_is,
            if(countIf(in_is) = 0, 0, sumIf(toInt128(output_tokens_sum), in_is)) AS output_tokens_is,
            sumMapIf(ttft_us_bins, in_is) AS ttft_us_bins_is,
            sumMapIf(tpot_us_bins, in_is) AS tpot_us_bins_is,
            sumMapIf(e2e_us_bins, in_is) AS e2e_us_bins_is,
            if(countIf(in_was) = 0, 0, sumIf(event_count, in_was)) AS requests_was,
            if(countIf(in_was) = 0, 0, sumIf(if(ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client', event_count, 0), in_was)) AS failed_was,
            if(countIf(in_was) = 0, 0, sumIf(toInt128(input_tokens_sum), in_was)) AS input_tokens_was,
            if(countIf(in_was) = 0, 0, sumIf(toInt128(cached_tokens_sum), in_was)) AS cached_tokens_was,
            if(countIf(in_was) = 0, 0, sumIf(toInt128(output_tokens_sum), in_was)) AS output_tokens_was,
            sumMapIf(ttft_us_bins, in_was) AS ttft_us_bins_was,
            sumMapIf(tpot_us_bins, in_was) AS tpot_us_bins_was,
            sumMapIf(e2e_us_bins, in_was) AS e2e_us_bins_was
        FROM read
        ARRAY JOIN if(grouping = 'service', [('tenant', CAST(tenant AS Nullable(String))), ('model', CAST(model AS Nullable(String))), ('model_version', CAST(model_version AS Nullable(String)))], [('host', CAST(host AS Nullable(String))), ('engine_id', CAST(engine_id AS Nullable(String)))]) AS one
        GROUP BY dimension, name
    ),
    bills AS (
        SELECT one.1 AS dimension, one.2 AS name, if(countIf(minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}) = 0, 0, sumIf(toInt128(cost_nusd), minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64})) AS cost_is, if(countIf(minute_ms >= {before_from_ms:Int64} AND minute_ms < {before_to_ms:Int64}) = 0, 0, sumIf(toInt128(cost_nusd), minute_ms >= {before_from_ms:Int64} AND minute_ms < {before_to_ms:Int64})) AS cost_was
        FROM cost_parts
        ARRAY JOIN [('tenant', CAST(tenant AS Nullable(String))), ('model', CAST(model AS Nullable(String))), ('engine_id', CAST(if(use = 'engine', owner, NULL) AS Nullable(String)))] AS one
        WHERE (minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}) OR (minute_ms >= {before_from_ms:Int64} AND minute_ms < {before_to_ms:Int64})
        GROUP BY dimension, name
    )
SELECT
    metric AS metric,
    dimension AS dimension,
    name AS name,
    was AS before,
    is AS now,
    all_was AS all_before,
    all_is AS all_now,
    (all_is - without) / nullIf(all_is - all_was, 0) AS explains
FROM
(
    SELECT m.1 AS metric, m.2 AS was, m.3 AS is, m.4 AS all_was, m.5 AS all_is, m.6 AS without, dimension, name
    FROM (SELECT *, arrayMap(of -> fp_quantile_linear(0.99, of), [ttft_us_bins_was, ttft_us_bins_is, all_ttft_us_bins_was, all_ttft_us_bins_is, mapApply((k, v) -> (k, 1000 * v), all_ttft_us_bins_is), mapFilter((k, v) -> v > 0, mapAdd(mapApply((k, v) -> (k, 1000 * v), mapSubtract(all_ttft_us_bins_is, ttft_us_bins_is)), mapApply((k, v) -> (k, toUInt64(round(ifNull(1000. * arraySum(mapValues(all_ttft_us_bins_is)) / nullIf(arraySum(mapValues(all_ttft_us_bins_was)), 0), 0) * v))), ttft_us_bins_was)))]) AS ttft_us_p99s, arrayMap(of -> fp_quantile_linear(0.99, of), [tpot_us_bins_was, tpot_us_bins_is, all_tpot_us_bins_was, all_tpot_us_bins_is, mapApply((k, v) -> (k, 1000 * v), all_tpot_us_bins_is), mapFilter((k, v) -> v > 0, mapAdd(mapApply((k, v) -> (k, 1000 * v), mapSubtract(all_tpot_us_bins_is, tpot_us_bins_is)), mapApply((k, v) -> (k, toUInt64(round(ifNull(1000. * arraySum(mapValues(all_tpot_us_bins_is)) / nullIf(arraySum(mapValues(all_tpot_us_bins_was)), 0), 0) * v))), tpot_us_bins_was)))]) AS tpot_us_p99s, arrayMap(of -> fp_quantile_linear(0.99, of), [e2e_us_bins_was, e2e_us_bins_is, all_e2e_us_bins_was, all_e2e_us_bins_is, mapApply((k, v) -> (k, 1000 * v), all_e2e_us_bins_is), mapFilter((k, v) -> v > 0, mapAdd(mapApply((k, v) -> (k, 1000 * v), mapSubtract(all_e2e_us_bins_is, e2e_us_bins_is)), mapApply((k, v) -> (k, toUInt64(round(ifNull(1000. * arraySum(mapValues(all_e2e_us_bins_is)) / nullIf(arraySum(mapValues(all_e2e_us_bins_was)), 0), 0) * v))), e2e_us_bins_was)))]) AS e2e_us_p99s FROM (SELECT *, sum(requests_is) OVER (PARTITION BY dimension) AS all_requests_is, sum(requests_was) OVER (PARTITION BY dimension) AS all_requests_was, sum(failed_is) OVER (PARTITION BY dimension) AS all_failed_is, sum(failed_was) OVER (PARTITION BY dimension) AS all_failed_was, sum(input_tokens_is) OVER (PARTITION BY dimension) AS all_input_tokens_is, sum(input_tokens_was) OVER (PARTITION BY dimension) AS all_input_tokens_was, sum(cached_tokens_is) OVER (PARTITION BY dimension) AS all_cached_tokens_is, sum(cached_tokens_was) OVER (PARTITION BY dimension) AS all_cached_tokens_was, sum(output_tokens_is) OVER (PARTITION BY dimension) AS all_output_tokens_is, sum(output_tokens_was) OVER (PARTITION BY dimension) AS all_output_tokens_was, sumMap(ttft_us_bins_is) OVER (PARTITION BY dimension) AS all_ttft_us_bins_is, sumMap(ttft_us_bins_was) OVER (PARTITION BY dimension) AS all_ttft_us_bins_was, sumMap(tpot_us_bins_is) OVER (PARTITION BY dimension) AS all_tpot_us_bins_is, sumMap(tpot_us_bins_was) OVER (PARTITION BY dimension) AS all_tpot_us_bins_was, sumMap(e2e_us_bins_is) OVER (PARTITION BY dimension) AS all_e2e_us_bins_is, sumMap(e2e_us_bins_was) OVER (PARTITION BY dimension) AS all_e2e_us_bins_was FROM groups))
    ARRAY JOIN [('requests', CAST(requests_was AS Nullable(Float64)), CAST(requests_is AS Nullable(Float64)), CAST(all_requests_was AS Nullable(Float64)), CAST(all_requests_is AS Nullable(Float64)), CAST(all_requests_is AS Nullable(Float64)) - CAST(requests_is AS Nullable(Float64)) + CAST(requests_was AS Nullable(Float64))), ('failed', CAST(failed_was AS Nullable(Float64)), CAST(failed_is AS Nullable(Float64)), CAST(all_failed_was AS Nullable(Float64)), CAST(all_failed_is AS Nullable(Float64)), CAST(all_failed_is AS Nullable(Float64)) - CAST(failed_is AS Nullable(Float64)) + CAST(failed_was AS Nullable(Float64))), ('input_tokens', CAST(input_tokens_was AS Nullable(Float64)), CAST(input_tokens_is AS Nullable(Float64)), CAST(all_input_tokens_was AS Nullable(Float64)), CAST(all_input_tokens_is AS Nullable(Float64)), CAST(all_input_tokens_is AS Nullable(Float64)) - CAST(input_tokens_is AS Nullable(Float64)) + CAST(input_tokens_was AS Nullable(Float64))), ('cached_tokens', CAST(cached_tokens_was AS Nullable(Float64)), CAST(cached_tokens_is AS Nullable(Float64)), CAST(all_cached_tokens_was AS Nullable(Float64)), CAST(all_cached_tokens_is AS Nullable(Float64)), CAST(all_cached_tokens_is AS Nullable(Float64)) - CAST(cached_tokens_is AS Nullable(Float64)) + CAST(cached_tokens_was AS Nullable(Float64))), ('output_tokens', CAST(output_tokens_was AS Nullable(Float64)), CAST(output_tokens_is AS Nullable(Float64)), CAST(all_output_tokens_was AS Nullable(Float64)), CAST(all_output_tokens_is AS Nullable(Float64)), CAST(all_output_tokens_is AS Nullable(Float64)) - CAST(output_tokens_is AS Nullable(Float64)) + CAST(output_tokens_was AS Nullable(Float64))), ('ttft_p99_us', ttft_us_p99s[1], ttft_us_p99s[2], ttft_us_p99s[3], ttft_us_p99s[4], ttft_us_p99s[4] - ttft_us_p99s[5] + ttft_us_p99s[6]), ('tpot_p99_us', tpot_us_p99s[1], tpot_us_p99s[2], tpot_us_p99s[3], tpot_us_p99s[4], tpot_us_p99s[4] - tpot_us_p99s[5] + tpot_us_p99s[6]), ('e2e_p99_us', e2e_us_p99s[1], e2e_us_p99s[2], e2e_us_p99s[3], e2e_us_p99s[4], e2e_us_p99s[4] - e2e_us_p99s[5] + e2e_us_p99s[6])] AS m
    UNION ALL
    SELECT m.1 AS metric, m.2 AS was, m.3 AS is, m.4 AS all_was, m.5 AS all_is, m.6 AS without, dimension, name
    FROM (SELECT *, sum(cost_is) OVER (PARTITION BY dimension) AS all_cost_is, sum(cost_was) OVER (PARTITION BY dimension) AS all_cost_was FROM bills)
    ARRAY JOIN [('cost_nusd', CAST(cost_was AS Nullable(Float64)), CAST(cost_is AS Nullable(Float64)), CAST(all_cost_was AS Nullable(Float64)), CAST(all_cost_is AS Nullable(Float64)), CAST(all_cost_is AS Nullable(Float64)) - CAST(cost_is AS Nullable(Float64)) + CAST(cost_was AS Nullable(Float64)))] AS m
)
COMMENT 'who explains most of a change between two ranges';

CREATE OR REPLACE VIEW gpu_coverage
(
    hour DateTime('UTC') COMMENT 'start of the hour, event time',
    hour_ms Int64 COMMENT 'the same, UTC [ms]',
    cluster LowCardinality(String) COMMENT 'cluster of the GPUs; empty: none, or of bills over several hosts',
    region LowCardinality(String) COMMENT 'region of the GPUs; empty: none, or of bills over several',
    gpu_model LowCardinality(String) COMMENT 'product name; empty: of bills over several types',
    gpus UInt64 COMMENT 'GPUs of the inventory',
    silent_gpus UInt64 COMMENT 'of them those that were silent at any time',
    inventory_gpu_ms Int64 COMMENT 'GPU time of the inventory [ms]',
    reporting_gpu_ms Int64 COMMENT 'of it what is not silent [ms]',
    billed_gpu_ms Int64 COMMENT 'GPU time that bills hold [ms]',
    silent_gpu_ms Int64 COMMENT 'time of the inventory without a reading: in no bill [ms]',
    nusd_per_gpu_hour Nullable(Int128) COMMENT 'what an hour of a GPU was billed at; null: no price [nUSD]',
    unobserved_nusd Nullable(Int128) COMMENT 'what silent time costs, __unobserved__; null: no price [nUSD]'
)
AS WITH
    (
        SELECT least(max(n.window_ms), intDiv({to_ms:Int64} + 59999, 60000) * 60000) FROM gpu_samples_rollup_1m AS n
        WHERE n.window_ms >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 - 86400000 AND n.window_ms <= intDiv({to_ms:Int64} + 59999, 60000) * 60000 + 86400000
    ) AS stop,
    (
        SELECT (max(n.window_ms) + 3600000, groupUniqArray(intDiv(n.window_ms, 3600000)))
        FROM gpu_history_1h AS n
        WHERE n.grouping = 'gpu' AND n.window_ms >= intDiv({from_ms:Int64} - 86400000, 3600000) * 3600000 AND n.window_ms < intDiv({to_ms:Int64} + 59999, 60000) * 60000
    ) AS rolled,
    greatest(intDiv({from_ms:Int64} - 86400000, 3600000) * 3600000, least(rolled.1, intDiv(assumeNotNull(stop), 3600000) * 3600000)) AS edge,
    arrayFilter(hour -> NOT has(rolled.2, hour),
        range(intDiv(intDiv({from_ms:Int64} - 86400000, 3600000) * 3600000, 3600000), intDiv(edge, 3600000))) AS lacking,
    readings AS (
        SELECT ifNull(g.parent_uuid, g.gpu_uuid) AS gpu, g.gpu_uuid AS device, max(g.window_ms) AS of_ms, of_ms AS first, argMax((ifNull(g.cluster, ''), ifNull(g.region, ''), ifNull(g.gpu_model, ''), ifNull(g.host, '')), g.last_at_ms) AS labels,
            max(g.last_at_ms) AS newest_ms, toInt64(ifNull(sum(g.interval_ms_sum), 0)) AS covered
        FROM gpu_history_1h AS g FINAL
        WHERE g.grouping = 'gpu' AND g.window_ms >= intDiv({from_ms:Int64} - 86400000, 3600000) * 3600000 AND g.window_ms < edge
        GROUP BY gpu, device, if(g.window_ms <= intDiv({from_ms:Int64} + 59999, 60000) * 60000 - 3600000, 0, g.window_ms)
        UNION ALL
        SELECT ifNull(g.parent_uuid, g.gpu_uuid) AS gpu, g.gpu_uuid AS device, intDiv(g.window_ms, 3600000) * 3600000, min(g.window_ms), argMax((ifNull(g.cluster, ''), ifNull(g.region, ''), ifNull(g.gpu_model, ''), ifNull(g.host, '')), g.last_at_ms),
            max(g.last_at_ms), toInt64(ifNull(sum(g.interval_ms_sum), 0))
        FROM gpu_samples_rollup_1m AS g FINAL
        WHERE g.grouping = 'gpu' AND g.window_ms < stop
            AND (g.window_ms >= edge
                OR intDiv(g.window_ms, 3600000) IN (SELECT arrayJoin(lacking)))
        GROUP BY gpu, device, intDiv(g.window_ms, 3600000)
    ),
    judged AS (
        SELECT *, least(of_ms + 3600000, stop) AS until,
            (until <= intDiv({from_ms:Int64} + 59999, 60000) * 60000 OR covered >= until - of_ms - 10000) AS whole
        FROM readings
    ),
    seen AS (
        SELECT gpu, intDiv(of_ms, 3600000) AS of_hour, argMax(labels, newest_ms) AS of_labels,
            min(first) AS first, max(last) AS last, max(reported) AS reported
        FROM (
            SELECT gpu, of_ms, labels, newest_ms, first,
                if(until <= intDiv({from_ms:Int64} + 59999, 60000) * 60000, intDiv(newest_ms, 60000) * 60000 + 60000, until) AS last,
                greatest(until - greatest(of_ms, intDiv({from_ms:Int64} + 59999, 60000) * 60000), 0) AS reported
            FROM judged
            WHERE whole
            UNION ALL
            SELECT m.gpu, intDiv(m.at, 3600000) * 3600000 AS of_ms, argMax(m.labels, m.at), max(m.newest_ms),
                min(m.at), max(m.at) + 60000, sumIf(60000 - m.tail, m.at >= intDiv({from_ms:Int64} + 59999, 60000) * 60000)
            FROM (
                SELECT
                    ifNull(g.parent_uuid, g.gpu_uuid) AS gpu, g.window_ms AS at,
                    argMax((ifNull(g.cluster, ''), ifNull(g.region, ''), ifNull(g.gpu_model, ''), ifNull(g.host, '')), g.last_at_ms) AS labels, max(g.last_at_ms) AS newest_ms,
                    newest_ms - at AS into_ms,
                    toInt64(ifNull(sum(g.interval_ms_sum), 0)) AS covered,
                    if(into_ms < 50000,
                        least(60000 - into_ms, greatest(60000 - covered, 0)), 0) AS tail
                FROM gpu_history_1m AS g FINAL
                WHERE g.grouping = 'gpu' AND g.window_ms < stop
                    AND (g.gpu_uuid, intDiv(g.window_ms, 3600000) * 3600000) IN (
                        SELECT device, of_ms FROM judged WHERE NOT whole
                    )
                GROUP BY gpu, at
            ) AS m
            GROUP BY gpu, of_ms
        )
        GROUP BY gpu, of_ms
    ),
    spans AS (
        SELECT *, leadInFrame(first, 1, toInt64(0)) OVER (PARTITION BY gpu ORDER BY of_hour ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS again,
            if(again = 0 OR again - last > 86400000, last + 86400000, again) AS kept_until,
            least(kept_until, stop) AS until
        FROM seen
    ),
    hours AS (
        SELECT s.gpu AS gpu, s.of_labels AS labels, each_hour * 3600000 AS of_ms,
            sum(greatest(least(s.until, of_ms + 3600000) - greatest(s.first, of_ms, intDiv({from_ms:Int64} + 59999, 60000) * 60000), 0)) AS inventory,
            sum(if(each_hour = s.of_hour, toInt64(s.reported), 0)) AS reporting
        FROM spans AS s
        ARRAY JOIN arrayMap(n -> toInt64(n),
            range(toUInt64(s.of_hour), toUInt64(intDiv(s.until - 1, 3600000)) + 1)) AS each_hour
        GROUP BY gpu, labels, of_ms
        HAVING inventory > 0
    ),
    (
        SELECT groupUniqArray((level, window_ms))
        FROM
        (
            SELECT level, window_ms FROM dirty_windows WHERE topic = 'costs'
            GROUP BY level, window_ms, writer HAVING max(noted) > max(done)
        )
    ) AS pending,
    (
        SELECT groupUniqArray(intDiv(window_ms, 3600000))
        FROM token_costs_rollup_1h FINAL
        WHERE detail = 1 AND window_ms + 7200000 <= toUnixTimestamp64Milli(now64(3))
            AND window_ms NOT IN (SELECT arrayJoin(arrayMap(one -> intDiv(one.2, 3600000) * 3600000, arrayFilter(one -> one.1 IN ('1m', '1h'), pending))))
            AND window_ms >= intDiv({from_ms:Int64} - 86400000, 3600000) * 3600000 - 3600000 AND window_ms < intDiv({to_ms:Int64} + 59999, 60000) * 60000
    ) AS summed_hours,
    arrayFirst(hour -> NOT has(summed_hours, hour),
        range(intDiv(intDiv({from_ms:Int64} - 86400000, 3600000) * 3600000, 3600000) - 1, intDiv(intDiv({to_ms:Int64} + 59999, 60000) * 60000, 3600000) + 2)) * 3600000 AS first_bill,
    billed AS (
        SELECT of_ms, host, region, gpu_model, sum(gpu_ms) AS billed
        FROM (
            SELECT c.window_ms AS of_ms, ifNull(each_host, '') AS host, ifNull(each_region, '') AS region, ifNull(each_gpu_model, '') AS gpu_model, ifNull(each_gpu_ms, 0) AS gpu_ms
            FROM token_costs_rollup_1h AS c FINAL ARRAY JOIN c.owner_host AS each_host, c.owner_region AS each_region, c.owner_gpu_model AS each_gpu_model, c.owner_gpu_ms AS each_gpu_ms
            WHERE has(summed_hours, intDiv(c.window_ms, 3600000)) AND intDiv(c.window_ms, 3600000) * 3600000 >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND intDiv(c.window_ms, 3600000) * 3600000 + 3600000 <= stop
            UNION ALL
            SELECT intDiv(c.minute_ms, 3600000) * 3600000, ifNull(c.host, ''), ifNull(c.region, ''), ifNull(c.gpu_model, ''), c.gpu_ms
            FROM costs AS c
            WHERE c.minute_ms >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND c.minute_ms < stop AND NOT (has(summed_hours, intDiv(c.minute_ms, 3600000)) AND intDiv(c.minute_ms, 3600000) * 3600000 >= intDiv({from_ms:Int64} + 59999, 60000) * 60000 AND intDiv(c.minute_ms, 3600000) * 3600000 + 3600000 <= stop)
                AND (c.minute_ms < intDiv({from_ms:Int64} + 59999, 60000) * 60000 + 3600000 OR c.minute_ms >= first_bill OR c.minute_ms >= stop - 3600000)
        )
        GROUP BY of_ms, host, region, gpu_model
    ),
    rates AS (
        SELECT of_ms, region, gpu_model, sum(toInt128(part_nusd)) AS nusd, sum(gpu_ms) AS billed,
            toInt128(intDiv(nusd * 3600000 + intDiv(billed, 2), nullIf(billed, 0))) AS rate
        FROM (
            SELECT c.window_ms AS of_ms, ifNull(each_region, '') AS region, ifNull(each_gpu_model, '') AS gpu_model, toInt128(each_gpu_nusd) + ifNull(each_host_nusd, 0) AS part_nusd,
                ifNull(each_gpu_ms, 0) AS gpu_ms
            FROM token_costs_rollup_1h AS c FINAL ARRAY JOIN c.bill_region AS each_region, c.bill_gpu_model AS each_gpu_model, c.bill_gpu_nusd AS each_gpu_nusd, c.bill_host_nusd AS each_host_nusd, c.bill_gpu_ms AS each_gpu_ms, c.bill_unpriced_gpu_ms AS each_unpriced_gpu_ms
            WHERE has(summed_hours, intDiv(c.window_ms, 3600000))
                AND each_gpu_nusd IS NOT NULL AND each_unpriced_gpu_ms = 0
            UNION ALL
            SELECT intDiv(c.minute_ms, 3600000) * 3600000, ifNull(c.region, ''), ifNull(c.gpu_model, ''),
                toInt128(c.gpu_nusd) + ifNull(c.host_nusd, 0), c.gpu_ms
            FROM costs AS c
            WHERE c.minute_ms >= first_bill AND c.minute_ms < intDiv({to_ms:Int64} + 59999, 60000) * 60000 + 3600000 AND NOT has(summed_hours, intDiv(c.minute_ms, 3600000))
                AND c.gpu_nusd IS NOT NULL AND c.unpriced_gpu_ms = 0
        )
        GROUP BY of_ms, region, gpu_model
    )
SELECT
    toDateTime(intDiv(a.of_ms, 1000), 'UTC') AS hour,
    a.of_ms AS hour_ms,
    a.cluster AS cluster,
    a.region AS region,
    a.gpu_model AS gpu_model,
    a.gpus AS gpus,
    a.silent_gpus AS silent_gpus,
    a.inventory AS inventory_gpu_ms,
    a.reporting AS reporting_gpu_ms,
    a.billed AS billed_gpu_ms,
    a.silent AS silent_gpu_ms,
    r.rate AS nusd_per_gpu_hour,
    if(a.silent = 0, 0, intDiv(toInt128(a.silent) * r.rate + 1800000, 3600000)) AS unobserved_nusd
FROM (
    SELECT of_ms, cluster, region, gpu_model, sum(n) AS gpus, sum(quiet) AS silent_gpus, sum(inventory_ms) AS inventory,
        sum(reporting_ms) AS reporting, sum(billed_ms) AS billed, sum(inventory_ms - reporting_ms) AS silent
    FROM (
        SELECT *, if(n = 0, max(of_cluster) OVER (PARTITION BY host), of_cluster) AS cluster
        FROM (
            SELECT of_ms, labels.1 AS of_cluster, labels.2 AS region, labels.3 AS gpu_model, labels.4 AS host,
                count() AS n, countIf(inventory > reporting) AS quiet, sum(inventory) AS inventory_ms,
                sum(reporting) AS reporting_ms, toInt64(0) AS billed_ms
            FROM hours
            GROUP BY of_ms, labels
            UNION ALL
            SELECT of_ms, '', region, gpu_model, host, 0, 0, 0, 0, billed FROM billed
        )
    )
    GROUP BY of_ms, cluster, region, gpu_model
) AS a
ASOF LEFT JOIN rates AS r ON a.gpu_model = r.gpu_model AND a.region = r.region AND a.of_ms >= r.of_ms
COMMENT 'GPUs that reported, were billed, were silent, by hour';
