-- Why requests were not answered in full over a range, and where.
-- reads requests: llm.requests 10s <= 1h, 1m <= 1d, 1h
SELECT model, status, error_kind, sum(event_count) AS requests
FROM {requests:Rows}
WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND NOT {ok:End}
GROUP BY model, status, error_kind
ORDER BY requests DESC, model, status, error_kind
LIMIT 20
