-- Energy, emissions and GPU time by place and hour; energy whose emissions are not known apart.
SELECT
    region,
    intDiv(window_ms, 3600000) * 3600000 AS hour_ms,
    sum(toInt128(c.energy_mj)) AS energy_mj,
    sum(toInt128(c.meter_mj)) AS meter_mj,
    sum(toInt128(c.carbon_ug)) AS carbon_ug,
    ifNull(sumIf(toInt128(c.energy_mj), c.meter_mj IS NULL), 0) AS unmetered_energy_mj,
    ifNull(sumIf(toInt128(c.energy_mj), c.carbon_ug IS NULL), 0) AS uncounted_energy_mj,
    sum(c.gpu_ms) AS gpu_ms
FROM billed(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 3600000) AS c
GROUP BY region, hour_ms
ORDER BY region, hour_ms
