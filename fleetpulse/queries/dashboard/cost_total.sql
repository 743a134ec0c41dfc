-- The bill of the range: money, GPU time, energy, emissions, what of it has no price, how much may still change.
-- reads bills: costs 1m <= 6h, 1h <= 60d, 1d
-- rows: 2
SELECT
    sum(count) AS bills,
    sum(toInt128(total_nusd)) AS total,
    sum(toInt128(gpu_nusd)) AS gpu,
    sum(toInt128(host_nusd)) AS hosts,
    sum(toInt128(energy_nusd)) AS energy,
    sum(gpu_ms) AS gpu_time_ms,
    sum(toInt128(meter_mj)) AS used_mj,
    sumIf(toInt128(energy_mj), meter_mj IS NULL) AS unmetered_mj,
    sum(toInt128(carbon_ug)) AS emitted_ug,
    sumIf(toInt128(energy_mj), carbon_ug IS NULL) AS uncounted_mj,
    sum(unpriced_gpu_ms) AS unpriced_ms,
    ifNull(sumIf(unpriced_gpu_ms, gpu_nusd IS NULL), 0) AS no_gpu_price_ms,
    sum(estimated_gpu_ms) AS estimated_ms,
    sumIf(toInt128(total_nusd), use = 'idle') AS idle,
    sum(provisional) AS provisional,
    {of_rollup:Billed} AS billed_ms
FROM
(
    SELECT count, provisional, use, total_nusd, gpu_nusd, host_nusd, energy_nusd,
        gpu_ms, energy_mj, meter_mj, carbon_ug, unpriced_gpu_ms, estimated_gpu_ms
    FROM {bills:Rows} AS r
    ARRAY JOIN
        r.bill_count AS count,
        r.bill_provisional AS provisional,
        r.bill_use AS use,
        r.bill_total_nusd AS total_nusd,
        r.bill_gpu_nusd AS gpu_nusd,
        r.bill_host_nusd AS host_nusd,
        r.bill_energy_nusd AS energy_nusd,
        r.bill_gpu_ms AS gpu_ms,
        r.bill_energy_mj AS energy_mj,
        arrayResize(r.bill_meter_mj, length(r.bill_use), NULL) AS meter_mj,
        arrayResize(r.bill_carbon_ug, length(r.bill_use), NULL) AS carbon_ug,
        r.bill_unpriced_gpu_ms AS unpriced_gpu_ms,
        r.bill_estimated_gpu_ms AS estimated_gpu_ms,
        r.bill_region AS region
    WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({region:String} = '' OR region = {region:String})
)
