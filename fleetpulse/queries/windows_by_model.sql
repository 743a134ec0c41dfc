-- Each 10 s window of each model: requests, failures and tokens a second, TTFT, ITL and E2E percentiles in seconds.
-- Where rows of 10 s are no longer kept, each minute.
-- reads requests: llm.requests 10s <= 400d, 1m
SELECT
    window_ms,
    model,
    sum(event_count) / (width_ms / 1000) AS requests_per_s,
    {failed:Metric} / (width_ms / 1000) AS failed_per_s,
    sum(input_tokens_sum) / (width_ms / 1000) AS input_tokens_per_s,
    sum(output_tokens_sum) / (width_ms / 1000) AS output_tokens_per_s,
    fp_quantile_linear(0.5, sumMap(ttft_us_bins)) / 1e6 AS ttft_p50_s,
    fp_quantile_linear(0.95, sumMap(ttft_us_bins)) / 1e6 AS ttft_p95_s,
    fp_quantile_linear(0.99, sumMap(ttft_us_bins)) / 1e6 AS ttft_p99_s,
    fp_quantile_linear(0.5, sumMap(itl_bins)) / 1e6 AS itl_p50_s,
    fp_quantile_linear(0.99, sumMap(itl_bins)) / 1e6 AS itl_p99_s,
    fp_quantile_linear(0.5, sumMap(e2e_us_bins)) / 1e6 AS e2e_p50_s,
    fp_quantile_linear(0.99, sumMap(e2e_us_bins)) / 1e6 AS e2e_p99_s,
    fp_quantile_linear(0.99, sumMap(queue_us_bins)) / 1e6 AS queue_p99_s
FROM {requests:Rows}
WHERE grouping = 'service'
GROUP BY window_ms, width_ms, model
ORDER BY window_ms, model
