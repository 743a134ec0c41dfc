-- GPU time by UTC day, region and type: in the inventory, with readings, billed, silent; and what the last two cost.
-- Time without a reading of a GPU that was read in the last 24 hours is silent: no bill has it, `unobserved_nusd` is
-- what it costs at the price of its type. Billed money is GPU and host, as a provider bills them, without energy.
SELECT
    day,
    of_region AS region,
    of_model AS gpu_model,
    sum(inventory) AS inventory_gpu_ms,
    sum(reporting) AS reporting_gpu_ms,
    sum(billed) AS billed_gpu_ms,
    sum(silent) AS silent_gpu_ms,
    sum(toInt128(nusd)) AS billed_nusd,
    sum(toInt128(silent_nusd)) AS unobserved_nusd,
    toInt64(ifNull(sumIf(silent, silent > 0 AND silent_nusd IS NULL), 0)) AS unpriced_silent_gpu_ms
FROM
(
    SELECT
        intDiv(hour_ms, 86400000) AS day, region AS of_region, gpu_model AS of_model, inventory_gpu_ms AS inventory,
        reporting_gpu_ms AS reporting, toInt64(0) AS billed, silent_gpu_ms AS silent,
        CAST(NULL, 'Nullable(Int128)') AS nusd, unobserved_nusd AS silent_nusd
    FROM gpu_coverage(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64})
    UNION ALL
    SELECT
        intDiv(window_ms, 86400000), ifNull(region, ''), ifNull(gpu_model, ''), 0, 0, gpu_ms, 0,
        toInt128(gpu_nusd) + ifNull(host_nusd, 0), NULL
    FROM billed(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000)
)
GROUP BY day, region, gpu_model
ORDER BY day, region, gpu_model
