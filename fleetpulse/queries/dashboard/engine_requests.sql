-- Requests of one engine over time: how many, how they ended, how long they took.
-- reads requests: llm.requests 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    sum(event_count) AS requests,
    {ok:Metric} AS ok,
    {aborted:Metric} AS aborted,
    {client_fault:Metric} AS client_fault,
    {failed:Metric} AS failed,
    sum(toInt128(input_tokens_sum)) AS input_tokens,
    sum(toInt128(cached_tokens_sum)) AS cached_tokens,
    sum(toInt128(output_tokens_sum)) AS output_tokens,
    fp_quantiles_linear([0.5, 0.95], sumMap(ttft_us_bins)) AS ttft_us,
    fp_quantiles_linear([0.5, 0.95], sumMap(itl_bins)) AS itl_us,
    fp_quantiles_linear([0.5, 0.95], sumMap(e2e_us_bins)) AS e2e_us,
    arraySum(mapValues(sumMap(ttft_us_bins))) AS ttft_us_counted,
    arraySum(mapValues(sumMap(itl_bins))) AS itl_us_counted,
    arraySum(mapValues(sumMap(e2e_us_bins))) AS e2e_us_counted
FROM {requests:Rows}
WHERE grouping = 'engine' AND engine_id = {engine_id:String}
    AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY at_ms
ORDER BY at_ms
LIMIT 5000
