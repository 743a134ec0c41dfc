-- Percentiles of every model over a range: bins of all windows are merged, then read once.
SELECT
    model,
    sum(event_count) AS requests,
    round(fp_quantile(0.5, sumMap(ttft_us_bins)) / 1000, 1) AS ttft_p50_ms,
    round(fp_quantile(0.95, sumMap(ttft_us_bins)) / 1000, 1) AS ttft_p95_ms,
    round(fp_quantile(0.99, sumMap(ttft_us_bins)) / 1000, 1) AS ttft_p99_ms,
    round(fp_quantile(0.5, sumMap(tpot_us_bins)) / 1000, 1) AS tpot_p50_ms,
    round(fp_quantile(0.95, sumMap(tpot_us_bins)) / 1000, 1) AS tpot_p95_ms,
    round(fp_quantile(0.99, sumMap(tpot_us_bins)) / 1000, 1) AS tpot_p99_ms,
    round(fp_quantile(0.5, sumMap(e2e_us_bins)) / 1000, 1) AS e2e_p50_ms,
    round(fp_quantile(0.95, sumMap(e2e_us_bins)) / 1000, 1) AS e2e_p95_ms,
    round(fp_quantile(0.99, sumMap(e2e_us_bins)) / 1000, 1) AS e2e_p99_ms
FROM request_windows
WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY model
ORDER BY requests DESC
