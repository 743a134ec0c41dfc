-- What the requests of each model cost on each engine, and their tokens: by this an engine's bill is shared out.
-- `priced_tokens` are those of bills with a cost.
SELECT
    engine_id,
    model,
    parts.cost_nusd AS cost_nusd,
    parts.gpu_ms AS gpu_ms,
    lines.requests AS requests,
    lines.prompt_tokens AS prompt_tokens,
    lines.decode_tokens AS decode_tokens,
    lines.priced_tokens AS priced_tokens
FROM
(
    SELECT
        owner AS engine_id,
        ifNull(model, '') AS model,
        sum(l.requests) AS requests,
        sum(ifNull(l.prefill_tokens, 0) + ifNull(l.cached_tokens, 0)) AS prompt_tokens,
        sum(ifNull(l.decode_tokens, 0)) AS decode_tokens,
        sumIf(ifNull(l.prefill_tokens, 0) + ifNull(l.cached_tokens, 0) + ifNull(l.decode_tokens, 0), l.unpriced IS NULL)
            AS priced_tokens
    FROM billed_owner_lines(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS l
    WHERE use = 'engine'
    GROUP BY engine_id, model
) AS lines
LEFT JOIN
(
    SELECT owner AS engine_id, ifNull(model, '') AS model, sum(toInt128(p.cost_nusd)) AS cost_nusd,
        sum(p.gpu_ms) AS gpu_ms
    FROM billed_owner_parts(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS p
    WHERE use = 'engine' AND status IS NOT NULL
    GROUP BY engine_id, model
) AS parts USING (engine_id, model)
ORDER BY engine_id, model
