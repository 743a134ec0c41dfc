CREATE TABLE IF NOT EXISTS llm_requests
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'end of the request: last byte, or the moment it failed [ms]',
    ttft_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'received to first token that carries content [us]',
    tpot_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT '(last - first token) / (output tokens - 1); null below two tokens [us]',
    e2e_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'received to last byte [us]',
    queue_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'received to scheduled by the engine [us]',
    ttfo_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'received to first non-reasoning token [us]',
    prefill_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'scheduled to first token [us]',
    decode_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'first to last token [us]',
    input_tokens Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'prompt tokens, cached ones included [tokens]',
    cached_tokens Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'prompt tokens served from the prefix cache [tokens]',
    output_tokens Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'generated tokens, reasoning included [tokens]',
    reasoning_tokens Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'reasoning tokens inside the output [tokens]',
    http_status Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'HTTP status answered to the client',
    chunks Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'pieces of the stream that carried content',
    icl_max_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'longest gap between two such pieces [us]',
    tool_calls Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'tools the model asked for',
    choices Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'answers asked for',
    speculative_tokens Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'accepted draft tokens inside the output [tokens]',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'weight precision, such as fp8',
    tenant LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'who asked',
    slo_class LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'service class whose objectives apply',
    status LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'how the request ended',
    error_kind LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'why it failed; null when it did not',
    finish_reason LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'why generation stopped',
    start LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cold when the engine had to load the model for it',
    origin LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    api LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'which interface was called',
    tokens_from LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'who told the tokens: the engine, or whoever counted',
    itl_bins Map(Int16, UInt64) CODEC(ZSTD(1)) COMMENT 'sketch of inter-token gaps inside the request [us]',
    request_id String CODEC(ZSTD(1)) COMMENT 'id of the request, unique in the deployment',
    trace_id Nullable(String) CODEC(ZSTD(1)) COMMENT 'W3C trace id, 32 hex digits',
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
ENGINE = ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
TTL toDateTime(intDiv(appended_ms, 1000)) + INTERVAL 604800 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'raw: one terminal event per LLM request, at its end; read with FINAL';

CREATE TABLE IF NOT EXISTS gpu_samples
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'moment of the reading [ms]',
    util_gpu_pct Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of time a kernel ran [%]',
    util_memory_pct Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of time memory was read or written [%]',
    power_mw Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'power draw [mW]',
    power_limit_mw Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'enforced power limit [mW]',
    temperature_c Nullable(Int32) CODEC(ZSTD(1)) COMMENT 'core temperature [C]',
    temperature_memory_c Nullable(Int32) CODEC(ZSTD(1)) COMMENT 'memory temperature [C]',
    clock_sm_mhz Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'SM clock [MHz]',
    clock_memory_mhz Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'memory clock [MHz]',
    sm_active_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of SMs with a resident warp [ppm]',
    tensor_active_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of cycles the tensor cores worked [ppm]',
    memory_used_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'memory in use, reserved excluded [bytes]',
    memory_total_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'physical memory [bytes]',
    interval_ms Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'time the differences of this sample cover [ms]',
    energy_mj Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'energy since the previous reading [mJ]',
    throttled_us Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'time clocks were held down by power or heat [us]',
    pcie_tx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'sent over PCIe [bytes]',
    pcie_rx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'received over PCIe [bytes]',
    nvlink_tx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'sent over NVLink [bytes]',
    nvlink_rx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'received over NVLink [bytes]',
    clock_reasons Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'why clocks are not higher [bits]',
    power_instant_mw Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'power draw at this instant [mW]',
    memory_reserved_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'memory the driver keeps [bytes]',
    temperature_margin_c Nullable(Int32) CODEC(ZSTD(1)) COMMENT 'degrees left until heat slows it down [C]',
    sm_occupancy_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'resident warps of those that fit [ppm]',
    dram_active_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of the memory bandwidth in use [ppm]',
    util_encoder_pct Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'video encoder at work [%]',
    util_decoder_pct Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'video decoder at work [%]',
    performance_state Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'P-state, 0 is fastest',
    throttled_power_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'time power held clocks down since the previous reading [us]',
    throttled_thermal_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'time heat held clocks down since the previous reading [us]',
    pcie_replays Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'PCIe replays since the previous reading',
    nvlink_errors Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'NVLink errors since the previous reading',
    ecc_corrected Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'memory errors corrected since the previous reading',
    ecc_uncorrected Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'memory errors not corrected since the previous reading',
    remapped_rows Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'memory rows replaced so far',
    remapped_rows_pending Nullable(UInt32) CODEC(ZSTD(1)) COMMENT '1: a row waits for a reset',
    recovery_action Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'what the driver asks for; 0 is nothing',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'product name',
    workload LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what the GPU is used for',
    origin LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    parent_uuid LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU that this MIG device is a part of',
    mig_profile LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'size of the MIG device, such as 1g.10gb',
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
ENGINE = ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
TTL toDateTime(intDiv(appended_ms, 1000)) + INTERVAL 604800 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'raw: one reading of one GPU, once a second by default; read with FINAL';

CREATE TABLE IF NOT EXISTS gpu_events
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'moment it was noticed [ms]',
    code Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'XID or recovery code',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU or MIG device',
    gpu_model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'product name',
    kind LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what kind of event',
    severity LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'how bad',
    origin LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    action LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what to do about it',
    message Nullable(String) CODEC(ZSTD(1)) COMMENT 'what the driver or the agent said, and what it means',
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
ENGINE = ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
TTL toDateTime(intDiv(appended_ms, 1000)) + INTERVAL 604800 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'raw: something happened to a GPU at a moment: XID, ECC error, recovery action, lost, found; read with FINAL';

CREATE TABLE IF NOT EXISTS host_samples
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'moment of the reading [ms]',
    cpu_busy_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of all processors\' time not idle [ppm]',
    cpu_iowait_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of all processors\' time waiting for disks [ppm]',
    load_1m_milli Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'load average over one minute [1/1000]',
    processors Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'logical processors',
    memory_used_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'total minus available [bytes]',
    memory_total_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'physical memory [bytes]',
    swap_used_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'swap in use [bytes]',
    disk_queue_milli Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'mean requests in flight, all disks (weighted busy time / interval) [1/1000]',
    cpu_pressure_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of the interval in which some task waited for a processor [ppm]',
    memory_pressure_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of the interval in which some task waited for memory [ppm]',
    memory_full_pressure_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of the interval in which all tasks waited for memory [ppm]',
    io_pressure_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of the interval in which some task waited for a disk [ppm]',
    agent_collect_us Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'processor time of one round of the agent\'s collectors [us]',
    interval_ms Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'time the differences of this sample cover [ms]',
    network_tx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'sent, all interfaces but loopback [bytes]',
    network_rx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'received, all interfaces but loopback [bytes]',
    network_errors Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'errors and drops, both ways',
    disk_read_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'read from disks [bytes]',
    disk_write_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'written to disks [bytes]',
    disk_busy_ms Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'time disks were busy, summed [ms]',
    swap_in_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'read back from swap [bytes]',
    swap_out_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'written to swap [bytes]',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
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
ENGINE = ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
TTL toDateTime(intDiv(appended_ms, 1000)) + INTERVAL 604800 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'raw: one reading of one host, once a second by default; read with FINAL';

CREATE TABLE IF NOT EXISTS engine_samples
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'moment of the reading [ms]',
    running Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'requests being computed [requests]',
    waiting Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'requests in the queue [requests]',
    kv_used_ppm Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of KV cache blocks in use [ppm]',
    interval_ms Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'time the differences of this sample cover [ms]',
    preemptions Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'requests thrown out of the batch for lack of KV cache',
    prompt_tokens Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'prompt tokens computed or found in cache [tokens]',
    prefix_hit_tokens Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'prompt tokens found in cache [tokens]',
    generation_tokens Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'tokens generated [tokens]',
    finished_requests Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'requests that ended [requests]',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'weight precision, such as fp8',
    engine_kind LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'software: vllm, sglang, tgi, trtllm, llamacpp, simulated',
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
ENGINE = ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
TTL toDateTime(intDiv(appended_ms, 1000)) + INTERVAL 604800 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'raw: one reading of one serving engine, once a second by default; read with FINAL';

CREATE TABLE IF NOT EXISTS gpu_processes
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'moment of the reading [ms]',
    pid Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'process id as the host sees it',
    memory_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'GPU memory it holds [bytes]',
    sm_util_pct Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'share of time its kernels ran [%]',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    gpu_uuid LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'UUID of the GPU or MIG device',
    process_name LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'name of the program',
    container_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'container it runs in',
    pod_uid LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'Kubernetes pod it runs in',
    workload LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what the process does',
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
ENGINE = ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
TTL toDateTime(intDiv(appended_ms, 1000)) + INTERVAL 604800 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'raw: one process on one GPU as seen at a moment, every ten seconds by default; read with FINAL';

CREATE TABLE IF NOT EXISTS host_devices
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'moment of the reading [ms]',
    interval_ms Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'time that the amounts of this reading cover [ms]',
    tx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'sent by the interface [bytes]',
    rx_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'received by the interface [bytes]',
    errors Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'errors and drops of the interface, both ways',
    read_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'read from the disk [bytes]',
    write_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'written to the disk [bytes]',
    busy_ms Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'time the disk was busy [ms]',
    used_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'used of the disk or of the node\'s memory [bytes]',
    total_bytes Nullable(UInt64) CODEC(ZSTD(1)) COMMENT 'size of the disk or of the node\'s memory [bytes]',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    device LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name of the device, such as eth0',
    device_kind LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what it is',
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
ENGINE = ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
TTL toDateTime(intDiv(appended_ms, 1000)) + INTERVAL 604800 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'raw: one reading of one network interface, disk or NUMA node, every ten seconds by default; read with FINAL';

CREATE TABLE IF NOT EXISTS engine_events
(
    at_ms Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'moment it was noticed [ms]',
    context_tokens_max Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'longest context it serves [tokens]',
    tensor_parallel Nullable(UInt32) CODEC(ZSTD(1)) COMMENT 'GPUs that one copy of the model is spread over',
    cluster LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'cluster the host belongs to',
    region LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'region of the cluster',
    host LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host name of the edge that measured',
    engine_id LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'serving engine, unique in the deployment',
    placement_group LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'engines that share any GPU; else the host',
    model LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'model name as served',
    model_version LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'revision or digest of the weights',
    precision LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'weight precision, such as fp8',
    engine_kind LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'software: vllm, sglang, tgi, trtllm, llamacpp, simulated',
    engine_version LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'its version',
    kind LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'what happened',
    origin LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'measured on real equipment or simulated',
    gpu_uuids Nullable(String) CODEC(ZSTD(1)) COMMENT 'UUIDs of its GPUs, separated by commas',
    message Nullable(String) CODEC(ZSTD(1)) COMMENT 'what changed, or what the mark says',
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
ENGINE = ReplacingMergeTree(first)
PARTITION BY intDiv(at_ms, 86400000) % 32
ORDER BY (intDiv(at_ms, 60000), source, boot, seq, row)
TTL toDateTime(intDiv(appended_ms, 1000)) + INTERVAL 604800 SECOND
SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0
COMMENT 'raw: a serving engine was registered, changed, lost, found again, or marked by someone; read with FINAL';
