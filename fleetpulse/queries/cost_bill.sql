-- The bill of a range: money, time, energy and emissions, what of it has no price (or no intensity of the grid), and with which prices it was rated.
SELECT
    sum(c.bills) AS bills,
    {of_bills:Billed} AS billed_ms,
    sum(toInt128(c.total_nusd)) AS total_nusd,
    sum(toInt128(c.gpu_nusd)) AS gpu_nusd,
    sum(toInt128(c.host_nusd)) AS host_nusd,
    sum(toInt128(c.energy_nusd)) AS energy_nusd,
    sum(c.gpu_ms) AS gpu_ms,
    sum(toInt128(c.energy_mj)) AS energy_mj,
    sum(toInt128(c.meter_mj)) AS meter_mj,
    sum(toInt128(c.carbon_ug)) AS carbon_ug,
    ifNull(sumIf(toInt128(c.energy_mj), c.carbon_ug IS NULL), 0) AS uncounted_energy_mj,
    sum(c.unpriced_gpu_ms) AS unpriced_gpu_ms,
    sum(toInt128(c.unpriced_energy_mj)) AS unpriced_energy_mj,
    sum(c.unmeasured_gpu_ms) AS unmeasured_gpu_ms,
    sum(c.estimated_gpu_ms) AS estimated_gpu_ms,
    sum(c.provisional) AS provisional_bills,
    min(oldest_ms) AS first_ms,
    max(newest_ms) + 60000 AS last_ms,
    arraySort(groupUniqArray(10)(toString(ifNull(prices_version, '')))) AS prices_versions,
    groupUniqArray(10)(toUInt32(weights_version)) AS weights_versions,
    groupUniqArray(10)(toUInt32(definition_version)) AS definition_versions
FROM billed(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS c
HAVING bills > 0
