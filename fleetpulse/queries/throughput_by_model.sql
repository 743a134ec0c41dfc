-- What each model did over a range: requests, tokens, failures.
SELECT
    model,
    sum(event_count) AS requests,
    round(requests / {seconds:Float64}, 1) AS requests_per_s,
    sum(input_tokens_sum) AS input_tokens,
    sum(output_tokens_sum) AS output_tokens,
    round(output_tokens / {seconds:Float64}) AS output_tokens_per_s,
    sumIf(event_count, status != 'ok') AS failed,
    round(100 * failed / requests, 2) AS failed_pct
FROM request_windows
WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY model
ORDER BY requests DESC
