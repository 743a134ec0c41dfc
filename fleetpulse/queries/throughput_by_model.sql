-- What each model did over a range: requests, tokens, failures. Rates are of the time with data (view covered_time).
-- reads requests: llm.requests 10s <= 1h, 1m <= 1d, 1h
WITH (SELECT covered_ms / 1000 FROM covered_time(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64})) AS covered
SELECT
    model,
    {requests:Metric} AS requests,
    round({requests_per_s:Metric}, 1) AS requests_per_s,
    sum(input_tokens_sum) AS input_tokens,
    sum(output_tokens_sum) AS output_tokens,
    round({output_tokens_per_s:Metric}) AS output_tokens_per_s,
    round(covered) AS covered_s,
    {ok:Metric} AS ok,
    {aborted:Metric} AS aborted,
    {client_fault:Metric} AS client_fault,
    {failed:Metric} AS failed,
    round(100 * {failed_share:Metric}, 2) AS failed_pct
FROM {requests:Rows}
WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY model
ORDER BY requests DESC
