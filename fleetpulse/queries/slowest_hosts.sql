-- Hosts by the tail of their time to first token over a range.
-- Adds up rows of windows as they came; engine_request_windows shows each window put together, which takes longer.
SELECT
    host,
    min(model) AS a_model,
    sum(ttft_us_count) AS requests,
    round(fp_quantile_linear(0.99, sumMap(ttft_us_bins)) / 1000, 1) AS ttft_p99_ms,
    round(fp_quantile_linear(0.99, sumMap(queue_us_bins)) / 1000, 1) AS queue_p99_ms
FROM llm_requests_partials FINAL
WHERE grouping = 'engine' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY host
ORDER BY ttft_p99_ms DESC, host
LIMIT 5
