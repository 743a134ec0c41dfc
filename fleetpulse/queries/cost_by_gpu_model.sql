-- The bill by type of GPU: hours, money, energy, the tokens computed on it. Engines on several types stand apart.
-- `priced_gpu_ms` and `priced_nusd` are of bills that lack no price of a GPU or host: what an hour of it came to.
-- `priced_tokens`, `metered_tokens` and `counted_tokens` are of bills with a cost, energy at the meter and CO2e.
SELECT
    gpu_model,
    bills.gpu_ms AS gpu_ms,
    bills.total_nusd AS total_nusd,
    bills.idle_nusd AS idle_nusd,
    bills.energy_mj AS energy_mj,
    bills.meter_mj AS meter_mj,
    bills.carbon_ug AS carbon_ug,
    bills.unpriced_gpu_ms AS unpriced_gpu_ms,
    bills.priced_gpu_ms AS priced_gpu_ms,
    bills.priced_nusd AS priced_nusd,
    lines.requests AS requests,
    lines.prompt_tokens AS prompt_tokens,
    lines.decode_tokens AS decode_tokens,
    lines.priced_tokens AS priced_tokens,
    lines.metered_tokens AS metered_tokens,
    lines.counted_tokens AS counted_tokens
FROM
(
    SELECT
        ifNull(gpu_model, 'several types') AS gpu_model,
        sum(c.gpu_ms) AS gpu_ms,
        sum(toInt128(c.total_nusd)) AS total_nusd,
        sumIf(toInt128(c.total_nusd), use = 'idle') AS idle_nusd,
        sum(toInt128(c.energy_mj)) AS energy_mj,
        sum(toInt128(c.meter_mj)) AS meter_mj,
        sum(toInt128(c.carbon_ug)) AS carbon_ug,
        sum(c.unpriced_gpu_ms) AS unpriced_gpu_ms,
        ifNull(sumIf(c.gpu_ms, c.unpriced_gpu_ms = 0), 0) AS priced_gpu_ms,
        sumIf(toInt128(c.total_nusd), c.unpriced_gpu_ms = 0) AS priced_nusd
    FROM billed(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS c
    GROUP BY gpu_model
) AS bills
LEFT JOIN
(
    WITH ifNull(l.prefill_tokens, 0) + ifNull(l.cached_tokens, 0) + ifNull(l.decode_tokens, 0) AS tokens
    SELECT
        ifNull(gpu_model, 'several types') AS gpu_model,
        sum(l.requests) AS requests,
        sum(ifNull(l.prefill_tokens, 0) + ifNull(l.cached_tokens, 0)) AS prompt_tokens,
        sum(ifNull(l.decode_tokens, 0)) AS decode_tokens,
        sumIf(tokens, l.unpriced IS NULL) AS priced_tokens,
        sumIf(tokens, l.unmetered IS NULL) AS metered_tokens,
        sumIf(tokens, l.uncounted IS NULL) AS counted_tokens
    FROM billed_lines(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS l
    GROUP BY gpu_model
) AS lines USING (gpu_model)
ORDER BY total_nusd DESC, gpu_model
