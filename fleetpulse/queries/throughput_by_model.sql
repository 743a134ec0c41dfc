-- What each model did over a range: requests, tokens, failures. Rates are of the time with data, gaps up to 5 min included.
WITH
    (
        SELECT arrayDifference(arraySort(groupUniqArray(window_ms)))
        FROM
        (
            SELECT window_ms FROM request_windows WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            UNION ALL
            SELECT window_ms FROM host_windows WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        )
    ) AS gaps_ms,
    (10000 + arraySum(gap_ms -> if(gap_ms <= 300000, gap_ms, 10000), arrayPopFront(gaps_ms))) / 1000 AS covered_s
SELECT
    model,
    {requests:Metric} AS requests,
    round(requests / covered_s, 1) AS requests_per_s,
    sum(input_tokens_sum) AS input_tokens,
    sum(output_tokens_sum) AS output_tokens,
    round(output_tokens / covered_s) AS output_tokens_per_s,
    {ok:Metric} AS ok,
    {aborted:Metric} AS aborted,
    {client_fault:Metric} AS client_fault,
    {failed:Metric} AS failed,
    round(100 * {failed_share:Metric}, 2) AS failed_pct
FROM request_windows
WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY model
ORDER BY requests DESC
