-- The requests that waited longest for their first token: whose, on which GPUs, and where the time went (view slow_requests).
SELECT
    ended,
    tenant,
    model,
    engine_id,
    round(ttft_us / 1000, 1) AS ttft_ms,
    round(queue_us / 1000, 1) AS queue_ms,
    round(prefill_us / 1000, 1) AS prefill_ms,
    round(generation_us / 1000, 1) AS generation_ms,
    round(e2e_us / 1000, 1) AS e2e_ms,
    input_tokens,
    output_tokens,
    status,
    gpu_uuids,
    request_id,
    trace_id
FROM slow_requests(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64})
WHERE ttft_us IS NOT NULL
ORDER BY ttft_us DESC, at_ms DESC, request_id
LIMIT 20
