-- Percentiles of every model and latency over a range, with the number of requests that had it.
-- p95 says something of 20 or more, p99 of 100 or more.
-- Adds up rows as they came; request_windows shows each window put together, which takes longer.
-- reads requests: llm.requests 10s <= 1h, 1m <= 1d, 1h
SELECT
    model,
    latency,
    counted AS requests,
    if(empty(percentiles), NULL, round(percentiles[1] / 1000, 1)) AS p50_ms,
    if(empty(percentiles), NULL, round(percentiles[2] / 1000, 1)) AS p95_ms,
    if(empty(percentiles), NULL, round(percentiles[3] / 1000, 1)) AS p99_ms
FROM
(
    SELECT
        model,
        sum(event_count) AS ended,
        sum(ttft_us_count) AS ttft_count,
        sum(tpot_us_count) AS tpot_count,
        sum(e2e_us_count) AS e2e_count,
        fp_quantiles_linear([0.5, 0.95, 0.99], sumMap(ttft_us_bins)) AS ttft,
        fp_quantiles_linear([0.5, 0.95, 0.99], sumMap(tpot_us_bins)) AS tpot,
        fp_quantiles_linear([0.5, 0.95, 0.99], sumMap(e2e_us_bins)) AS e2e
    FROM {requests:Rows}
    WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    GROUP BY model
)
ARRAY JOIN
    ['TTFT', 'TPOT', 'E2E'] AS latency,
    [ttft, tpot, e2e] AS percentiles,
    [ttft_count, tpot_count, e2e_count] AS counted
ORDER BY ended DESC, model, latency DESC
