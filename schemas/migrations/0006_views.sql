CREATE OR REPLACE VIEW request_windows AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *,
    fp_quantile(0.5, ttft_us_bins) AS ttft_us_p50,
    fp_quantile(0.9, ttft_us_bins) AS ttft_us_p90,
    fp_quantile(0.95, ttft_us_bins) AS ttft_us_p95,
    fp_quantile(0.99, ttft_us_bins) AS ttft_us_p99,
    fp_quantile(0.5, tpot_us_bins) AS tpot_us_p50,
    fp_quantile(0.9, tpot_us_bins) AS tpot_us_p90,
    fp_quantile(0.95, tpot_us_bins) AS tpot_us_p95,
    fp_quantile(0.99, tpot_us_bins) AS tpot_us_p99,
    fp_quantile(0.5, e2e_us_bins) AS e2e_us_p50,
    fp_quantile(0.9, e2e_us_bins) AS e2e_us_p90,
    fp_quantile(0.95, e2e_us_bins) AS e2e_us_p95,
    fp_quantile(0.99, e2e_us_bins) AS e2e_us_p99,
    fp_quantile(0.5, queue_us_bins) AS queue_us_p50,
    fp_quantile(0.9, queue_us_bins) AS queue_us_p90,
    fp_quantile(0.95, queue_us_bins) AS queue_us_p95,
    fp_quantile(0.99, queue_us_bins) AS queue_us_p99,
    fp_quantile(0.5, itl_bins) AS itl_p50,
    fp_quantile(0.9, itl_bins) AS itl_p90,
    fp_quantile(0.95, itl_bins) AS itl_p95,
    fp_quantile(0.99, itl_bins) AS itl_p99
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.model, p.model_version, p.tenant, p.slo_class, p.input_bucket, p.status, p.error_kind, p.start, p.origin,
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
        sumMap(p.ttft_us_bins) AS ttft_us_bins,
        sumMap(p.tpot_us_bins) AS tpot_us_bins,
        sumMap(p.e2e_us_bins) AS e2e_us_bins,
        sumMap(p.queue_us_bins) AS queue_us_bins,
        sumMap(p.itl_bins) AS itl_bins
    FROM llm_requests_partials AS p FINAL
    WHERE p.grouping = 'service'
    GROUP BY p.window_ms, p.cluster, p.region, p.model, p.model_version, p.tenant, p.slo_class, p.input_bucket, p.status, p.error_kind, p.start, p.origin
)
COMMENT 'windows of 10 s by the dimensions of grouping set service';

CREATE OR REPLACE VIEW request_windows_1m AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *,
    fp_quantile(0.5, ttft_us_bins) AS ttft_us_p50,
    fp_quantile(0.9, ttft_us_bins) AS ttft_us_p90,
    fp_quantile(0.95, ttft_us_bins) AS ttft_us_p95,
    fp_quantile(0.99, ttft_us_bins) AS ttft_us_p99,
    fp_quantile(0.5, tpot_us_bins) AS tpot_us_p50,
    fp_quantile(0.9, tpot_us_bins) AS tpot_us_p90,
    fp_quantile(0.95, tpot_us_bins) AS tpot_us_p95,
    fp_quantile(0.99, tpot_us_bins) AS tpot_us_p99,
    fp_quantile(0.5, e2e_us_bins) AS e2e_us_p50,
    fp_quantile(0.9, e2e_us_bins) AS e2e_us_p90,
    fp_quantile(0.95, e2e_us_bins) AS e2e_us_p95,
    fp_quantile(0.99, e2e_us_bins) AS e2e_us_p99,
    fp_quantile(0.5, queue_us_bins) AS queue_us_p50,
    fp_quantile(0.9, queue_us_bins) AS queue_us_p90,
    fp_quantile(0.95, queue_us_bins) AS queue_us_p95,
    fp_quantile(0.99, queue_us_bins) AS queue_us_p99,
    fp_quantile(0.5, itl_bins) AS itl_p50,
    fp_quantile(0.9, itl_bins) AS itl_p90,
    fp_quantile(0.95, itl_bins) AS itl_p95,
    fp_quantile(0.99, itl_bins) AS itl_p99
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.model, p.model_version, p.tenant, p.slo_class, p.input_bucket, p.status, p.error_kind, p.start, p.origin,
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
        sumMap(p.ttft_us_bins) AS ttft_us_bins,
        sumMap(p.tpot_us_bins) AS tpot_us_bins,
        sumMap(p.e2e_us_bins) AS e2e_us_bins,
        sumMap(p.queue_us_bins) AS queue_us_bins,
        sumMap(p.itl_bins) AS itl_bins
    FROM llm_requests_rollup_1m AS p FINAL
    WHERE p.grouping = 'service'
    GROUP BY p.window_ms, p.cluster, p.region, p.model, p.model_version, p.tenant, p.slo_class, p.input_bucket, p.status, p.error_kind, p.start, p.origin
)
COMMENT 'windows of 60 s by the dimensions of grouping set service';

CREATE OR REPLACE VIEW request_windows_1h AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *,
    fp_quantile(0.5, ttft_us_bins) AS ttft_us_p50,
    fp_quantile(0.9, ttft_us_bins) AS ttft_us_p90,
    fp_quantile(0.95, ttft_us_bins) AS ttft_us_p95,
    fp_quantile(0.99, ttft_us_bins) AS ttft_us_p99,
    fp_quantile(0.5, tpot_us_bins) AS tpot_us_p50,
    fp_quantile(0.9, tpot_us_bins) AS tpot_us_p90,
    fp_quantile(0.95, tpot_us_bins) AS tpot_us_p95,
    fp_quantile(0.99, tpot_us_bins) AS tpot_us_p99,
    fp_quantile(0.5, e2e_us_bins) AS e2e_us_p50,
    fp_quantile(0.9, e2e_us_bins) AS e2e_us_p90,
    fp_quantile(0.95, e2e_us_bins) AS e2e_us_p95,
    fp_quantile(0.99, e2e_us_bins) AS e2e_us_p99,
    fp_quantile(0.5, queue_us_bins) AS queue_us_p50,
    fp_quantile(0.9, queue_us_bins) AS queue_us_p90,
    fp_quantile(0.95, queue_us_bins) AS queue_us_p95,
    fp_quantile(0.99, queue_us_bins) AS queue_us_p99,
    fp_quantile(0.5, itl_bins) AS itl_p50,
    fp_quantile(0.9, itl_bins) AS itl_p90,
    fp_quantile(0.95, itl_bins) AS itl_p95,
    fp_quantile(0.99, itl_bins) AS itl_p99
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.model, p.model_version, p.tenant, p.slo_class, p.input_bucket, p.status, p.error_kind, p.start, p.origin,
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
        sumMap(p.ttft_us_bins) AS ttft_us_bins,
        sumMap(p.tpot_us_bins) AS tpot_us_bins,
        sumMap(p.e2e_us_bins) AS e2e_us_bins,
        sumMap(p.queue_us_bins) AS queue_us_bins,
        sumMap(p.itl_bins) AS itl_bins
    FROM llm_requests_rollup_1h AS p FINAL
    WHERE p.grouping = 'service'
    GROUP BY p.window_ms, p.cluster, p.region, p.model, p.model_version, p.tenant, p.slo_class, p.input_bucket, p.status, p.error_kind, p.start, p.origin
)
COMMENT 'windows of 3600 s by the dimensions of grouping set service';

CREATE OR REPLACE VIEW engine_request_windows AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *,
    fp_quantile(0.5, ttft_us_bins) AS ttft_us_p50,
    fp_quantile(0.9, ttft_us_bins) AS ttft_us_p90,
    fp_quantile(0.95, ttft_us_bins) AS ttft_us_p95,
    fp_quantile(0.99, ttft_us_bins) AS ttft_us_p99,
    fp_quantile(0.5, tpot_us_bins) AS tpot_us_p50,
    fp_quantile(0.9, tpot_us_bins) AS tpot_us_p90,
    fp_quantile(0.95, tpot_us_bins) AS tpot_us_p95,
    fp_quantile(0.99, tpot_us_bins) AS tpot_us_p99,
    fp_quantile(0.5, e2e_us_bins) AS e2e_us_p50,
    fp_quantile(0.9, e2e_us_bins) AS e2e_us_p90,
    fp_quantile(0.95, e2e_us_bins) AS e2e_us_p95,
    fp_quantile(0.99, e2e_us_bins) AS e2e_us_p99,
    fp_quantile(0.5, queue_us_bins) AS queue_us_p50,
    fp_quantile(0.9, queue_us_bins) AS queue_us_p90,
    fp_quantile(0.95, queue_us_bins) AS queue_us_p95,
    fp_quantile(0.99, queue_us_bins) AS queue_us_p99,
    fp_quantile(0.5, itl_bins) AS itl_p50,
    fp_quantile(0.9, itl_bins) AS itl_p90,
    fp_quantile(0.95, itl_bins) AS itl_p95,
    fp_quantile(0.99, itl_bins) AS itl_p99
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.status, p.error_kind, p.start, p.origin,
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
        sumMap(p.ttft_us_bins) AS ttft_us_bins,
        sumMap(p.tpot_us_bins) AS tpot_us_bins,
        sumMap(p.e2e_us_bins) AS e2e_us_bins,
        sumMap(p.queue_us_bins) AS queue_us_bins,
        sumMap(p.itl_bins) AS itl_bins
    FROM llm_requests_partials AS p FINAL
    WHERE p.grouping = 'engine'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.status, p.error_kind, p.start, p.origin
)
COMMENT 'windows of 10 s by the dimensions of grouping set engine';

CREATE OR REPLACE VIEW engine_request_windows_1m AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *,
    fp_quantile(0.5, ttft_us_bins) AS ttft_us_p50,
    fp_quantile(0.9, ttft_us_bins) AS ttft_us_p90,
    fp_quantile(0.95, ttft_us_bins) AS ttft_us_p95,
    fp_quantile(0.99, ttft_us_bins) AS ttft_us_p99,
    fp_quantile(0.5, tpot_us_bins) AS tpot_us_p50,
    fp_quantile(0.9, tpot_us_bins) AS tpot_us_p90,
    fp_quantile(0.95, tpot_us_bins) AS tpot_us_p95,
    fp_quantile(0.99, tpot_us_bins) AS tpot_us_p99,
    fp_quantile(0.5, e2e_us_bins) AS e2e_us_p50,
    fp_quantile(0.9, e2e_us_bins) AS e2e_us_p90,
    fp_quantile(0.95, e2e_us_bins) AS e2e_us_p95,
    fp_quantile(0.99, e2e_us_bins) AS e2e_us_p99,
    fp_quantile(0.5, queue_us_bins) AS queue_us_p50,
    fp_quantile(0.9, queue_us_bins) AS queue_us_p90,
    fp_quantile(0.95, queue_us_bins) AS queue_us_p95,
    fp_quantile(0.99, queue_us_bins) AS queue_us_p99,
    fp_quantile(0.5, itl_bins) AS itl_p50,
    fp_quantile(0.9, itl_bins) AS itl_p90,
    fp_quantile(0.95, itl_bins) AS itl_p95,
    fp_quantile(0.99, itl_bins) AS itl_p99
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.status, p.error_kind, p.start, p.origin,
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
        sumMap(p.ttft_us_bins) AS ttft_us_bins,
        sumMap(p.tpot_us_bins) AS tpot_us_bins,
        sumMap(p.e2e_us_bins) AS e2e_us_bins,
        sumMap(p.queue_us_bins) AS queue_us_bins,
        sumMap(p.itl_bins) AS itl_bins
    FROM llm_requests_rollup_1m AS p FINAL
    WHERE p.grouping = 'engine'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.status, p.error_kind, p.start, p.origin
)
COMMENT 'windows of 60 s by the dimensions of grouping set engine';

CREATE OR REPLACE VIEW engine_request_windows_1h AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *,
    fp_quantile(0.5, ttft_us_bins) AS ttft_us_p50,
    fp_quantile(0.9, ttft_us_bins) AS ttft_us_p90,
    fp_quantile(0.95, ttft_us_bins) AS ttft_us_p95,
    fp_quantile(0.99, ttft_us_bins) AS ttft_us_p99,
    fp_quantile(0.5, tpot_us_bins) AS tpot_us_p50,
    fp_quantile(0.9, tpot_us_bins) AS tpot_us_p90,
    fp_quantile(0.95, tpot_us_bins) AS tpot_us_p95,
    fp_quantile(0.99, tpot_us_bins) AS tpot_us_p99,
    fp_quantile(0.5, e2e_us_bins) AS e2e_us_p50,
    fp_quantile(0.9, e2e_us_bins) AS e2e_us_p90,
    fp_quantile(0.95, e2e_us_bins) AS e2e_us_p95,
    fp_quantile(0.99, e2e_us_bins) AS e2e_us_p99,
    fp_quantile(0.5, queue_us_bins) AS queue_us_p50,
    fp_quantile(0.9, queue_us_bins) AS queue_us_p90,
    fp_quantile(0.95, queue_us_bins) AS queue_us_p95,
    fp_quantile(0.99, queue_us_bins) AS queue_us_p99,
    fp_quantile(0.5, itl_bins) AS itl_p50,
    fp_quantile(0.9, itl_bins) AS itl_p90,
    fp_quantile(0.95, itl_bins) AS itl_p95,
    fp_quantile(0.99, itl_bins) AS itl_p99
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.status, p.error_kind, p.start, p.origin,
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
        sumMap(p.ttft_us_bins) AS ttft_us_bins,
        sumMap(p.tpot_us_bins) AS tpot_us_bins,
        sumMap(p.e2e_us_bins) AS e2e_us_bins,
        sumMap(p.queue_us_bins) AS queue_us_bins,
        sumMap(p.itl_bins) AS itl_bins
    FROM llm_requests_rollup_1h AS p FINAL
    WHERE p.grouping = 'engine'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.status, p.error_kind, p.start, p.origin
)
COMMENT 'windows of 3600 s by the dimensions of grouping set engine';

CREATE OR REPLACE VIEW gpu_windows AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.workload, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.util_gpu_pct_count) AS util_gpu_pct_count,
        sum(p.util_gpu_pct_sum) AS util_gpu_pct_sum,
        min(p.util_gpu_pct_min) AS util_gpu_pct_min,
        max(p.util_gpu_pct_max) AS util_gpu_pct_max,
        argMax(p.util_gpu_pct_last, (p.last_at_ms, p.util_gpu_pct_last)) AS util_gpu_pct_last,
        sum(p.util_memory_pct_count) AS util_memory_pct_count,
        sum(p.util_memory_pct_sum) AS util_memory_pct_sum,
        min(p.util_memory_pct_min) AS util_memory_pct_min,
        max(p.util_memory_pct_max) AS util_memory_pct_max,
        argMax(p.util_memory_pct_last, (p.last_at_ms, p.util_memory_pct_last)) AS util_memory_pct_last,
        sum(p.power_mw_count) AS power_mw_count,
        sum(p.power_mw_sum) AS power_mw_sum,
        min(p.power_mw_min) AS power_mw_min,
        max(p.power_mw_max) AS power_mw_max,
        argMax(p.power_mw_last, (p.last_at_ms, p.power_mw_last)) AS power_mw_last,
        sum(p.power_limit_mw_count) AS power_limit_mw_count,
        sum(p.power_limit_mw_sum) AS power_limit_mw_sum,
        min(p.power_limit_mw_min) AS power_limit_mw_min,
        max(p.power_limit_mw_max) AS power_limit_mw_max,
        argMax(p.power_limit_mw_last, (p.last_at_ms, p.power_limit_mw_last)) AS power_limit_mw_last,
        sum(p.temperature_c_count) AS temperature_c_count,
        sum(p.temperature_c_sum) AS temperature_c_sum,
        min(p.temperature_c_min) AS temperature_c_min,
        max(p.temperature_c_max) AS temperature_c_max,
        argMax(p.temperature_c_last, (p.last_at_ms, p.temperature_c_last)) AS temperature_c_last,
        sum(p.temperature_memory_c_count) AS temperature_memory_c_count,
        sum(p.temperature_memory_c_sum) AS temperature_memory_c_sum,
        min(p.temperature_memory_c_min) AS temperature_memory_c_min,
        max(p.temperature_memory_c_max) AS temperature_memory_c_max,
        argMax(p.temperature_memory_c_last, (p.last_at_ms, p.temperature_memory_c_last)) AS temperature_memory_c_last,
        sum(p.clock_sm_mhz_count) AS clock_sm_mhz_count,
        sum(p.clock_sm_mhz_sum) AS clock_sm_mhz_sum,
        min(p.clock_sm_mhz_min) AS clock_sm_mhz_min,
        max(p.clock_sm_mhz_max) AS clock_sm_mhz_max,
        argMax(p.clock_sm_mhz_last, (p.last_at_ms, p.clock_sm_mhz_last)) AS clock_sm_mhz_last,
        sum(p.clock_memory_mhz_count) AS clock_memory_mhz_count,
        sum(p.clock_memory_mhz_sum) AS clock_memory_mhz_sum,
        min(p.clock_memory_mhz_min) AS clock_memory_mhz_min,
        max(p.clock_memory_mhz_max) AS clock_memory_mhz_max,
        argMax(p.clock_memory_mhz_last, (p.last_at_ms, p.clock_memory_mhz_last)) AS clock_memory_mhz_last,
        sum(p.sm_active_ppm_count) AS sm_active_ppm_count,
        sum(p.sm_active_ppm_sum) AS sm_active_ppm_sum,
        min(p.sm_active_ppm_min) AS sm_active_ppm_min,
        max(p.sm_active_ppm_max) AS sm_active_ppm_max,
        argMax(p.sm_active_ppm_last, (p.last_at_ms, p.sm_active_ppm_last)) AS sm_active_ppm_last,
        sum(p.tensor_active_ppm_count) AS tensor_active_ppm_count,
        sum(p.tensor_active_ppm_sum) AS tensor_active_ppm_sum,
        min(p.tensor_active_ppm_min) AS tensor_active_ppm_min,
        max(p.tensor_active_ppm_max) AS tensor_active_ppm_max,
        argMax(p.tensor_active_ppm_last, (p.last_at_ms, p.tensor_active_ppm_last)) AS tensor_active_ppm_last,
        sum(p.memory_used_bytes_count) AS memory_used_bytes_count,
        sum(p.memory_used_bytes_sum) AS memory_used_bytes_sum,
        min(p.memory_used_bytes_min) AS memory_used_bytes_min,
        max(p.memory_used_bytes_max) AS memory_used_bytes_max,
        argMax(p.memory_used_bytes_last, (p.last_at_ms, p.memory_used_bytes_last)) AS memory_used_bytes_last,
        sum(p.memory_total_bytes_count) AS memory_total_bytes_count,
        sum(p.memory_total_bytes_sum) AS memory_total_bytes_sum,
        min(p.memory_total_bytes_min) AS memory_total_bytes_min,
        max(p.memory_total_bytes_max) AS memory_total_bytes_max,
        argMax(p.memory_total_bytes_last, (p.last_at_ms, p.memory_total_bytes_last)) AS memory_total_bytes_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.energy_mj_sum) AS energy_mj_sum,
        sum(p.throttled_us_sum) AS throttled_us_sum,
        sum(p.pcie_tx_bytes_sum) AS pcie_tx_bytes_sum,
        sum(p.pcie_rx_bytes_sum) AS pcie_rx_bytes_sum,
        sum(p.nvlink_tx_bytes_sum) AS nvlink_tx_bytes_sum,
        sum(p.nvlink_rx_bytes_sum) AS nvlink_rx_bytes_sum
    FROM gpu_samples_partials AS p FINAL
    WHERE p.grouping = 'gpu'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.workload, p.origin
)
COMMENT 'windows of 10 s by the dimensions of grouping set gpu';

CREATE OR REPLACE VIEW gpu_windows_1m AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.workload, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.util_gpu_pct_count) AS util_gpu_pct_count,
        sum(p.util_gpu_pct_sum) AS util_gpu_pct_sum,
        min(p.util_gpu_pct_min) AS util_gpu_pct_min,
        max(p.util_gpu_pct_max) AS util_gpu_pct_max,
        argMax(p.util_gpu_pct_last, (p.last_at_ms, p.util_gpu_pct_last)) AS util_gpu_pct_last,
        sum(p.util_memory_pct_count) AS util_memory_pct_count,
        sum(p.util_memory_pct_sum) AS util_memory_pct_sum,
        min(p.util_memory_pct_min) AS util_memory_pct_min,
        max(p.util_memory_pct_max) AS util_memory_pct_max,
        argMax(p.util_memory_pct_last, (p.last_at_ms, p.util_memory_pct_last)) AS util_memory_pct_last,
        sum(p.power_mw_count) AS power_mw_count,
        sum(p.power_mw_sum) AS power_mw_sum,
        min(p.power_mw_min) AS power_mw_min,
        max(p.power_mw_max) AS power_mw_max,
        argMax(p.power_mw_last, (p.last_at_ms, p.power_mw_last)) AS power_mw_last,
        sum(p.power_limit_mw_count) AS power_limit_mw_count,
        sum(p.power_limit_mw_sum) AS power_limit_mw_sum,
        min(p.power_limit_mw_min) AS power_limit_mw_min,
        max(p.power_limit_mw_max) AS power_limit_mw_max,
        argMax(p.power_limit_mw_last, (p.last_at_ms, p.power_limit_mw_last)) AS power_limit_mw_last,
        sum(p.temperature_c_count) AS temperature_c_count,
        sum(p.temperature_c_sum) AS temperature_c_sum,
        min(p.temperature_c_min) AS temperature_c_min,
        max(p.temperature_c_max) AS temperature_c_max,
        argMax(p.temperature_c_last, (p.last_at_ms, p.temperature_c_last)) AS temperature_c_last,
        sum(p.temperature_memory_c_count) AS temperature_memory_c_count,
        sum(p.temperature_memory_c_sum) AS temperature_memory_c_sum,
        min(p.temperature_memory_c_min) AS temperature_memory_c_min,
        max(p.temperature_memory_c_max) AS temperature_memory_c_max,
        argMax(p.temperature_memory_c_last, (p.last_at_ms, p.temperature_memory_c_last)) AS temperature_memory_c_last,
        sum(p.clock_sm_mhz_count) AS clock_sm_mhz_count,
        sum(p.clock_sm_mhz_sum) AS clock_sm_mhz_sum,
        min(p.clock_sm_mhz_min) AS clock_sm_mhz_min,
        max(p.clock_sm_mhz_max) AS clock_sm_mhz_max,
        argMax(p.clock_sm_mhz_last, (p.last_at_ms, p.clock_sm_mhz_last)) AS clock_sm_mhz_last,
        sum(p.clock_memory_mhz_count) AS clock_memory_mhz_count,
        sum(p.clock_memory_mhz_sum) AS clock_memory_mhz_sum,
        min(p.clock_memory_mhz_min) AS clock_memory_mhz_min,
        max(p.clock_memory_mhz_max) AS clock_memory_mhz_max,
        argMax(p.clock_memory_mhz_last, (p.last_at_ms, p.clock_memory_mhz_last)) AS clock_memory_mhz_last,
        sum(p.sm_active_ppm_count) AS sm_active_ppm_count,
        sum(p.sm_active_ppm_sum) AS sm_active_ppm_sum,
        min(p.sm_active_ppm_min) AS sm_active_ppm_min,
        max(p.sm_active_ppm_max) AS sm_active_ppm_max,
        argMax(p.sm_active_ppm_last, (p.last_at_ms, p.sm_active_ppm_last)) AS sm_active_ppm_last,
        sum(p.tensor_active_ppm_count) AS tensor_active_ppm_count,
        sum(p.tensor_active_ppm_sum) AS tensor_active_ppm_sum,
        min(p.tensor_active_ppm_min) AS tensor_active_ppm_min,
        max(p.tensor_active_ppm_max) AS tensor_active_ppm_max,
        argMax(p.tensor_active_ppm_last, (p.last_at_ms, p.tensor_active_ppm_last)) AS tensor_active_ppm_last,
        sum(p.memory_used_bytes_count) AS memory_used_bytes_count,
        sum(p.memory_used_bytes_sum) AS memory_used_bytes_sum,
        min(p.memory_used_bytes_min) AS memory_used_bytes_min,
        max(p.memory_used_bytes_max) AS memory_used_bytes_max,
        argMax(p.memory_used_bytes_last, (p.last_at_ms, p.memory_used_bytes_last)) AS memory_used_bytes_last,
        sum(p.memory_total_bytes_count) AS memory_total_bytes_count,
        sum(p.memory_total_bytes_sum) AS memory_total_bytes_sum,
        min(p.memory_total_bytes_min) AS memory_total_bytes_min,
        max(p.memory_total_bytes_max) AS memory_total_bytes_max,
        argMax(p.memory_total_bytes_last, (p.last_at_ms, p.memory_total_bytes_last)) AS memory_total_bytes_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.energy_mj_sum) AS energy_mj_sum,
        sum(p.throttled_us_sum) AS throttled_us_sum,
        sum(p.pcie_tx_bytes_sum) AS pcie_tx_bytes_sum,
        sum(p.pcie_rx_bytes_sum) AS pcie_rx_bytes_sum,
        sum(p.nvlink_tx_bytes_sum) AS nvlink_tx_bytes_sum,
        sum(p.nvlink_rx_bytes_sum) AS nvlink_rx_bytes_sum
    FROM gpu_samples_rollup_1m AS p FINAL
    WHERE p.grouping = 'gpu'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.workload, p.origin
)
COMMENT 'windows of 60 s by the dimensions of grouping set gpu';

CREATE OR REPLACE VIEW gpu_windows_1h AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.workload, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.util_gpu_pct_count) AS util_gpu_pct_count,
        sum(p.util_gpu_pct_sum) AS util_gpu_pct_sum,
        min(p.util_gpu_pct_min) AS util_gpu_pct_min,
        max(p.util_gpu_pct_max) AS util_gpu_pct_max,
        argMax(p.util_gpu_pct_last, (p.last_at_ms, p.util_gpu_pct_last)) AS util_gpu_pct_last,
        sum(p.util_memory_pct_count) AS util_memory_pct_count,
        sum(p.util_memory_pct_sum) AS util_memory_pct_sum,
        min(p.util_memory_pct_min) AS util_memory_pct_min,
        max(p.util_memory_pct_max) AS util_memory_pct_max,
        argMax(p.util_memory_pct_last, (p.last_at_ms, p.util_memory_pct_last)) AS util_memory_pct_last,
        sum(p.power_mw_count) AS power_mw_count,
        sum(p.power_mw_sum) AS power_mw_sum,
        min(p.power_mw_min) AS power_mw_min,
        max(p.power_mw_max) AS power_mw_max,
        argMax(p.power_mw_last, (p.last_at_ms, p.power_mw_last)) AS power_mw_last,
        sum(p.power_limit_mw_count) AS power_limit_mw_count,
        sum(p.power_limit_mw_sum) AS power_limit_mw_sum,
        min(p.power_limit_mw_min) AS power_limit_mw_min,
        max(p.power_limit_mw_max) AS power_limit_mw_max,
        argMax(p.power_limit_mw_last, (p.last_at_ms, p.power_limit_mw_last)) AS power_limit_mw_last,
        sum(p.temperature_c_count) AS temperature_c_count,
        sum(p.temperature_c_sum) AS temperature_c_sum,
        min(p.temperature_c_min) AS temperature_c_min,
        max(p.temperature_c_max) AS temperature_c_max,
        argMax(p.temperature_c_last, (p.last_at_ms, p.temperature_c_last)) AS temperature_c_last,
        sum(p.temperature_memory_c_count) AS temperature_memory_c_count,
        sum(p.temperature_memory_c_sum) AS temperature_memory_c_sum,
        min(p.temperature_memory_c_min) AS temperature_memory_c_min,
        max(p.temperature_memory_c_max) AS temperature_memory_c_max,
        argMax(p.temperature_memory_c_last, (p.last_at_ms, p.temperature_memory_c_last)) AS temperature_memory_c_last,
        sum(p.clock_sm_mhz_count) AS clock_sm_mhz_count,
        sum(p.clock_sm_mhz_sum) AS clock_sm_mhz_sum,
        min(p.clock_sm_mhz_min) AS clock_sm_mhz_min,
        max(p.clock_sm_mhz_max) AS clock_sm_mhz_max,
        argMax(p.clock_sm_mhz_last, (p.last_at_ms, p.clock_sm_mhz_last)) AS clock_sm_mhz_last,
        sum(p.clock_memory_mhz_count) AS clock_memory_mhz_count,
        sum(p.clock_memory_mhz_sum) AS clock_memory_mhz_sum,
        min(p.clock_memory_mhz_min) AS clock_memory_mhz_min,
        max(p.clock_memory_mhz_max) AS clock_memory_mhz_max,
        argMax(p.clock_memory_mhz_last, (p.last_at_ms, p.clock_memory_mhz_last)) AS clock_memory_mhz_last,
        sum(p.sm_active_ppm_count) AS sm_active_ppm_count,
        sum(p.sm_active_ppm_sum) AS sm_active_ppm_sum,
        min(p.sm_active_ppm_min) AS sm_active_ppm_min,
        max(p.sm_active_ppm_max) AS sm_active_ppm_max,
        argMax(p.sm_active_ppm_last, (p.last_at_ms, p.sm_active_ppm_last)) AS sm_active_ppm_last,
        sum(p.tensor_active_ppm_count) AS tensor_active_ppm_count,
        sum(p.tensor_active_ppm_sum) AS tensor_active_ppm_sum,
        min(p.tensor_active_ppm_min) AS tensor_active_ppm_min,
        max(p.tensor_active_ppm_max) AS tensor_active_ppm_max,
        argMax(p.tensor_active_ppm_last, (p.last_at_ms, p.tensor_active_ppm_last)) AS tensor_active_ppm_last,
        sum(p.memory_used_bytes_count) AS memory_used_bytes_count,
        sum(p.memory_used_bytes_sum) AS memory_used_bytes_sum,
        min(p.memory_used_bytes_min) AS memory_used_bytes_min,
        max(p.memory_used_bytes_max) AS memory_used_bytes_max,
        argMax(p.memory_used_bytes_last, (p.last_at_ms, p.memory_used_bytes_last)) AS memory_used_bytes_last,
        sum(p.memory_total_bytes_count) AS memory_total_bytes_count,
        sum(p.memory_total_bytes_sum) AS memory_total_bytes_sum,
        min(p.memory_total_bytes_min) AS memory_total_bytes_min,
        max(p.memory_total_bytes_max) AS memory_total_bytes_max,
        argMax(p.memory_total_bytes_last, (p.last_at_ms, p.memory_total_bytes_last)) AS memory_total_bytes_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.energy_mj_sum) AS energy_mj_sum,
        sum(p.throttled_us_sum) AS throttled_us_sum,
        sum(p.pcie_tx_bytes_sum) AS pcie_tx_bytes_sum,
        sum(p.pcie_rx_bytes_sum) AS pcie_rx_bytes_sum,
        sum(p.nvlink_tx_bytes_sum) AS nvlink_tx_bytes_sum,
        sum(p.nvlink_rx_bytes_sum) AS nvlink_rx_bytes_sum
    FROM gpu_samples_rollup_1h AS p FINAL
    WHERE p.grouping = 'gpu'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.workload, p.origin
)
COMMENT 'windows of 3600 s by the dimensions of grouping set gpu';

CREATE OR REPLACE VIEW gpu_event_windows AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.kind, p.severity, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version
    FROM gpu_events_partials AS p FINAL
    WHERE p.grouping = 'gpu_event'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.kind, p.severity, p.origin
)
COMMENT 'windows of 10 s by the dimensions of grouping set gpu_event';

CREATE OR REPLACE VIEW gpu_event_windows_1m AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.kind, p.severity, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version
    FROM gpu_events_rollup_1m AS p FINAL
    WHERE p.grouping = 'gpu_event'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.kind, p.severity, p.origin
)
COMMENT 'windows of 60 s by the dimensions of grouping set gpu_event';

CREATE OR REPLACE VIEW gpu_event_windows_1h AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.kind, p.severity, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version
    FROM gpu_events_rollup_1h AS p FINAL
    WHERE p.grouping = 'gpu_event'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.gpu_uuid, p.gpu_model, p.engine_id, p.placement_group, p.kind, p.severity, p.origin
)
COMMENT 'windows of 3600 s by the dimensions of grouping set gpu_event';

CREATE OR REPLACE VIEW host_windows AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.cpu_busy_ppm_count) AS cpu_busy_ppm_count,
        sum(p.cpu_busy_ppm_sum) AS cpu_busy_ppm_sum,
        min(p.cpu_busy_ppm_min) AS cpu_busy_ppm_min,
        max(p.cpu_busy_ppm_max) AS cpu_busy_ppm_max,
        argMax(p.cpu_busy_ppm_last, (p.last_at_ms, p.cpu_busy_ppm_last)) AS cpu_busy_ppm_last,
        sum(p.cpu_iowait_ppm_count) AS cpu_iowait_ppm_count,
        sum(p.cpu_iowait_ppm_sum) AS cpu_iowait_ppm_sum,
        min(p.cpu_iowait_ppm_min) AS cpu_iowait_ppm_min,
        max(p.cpu_iowait_ppm_max) AS cpu_iowait_ppm_max,
        argMax(p.cpu_iowait_ppm_last, (p.last_at_ms, p.cpu_iowait_ppm_last)) AS cpu_iowait_ppm_last,
        sum(p.load_1m_milli_count) AS load_1m_milli_count,
        sum(p.load_1m_milli_sum) AS load_1m_milli_sum,
        min(p.load_1m_milli_min) AS load_1m_milli_min,
        max(p.load_1m_milli_max) AS load_1m_milli_max,
        argMax(p.load_1m_milli_last, (p.last_at_ms, p.load_1m_milli_last)) AS load_1m_milli_last,
        sum(p.processors_count) AS processors_count,
        sum(p.processors_sum) AS processors_sum,
        min(p.processors_min) AS processors_min,
        max(p.processors_max) AS processors_max,
        argMax(p.processors_last, (p.last_at_ms, p.processors_last)) AS processors_last,
        sum(p.memory_used_bytes_count) AS memory_used_bytes_count,
        sum(p.memory_used_bytes_sum) AS memory_used_bytes_sum,
        min(p.memory_used_bytes_min) AS memory_used_bytes_min,
        max(p.memory_used_bytes_max) AS memory_used_bytes_max,
        argMax(p.memory_used_bytes_last, (p.last_at_ms, p.memory_used_bytes_last)) AS memory_used_bytes_last,
        sum(p.memory_total_bytes_count) AS memory_total_bytes_count,
        sum(p.memory_total_bytes_sum) AS memory_total_bytes_sum,
        min(p.memory_total_bytes_min) AS memory_total_bytes_min,
        max(p.memory_total_bytes_max) AS memory_total_bytes_max,
        argMax(p.memory_total_bytes_last, (p.last_at_ms, p.memory_total_bytes_last)) AS memory_total_bytes_last,
        sum(p.swap_used_bytes_count) AS swap_used_bytes_count,
        sum(p.swap_used_bytes_sum) AS swap_used_bytes_sum,
        min(p.swap_used_bytes_min) AS swap_used_bytes_min,
        max(p.swap_used_bytes_max) AS swap_used_bytes_max,
        argMax(p.swap_used_bytes_last, (p.last_at_ms, p.swap_used_bytes_last)) AS swap_used_bytes_last,
        sum(p.disk_queue_milli_count) AS disk_queue_milli_count,
        sum(p.disk_queue_milli_sum) AS disk_queue_milli_sum,
        min(p.disk_queue_milli_min) AS disk_queue_milli_min,
        max(p.disk_queue_milli_max) AS disk_queue_milli_max,
        argMax(p.disk_queue_milli_last, (p.last_at_ms, p.disk_queue_milli_last)) AS disk_queue_milli_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.network_tx_bytes_sum) AS network_tx_bytes_sum,
        sum(p.network_rx_bytes_sum) AS network_rx_bytes_sum,
        sum(p.network_errors_sum) AS network_errors_sum,
        sum(p.disk_read_bytes_sum) AS disk_read_bytes_sum,
        sum(p.disk_write_bytes_sum) AS disk_write_bytes_sum,
        sum(p.disk_busy_ms_sum) AS disk_busy_ms_sum,
        sum(p.swap_in_bytes_sum) AS swap_in_bytes_sum
    FROM host_samples_partials AS p FINAL
    WHERE p.grouping = 'host'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.origin
)
COMMENT 'windows of 10 s by the dimensions of grouping set host';

CREATE OR REPLACE VIEW host_windows_1m AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.cpu_busy_ppm_count) AS cpu_busy_ppm_count,
        sum(p.cpu_busy_ppm_sum) AS cpu_busy_ppm_sum,
        min(p.cpu_busy_ppm_min) AS cpu_busy_ppm_min,
        max(p.cpu_busy_ppm_max) AS cpu_busy_ppm_max,
        argMax(p.cpu_busy_ppm_last, (p.last_at_ms, p.cpu_busy_ppm_last)) AS cpu_busy_ppm_last,
        sum(p.cpu_iowait_ppm_count) AS cpu_iowait_ppm_count,
        sum(p.cpu_iowait_ppm_sum) AS cpu_iowait_ppm_sum,
        min(p.cpu_iowait_ppm_min) AS cpu_iowait_ppm_min,
        max(p.cpu_iowait_ppm_max) AS cpu_iowait_ppm_max,
        argMax(p.cpu_iowait_ppm_last, (p.last_at_ms, p.cpu_iowait_ppm_last)) AS cpu_iowait_ppm_last,
        sum(p.load_1m_milli_count) AS load_1m_milli_count,
        sum(p.load_1m_milli_sum) AS load_1m_milli_sum,
        min(p.load_1m_milli_min) AS load_1m_milli_min,
        max(p.load_1m_milli_max) AS load_1m_milli_max,
        argMax(p.load_1m_milli_last, (p.last_at_ms, p.load_1m_milli_last)) AS load_1m_milli_last,
        sum(p.processors_count) AS processors_count,
        sum(p.processors_sum) AS processors_sum,
        min(p.processors_min) AS processors_min,
        max(p.processors_max) AS processors_max,
        argMax(p.processors_last, (p.last_at_ms, p.processors_last)) AS processors_last,
        sum(p.memory_used_bytes_count) AS memory_used_bytes_count,
        sum(p.memory_used_bytes_sum) AS memory_used_bytes_sum,
        min(p.memory_used_bytes_min) AS memory_used_bytes_min,
        max(p.memory_used_bytes_max) AS memory_used_bytes_max,
        argMax(p.memory_used_bytes_last, (p.last_at_ms, p.memory_used_bytes_last)) AS memory_used_bytes_last,
        sum(p.memory_total_bytes_count) AS memory_total_bytes_count,
        sum(p.memory_total_bytes_sum) AS memory_total_bytes_sum,
        min(p.memory_total_bytes_min) AS memory_total_bytes_min,
        max(p.memory_total_bytes_max) AS memory_total_bytes_max,
        argMax(p.memory_total_bytes_last, (p.last_at_ms, p.memory_total_bytes_last)) AS memory_total_bytes_last,
        sum(p.swap_used_bytes_count) AS swap_used_bytes_count,
        sum(p.swap_used_bytes_sum) AS swap_used_bytes_sum,
        min(p.swap_used_bytes_min) AS swap_used_bytes_min,
        max(p.swap_used_bytes_max) AS swap_used_bytes_max,
        argMax(p.swap_used_bytes_last, (p.last_at_ms, p.swap_used_bytes_last)) AS swap_used_bytes_last,
        sum(p.disk_queue_milli_count) AS disk_queue_milli_count,
        sum(p.disk_queue_milli_sum) AS disk_queue_milli_sum,
        min(p.disk_queue_milli_min) AS disk_queue_milli_min,
        max(p.disk_queue_milli_max) AS disk_queue_milli_max,
        argMax(p.disk_queue_milli_last, (p.last_at_ms, p.disk_queue_milli_last)) AS disk_queue_milli_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.network_tx_bytes_sum) AS network_tx_bytes_sum,
        sum(p.network_rx_bytes_sum) AS network_rx_bytes_sum,
        sum(p.network_errors_sum) AS network_errors_sum,
        sum(p.disk_read_bytes_sum) AS disk_read_bytes_sum,
        sum(p.disk_write_bytes_sum) AS disk_write_bytes_sum,
        sum(p.disk_busy_ms_sum) AS disk_busy_ms_sum,
        sum(p.swap_in_bytes_sum) AS swap_in_bytes_sum
    FROM host_samples_rollup_1m AS p FINAL
    WHERE p.grouping = 'host'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.origin
)
COMMENT 'windows of 60 s by the dimensions of grouping set host';

CREATE OR REPLACE VIEW host_windows_1h AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.cpu_busy_ppm_count) AS cpu_busy_ppm_count,
        sum(p.cpu_busy_ppm_sum) AS cpu_busy_ppm_sum,
        min(p.cpu_busy_ppm_min) AS cpu_busy_ppm_min,
        max(p.cpu_busy_ppm_max) AS cpu_busy_ppm_max,
        argMax(p.cpu_busy_ppm_last, (p.last_at_ms, p.cpu_busy_ppm_last)) AS cpu_busy_ppm_last,
        sum(p.cpu_iowait_ppm_count) AS cpu_iowait_ppm_count,
        sum(p.cpu_iowait_ppm_sum) AS cpu_iowait_ppm_sum,
        min(p.cpu_iowait_ppm_min) AS cpu_iowait_ppm_min,
        max(p.cpu_iowait_ppm_max) AS cpu_iowait_ppm_max,
        argMax(p.cpu_iowait_ppm_last, (p.last_at_ms, p.cpu_iowait_ppm_last)) AS cpu_iowait_ppm_last,
        sum(p.load_1m_milli_count) AS load_1m_milli_count,
        sum(p.load_1m_milli_sum) AS load_1m_milli_sum,
        min(p.load_1m_milli_min) AS load_1m_milli_min,
        max(p.load_1m_milli_max) AS load_1m_milli_max,
        argMax(p.load_1m_milli_last, (p.last_at_ms, p.load_1m_milli_last)) AS load_1m_milli_last,
        sum(p.processors_count) AS processors_count,
        sum(p.processors_sum) AS processors_sum,
        min(p.processors_min) AS processors_min,
        max(p.processors_max) AS processors_max,
        argMax(p.processors_last, (p.last_at_ms, p.processors_last)) AS processors_last,
        sum(p.memory_used_bytes_count) AS memory_used_bytes_count,
        sum(p.memory_used_bytes_sum) AS memory_used_bytes_sum,
        min(p.memory_used_bytes_min) AS memory_used_bytes_min,
        max(p.memory_used_bytes_max) AS memory_used_bytes_max,
        argMax(p.memory_used_bytes_last, (p.last_at_ms, p.memory_used_bytes_last)) AS memory_used_bytes_last,
        sum(p.memory_total_bytes_count) AS memory_total_bytes_count,
        sum(p.memory_total_bytes_sum) AS memory_total_bytes_sum,
        min(p.memory_total_bytes_min) AS memory_total_bytes_min,
        max(p.memory_total_bytes_max) AS memory_total_bytes_max,
        argMax(p.memory_total_bytes_last, (p.last_at_ms, p.memory_total_bytes_last)) AS memory_total_bytes_last,
        sum(p.swap_used_bytes_count) AS swap_used_bytes_count,
        sum(p.swap_used_bytes_sum) AS swap_used_bytes_sum,
        min(p.swap_used_bytes_min) AS swap_used_bytes_min,
        max(p.swap_used_bytes_max) AS swap_used_bytes_max,
        argMax(p.swap_used_bytes_last, (p.last_at_ms, p.swap_used_bytes_last)) AS swap_used_bytes_last,
        sum(p.disk_queue_milli_count) AS disk_queue_milli_count,
        sum(p.disk_queue_milli_sum) AS disk_queue_milli_sum,
        min(p.disk_queue_milli_min) AS disk_queue_milli_min,
        max(p.disk_queue_milli_max) AS disk_queue_milli_max,
        argMax(p.disk_queue_milli_last, (p.last_at_ms, p.disk_queue_milli_last)) AS disk_queue_milli_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.network_tx_bytes_sum) AS network_tx_bytes_sum,
        sum(p.network_rx_bytes_sum) AS network_rx_bytes_sum,
        sum(p.network_errors_sum) AS network_errors_sum,
        sum(p.disk_read_bytes_sum) AS disk_read_bytes_sum,
        sum(p.disk_write_bytes_sum) AS disk_write_bytes_sum,
        sum(p.disk_busy_ms_sum) AS disk_busy_ms_sum,
        sum(p.swap_in_bytes_sum) AS swap_in_bytes_sum
    FROM host_samples_rollup_1h AS p FINAL
    WHERE p.grouping = 'host'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.origin
)
COMMENT 'windows of 3600 s by the dimensions of grouping set host';

CREATE OR REPLACE VIEW engine_windows AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.engine_kind, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.running_count) AS running_count,
        sum(p.running_sum) AS running_sum,
        min(p.running_min) AS running_min,
        max(p.running_max) AS running_max,
        argMax(p.running_last, (p.last_at_ms, p.running_last)) AS running_last,
        sum(p.waiting_count) AS waiting_count,
        sum(p.waiting_sum) AS waiting_sum,
        min(p.waiting_min) AS waiting_min,
        max(p.waiting_max) AS waiting_max,
        argMax(p.waiting_last, (p.last_at_ms, p.waiting_last)) AS waiting_last,
        sum(p.kv_used_ppm_count) AS kv_used_ppm_count,
        sum(p.kv_used_ppm_sum) AS kv_used_ppm_sum,
        min(p.kv_used_ppm_min) AS kv_used_ppm_min,
        max(p.kv_used_ppm_max) AS kv_used_ppm_max,
        argMax(p.kv_used_ppm_last, (p.last_at_ms, p.kv_used_ppm_last)) AS kv_used_ppm_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.preemptions_sum) AS preemptions_sum,
        sum(p.prompt_tokens_sum) AS prompt_tokens_sum,
        sum(p.prefix_hit_tokens_sum) AS prefix_hit_tokens_sum,
        sum(p.generation_tokens_sum) AS generation_tokens_sum,
        sum(p.finished_requests_sum) AS finished_requests_sum
    FROM engine_samples_partials AS p FINAL
    WHERE p.grouping = 'engine_sample'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.engine_kind, p.origin
)
COMMENT 'windows of 10 s by the dimensions of grouping set engine_sample';

CREATE OR REPLACE VIEW engine_windows_1m AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.engine_kind, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.running_count) AS running_count,
        sum(p.running_sum) AS running_sum,
        min(p.running_min) AS running_min,
        max(p.running_max) AS running_max,
        argMax(p.running_last, (p.last_at_ms, p.running_last)) AS running_last,
        sum(p.waiting_count) AS waiting_count,
        sum(p.waiting_sum) AS waiting_sum,
        min(p.waiting_min) AS waiting_min,
        max(p.waiting_max) AS waiting_max,
        argMax(p.waiting_last, (p.last_at_ms, p.waiting_last)) AS waiting_last,
        sum(p.kv_used_ppm_count) AS kv_used_ppm_count,
        sum(p.kv_used_ppm_sum) AS kv_used_ppm_sum,
        min(p.kv_used_ppm_min) AS kv_used_ppm_min,
        max(p.kv_used_ppm_max) AS kv_used_ppm_max,
        argMax(p.kv_used_ppm_last, (p.last_at_ms, p.kv_used_ppm_last)) AS kv_used_ppm_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.preemptions_sum) AS preemptions_sum,
        sum(p.prompt_tokens_sum) AS prompt_tokens_sum,
        sum(p.prefix_hit_tokens_sum) AS prefix_hit_tokens_sum,
        sum(p.generation_tokens_sum) AS generation_tokens_sum,
        sum(p.finished_requests_sum) AS finished_requests_sum
    FROM engine_samples_rollup_1m AS p FINAL
    WHERE p.grouping = 'engine_sample'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.engine_kind, p.origin
)
COMMENT 'windows of 60 s by the dimensions of grouping set engine_sample';

CREATE OR REPLACE VIEW engine_windows_1h AS
SELECT
    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,
    *
FROM
(
    SELECT
        p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.engine_kind, p.origin,
        sum(p.event_count) AS event_count,
        max(p.last_at_ms) AS last_at_ms,
        max(p.definition_version) AS definition_version,
        sum(p.running_count) AS running_count,
        sum(p.running_sum) AS running_sum,
        min(p.running_min) AS running_min,
        max(p.running_max) AS running_max,
        argMax(p.running_last, (p.last_at_ms, p.running_last)) AS running_last,
        sum(p.waiting_count) AS waiting_count,
        sum(p.waiting_sum) AS waiting_sum,
        min(p.waiting_min) AS waiting_min,
        max(p.waiting_max) AS waiting_max,
        argMax(p.waiting_last, (p.last_at_ms, p.waiting_last)) AS waiting_last,
        sum(p.kv_used_ppm_count) AS kv_used_ppm_count,
        sum(p.kv_used_ppm_sum) AS kv_used_ppm_sum,
        min(p.kv_used_ppm_min) AS kv_used_ppm_min,
        max(p.kv_used_ppm_max) AS kv_used_ppm_max,
        argMax(p.kv_used_ppm_last, (p.last_at_ms, p.kv_used_ppm_last)) AS kv_used_ppm_last,
        sum(p.interval_ms_sum) AS interval_ms_sum,
        sum(p.preemptions_sum) AS preemptions_sum,
        sum(p.prompt_tokens_sum) AS prompt_tokens_sum,
        sum(p.prefix_hit_tokens_sum) AS prefix_hit_tokens_sum,
        sum(p.generation_tokens_sum) AS generation_tokens_sum,
        sum(p.finished_requests_sum) AS finished_requests_sum
    FROM engine_samples_rollup_1h AS p FINAL
    WHERE p.grouping = 'engine_sample'
    GROUP BY p.window_ms, p.cluster, p.region, p.host, p.engine_id, p.placement_group, p.model, p.model_version, p.precision, p.engine_kind, p.origin
)
COMMENT 'windows of 3600 s by the dimensions of grouping set engine_sample';

CREATE OR REPLACE VIEW fleet_now AS
SELECT
    gpu_uuid,
    argMax(cluster, window_ms) AS cluster,
    argMax(region, window_ms) AS region,
    argMax(host, window_ms) AS host,
    argMax(gpu_model, window_ms) AS gpu_model,
    argMax(engine_id, window_ms) AS engine_id,
    argMax(workload, window_ms) AS workload,
    fromUnixTimestamp64Milli(max(last_at_ms), 'UTC') AS last_seen,
    argMax(util_gpu_pct_last, window_ms) AS util_gpu_pct,
    argMax(memory_used_bytes_last, window_ms) AS memory_used_bytes,
    argMax(memory_total_bytes_last, window_ms) AS memory_total_bytes,
    argMax(power_mw_last, window_ms) AS power_mw,
    argMax(temperature_c_last, window_ms) AS temperature_c
FROM gpu_windows
WHERE window_ms >= toUnixTimestamp64Milli(now64(3)) - 300000
GROUP BY gpu_uuid
COMMENT 'latest state of every GPU seen within five minutes';
