-- Why requests were not answered in full over a range, and where.
SELECT model, status, error_kind, sum(event_count) AS requests
FROM llm_requests_partials FINAL
WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND NOT {ok:End}
GROUP BY model, status, error_kind
ORDER BY requests DESC
LIMIT 20
