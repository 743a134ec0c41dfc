-- What the money of a range went to: requests, those not answered in full, start-up, unused, idle, training, unpriced.
SELECT
    part,
    if(part = '__overhead__', if(status IS NULL, 'start-up', 'not answered in full'), '') AS what,
    sum(toInt128(c.cost_nusd)) AS cost_nusd,
    sum(toInt128(c.energy_mj)) AS energy_mj,
    sum(toInt128(c.meter_mj)) AS meter_mj,
    sum(toInt128(c.carbon_ug)) AS carbon_ug,
    sum(c.gpu_ms) AS gpu_ms
FROM billed_parts(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS c
GROUP BY part, what
ORDER BY cost_nusd DESC, part, what
