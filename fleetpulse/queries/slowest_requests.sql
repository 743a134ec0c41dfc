-- The requests that waited longest for their first token over a range, with their traces.
SELECT
    toDateTime(intDiv(window_ms, 1000), 'UTC') AS window,
    model,
    engine_id,
    tenant,
    round(max(value_us) / 1000, 1) AS ttft_ms,
    request_id,
    any(trace_id) AS trace
FROM exemplars FINAL
WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND metric = 'ttft'
GROUP BY window, model, engine_id, tenant, request_id
ORDER BY ttft_ms DESC, request_id DESC
LIMIT 20
