-- Tokens that a hosted model would bill, by model and by the greatest of these prompt lengths that was exceeded.
SELECT
    model,
    toInt64(arrayMax(arrayFilter(bound -> bound < r.input_tokens, arrayConcat([-1], {bounds:Array(Int64)})))) AS above,
    count() AS requests,
    countIf(r.input_tokens IS NULL OR r.output_tokens IS NULL) AS unreported,
    toInt64(ifNull(sum(r.input_tokens), 0)) AS input_tokens,
    toInt64(ifNull(sumIf(least(ifNull(r.cached_tokens, 0), r.input_tokens), r.input_tokens IS NOT NULL), 0)) AS cached_tokens,
    toInt64(ifNull(sum(r.output_tokens), 0)) AS output_tokens
FROM llm_requests AS r FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64} AND verdict = 'accepted' AND NOT {unanswered:End}
GROUP BY model, above
ORDER BY model, above
