-- Written by `make migration`. Read it, change it where you know better, and commit it.

ALTER TABLE books
    MODIFY COLUMN verdict UInt64 CODEC(ZSTD(1)) COMMENT '0 accepted, 1 late, 2 future, 3 rejected, 4 duplicate';

ALTER TABLE rejected
    MODIFY COLUMN reason LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'why, one of docs/reference/reasons.md';

ALTER TABLE alerts
    MODIFY COLUMN since_ms Int64 CODEC(ZSTD(1)) COMMENT 'when what it is about began [ms]',
    MODIFY COLUMN record String CODEC(ZSTD(1)) COMMENT 'the whole record as JSON';

ALTER TABLE books_rollup_1m
    MODIFY COLUMN verdict UInt64 CODEC(ZSTD(1)) COMMENT '0 accepted, 1 late, 2 future, 3 rejected, 4 duplicate';

ALTER TABLE books_rollup_1h
    MODIFY COLUMN verdict UInt64 CODEC(ZSTD(1)) COMMENT '0 accepted, 1 late, 2 future, 3 rejected, 4 duplicate';

ALTER TABLE books_rollup_1d
    MODIFY COLUMN verdict UInt64 CODEC(ZSTD(1)) COMMENT '0 accepted, 1 late, 2 future, 3 rejected, 4 duplicate';

ALTER TABLE dirty_windows
    MODIFY COLUMN writer String COMMENT 'process that noted it, new at every start';

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
    memory_used_bytes Nullable(Int64) COMMENT 'latest: memory in use, reserved excluded [bytes]',
    memory_total_bytes Nullable(Int64) COMMENT 'latest: physical memory [bytes]',
    host_cpu_busy_ppm Nullable(Int64) COMMENT 'latest: share of all processors\' time not idle [ppm]',
    host_cpu_iowait_ppm Nullable(Int64) COMMENT 'latest: share of all processors\' time waiting for disks [ppm]',
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
    g.memory_used_bytes AS memory_used_bytes,
    g.memory_total_bytes AS memory_total_bytes,
    h.cpu_busy_ppm AS host_cpu_busy_ppm,
    h.cpu_iowait_ppm AS host_cpu_iowait_ppm,
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
        tupleElement(argMax(tuple(p.memory_used_bytes_last), (p.last_at_ms, ifNull(p.memory_used_bytes_last, -9223372036854775807))), 1) AS memory_used_bytes,
        tupleElement(argMax(tuple(p.memory_total_bytes_last), (p.last_at_ms, ifNull(p.memory_total_bytes_last, -9223372036854775807))), 1) AS memory_total_bytes
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

CREATE OR REPLACE VIEW alert_history
(
    at DateTime64(3, 'UTC') COMMENT 'when the transition happened, event time',
    opened DateTime64(3, 'UTC') COMMENT 'when the alert was opened',
    since DateTime64(3, 'UTC') COMMENT 'when what it is about began',
    resolved Nullable(DateTime64(3, 'UTC')) COMMENT 'when it was resolved; null while open',
    at_ms Int64 COMMENT 'when the transition happened, event time, UTC [ms]',
    opened_ms Int64 COMMENT 'when the alert was opened [ms]',
    since_ms Int64 COMMENT 'when what it is about began [ms]',
    resolved_ms Nullable(Int64) COMMENT 'when it was resolved; null while open [ms]',
    fingerprint LowCardinality(String) COMMENT 'id of the alert: 16 hex digits',
    number UInt64 COMMENT 'of this transition within the alert: 1 opens it',
    transition LowCardinality(Nullable(String)) COMMENT 'opened, updated or resolved',
    rule LowCardinality(Nullable(String)) COMMENT 'rule of the headline',
    severity LowCardinality(Nullable(String)) COMMENT 'the worst so far',
    summary String COMMENT 'one sentence for people',
    value Nullable(Float64) COMMENT 'what was measured',
    baseline Nullable(Float64) COMMENT 'what was to be expected',
    low Nullable(Float64) COMMENT 'lower end of the expected range',
    high Nullable(Float64) COMMENT 'upper end of the expected range',
    unit String COMMENT 'unit of the four',
    count Int64 COMMENT 'events behind the value',
    labels Map(String, String) COMMENT 'what it is about',
    note String COMMENT 'a likely cause in words',
    advice String COMMENT 'what to do',
    muted_until_ms Nullable(Int64) COMMENT 'no notification before this [ms]',
    transition_id String COMMENT 'the same in every run over the same input',
    members UInt64 COMMENT 'other things the same cause did',
    evidence String COMMENT 'what it was concluded from, as JSON'
)
AS SELECT
    fromUnixTimestamp64Milli(a.at_ms, 'UTC') AS at,
    fromUnixTimestamp64Milli(a.opened_ms, 'UTC') AS opened,
    fromUnixTimestamp64Milli(a.since_ms, 'UTC') AS since,
    if(a.resolved_ms IS NULL, NULL, fromUnixTimestamp64Milli(assumeNotNull(a.resolved_ms), 'UTC')) AS resolved,
    a.at_ms AS at_ms,
    a.opened_ms AS opened_ms,
    a.since_ms AS since_ms,
    a.resolved_ms AS resolved_ms,
    a.fingerprint AS fingerprint,
    a.number AS number,
    a.transition AS transition,
    a.rule AS rule,
    a.severity AS severity,
    a.summary AS summary,
    JSONExtract(a.record, 'value', 'Nullable(Float64)') AS value,
    JSONExtract(a.record, 'baseline', 'Nullable(Float64)') AS baseline,
    JSONExtract(a.record, 'low', 'Nullable(Float64)') AS low,
    JSONExtract(a.record, 'high', 'Nullable(Float64)') AS high,
    JSONExtract(a.record, 'unit', 'String') AS unit,
    JSONExtract(a.record, 'count', 'Int64') AS count,
    JSONExtract(a.record, 'labels', 'Map(String, String)') AS labels,
    JSONExtract(a.record, 'note', 'String') AS note,
    JSONExtract(a.record, 'advice', 'String') AS advice,
    JSONExtract(a.record, 'muted_until_ms', 'Nullable(Int64)') AS muted_until_ms,
    JSONExtract(a.record, 'transition_id', 'String') AS transition_id,
    JSONLength(a.record, 'members') AS members,
    JSONExtractRaw(a.record, 'evidence') AS evidence
FROM (
    SELECT *
    FROM alerts FINAL
    ORDER BY log_offset DESC
    LIMIT 1 BY fingerprint, opened_ms, number
) AS a
COMMENT 'every transition of every alert, with the fields of its record';

CREATE OR REPLACE VIEW cost_late
(
    minute DateTime('UTC') COMMENT 'start of the minute, event time',
    placement_group String COMMENT 'engines that share any GPU; else the host',
    newest_offset UInt64 COMMENT 'offset of the last row that no bill holds',
    billed_offset UInt64 COMMENT 'offset of the last row that a bill holds'
)
AS SELECT
    toDateTime(intDiv(c.minute_ms, 1000), 'UTC') AS minute,
    c.placement_group AS placement_group,
    max(r.newest) AS newest_offset,
    max(c.billed) AS billed_offset
FROM (
    SELECT intDiv(window_ms, 60000) * 60000 AS of_ms, ifNull(coalesce(placement_group, host), '') AS of_group, max(log_offset) AS newest
    FROM usage FINAL GROUP BY of_ms, of_group
    UNION ALL
    SELECT intDiv(window_ms, 60000) * 60000 AS of_ms, ifNull(coalesce(placement_group, host), '') AS of_group, max(log_offset) AS newest
    FROM gpu_shares FINAL GROUP BY of_ms, of_group
    UNION ALL
    SELECT intDiv(window_ms, 60000) * 60000 AS of_ms, ifNull(coalesce(placement_group, host), '') AS of_group, max(log_offset) AS newest
    FROM gpu_samples_partials FINAL GROUP BY of_ms, of_group
) AS r
INNER JOIN (
    SELECT minute_ms, placement_group, max(revision) AS billed, min(final) AS is_final
    FROM token_costs FINAL GROUP BY minute_ms, placement_group
) AS c ON r.of_ms = c.minute_ms AND r.of_group = c.placement_group
WHERE c.is_final = 1 AND r.newest > c.billed
GROUP BY c.minute_ms, c.placement_group
COMMENT 'final minutes with rows that came too late for their bill: rerate them';
