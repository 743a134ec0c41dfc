-- What single requests would cost at the list price of a hosted model, in nano-dollars, beside the tokens it would bill.
-- Prices are nano-dollars a million tokens (2.50 USD: 2500000000), as `fleetpulse prices show --model NAME` has them in USD.
-- The page Request does the same from the price file, by the prices of each prompt length. Null: the request did not report
-- its tokens, or it failed, for which hosts bill nothing. Rounded half to even.
-- param request_id: request id or trace id; an empty text takes all
-- param input_nusd: of prompt tokens that were computed
-- param cached_nusd: of prompt tokens from a cache; that of computed ones where the host has no cache
-- param output_nusd: of tokens generated
-- rows: 1000
WITH
    billed AS (
        SELECT
            request_id, at_ms, tenant, model, status, source, boot, seq, row, input_tokens, output_tokens,
            least(ifNull(cached_tokens, 0), input_tokens) AS cached,
            if(NOT {unanswered:End}, toInt256(input_tokens - cached) * {input_nusd:Int64}
                + toInt256(cached) * {cached_nusd:Int64} + toInt256(output_tokens) * {output_nusd:Int64}, NULL) AS amount,
            intDiv(amount, 1000000) AS whole,
            amount - whole * 1000000 AS left_over
        FROM llm_requests FINAL
        WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
            AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000)
            AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
            AND verdict = 'accepted'
            AND ({request_id:String} = '' OR request_id = {request_id:String} OR trace_id = {request_id:String})
    )
SELECT
    request_id,
    at_ms AS ended_ms,
    tenant,
    model,
    status,
    input_tokens AS tokens_in,
    cached AS tokens_cached,
    output_tokens AS tokens_out,
    whole + (left_over > 500000 OR (left_over = 500000 AND whole % 2 = 1)) AS list_nusd
FROM billed
ORDER BY list_nusd DESC NULLS LAST, request_id, source, boot, seq, row
LIMIT 1000
