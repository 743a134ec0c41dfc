-- Hosts by the tail of their time to first token over a range.
-- Adds up rows as they came; engine_request_windows shows each window put together, which takes longer.
-- reads requests: llm.requests 10s <= 1h, 1m <= 1d, 1h
SELECT
    host,
    min(model) AS a_model,
    sum(ttft_us_count) AS requests,
    round(fp_quantile_linear(0.99, sumMap(ttft_us_bins)) / 1000, 1) AS ttft_p99_ms,
    round(fp_quantile_linear(0.99, sumMap(queue_us_bins)) / 1000, 1) AS queue_p99_ms
FROM {requests:Rows}
WHERE grouping = 'engine' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY host
ORDER BY ttft_p99_ms DESC, host
LIMIT 5
