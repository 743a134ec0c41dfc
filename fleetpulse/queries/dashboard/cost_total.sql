-- The bill of the range: money, GPU time, energy, what of it has no price, how much may still change.
-- rows: 2
-- seconds: 5
SELECT
    count() AS bills,
    sum(c.total_nusd) AS total,
    sum(c.gpu_nusd) AS gpu,
    sum(c.host_nusd) AS hosts,
    sum(c.energy_nusd) AS energy,
    sum(c.gpu_ms) AS gpu_time_ms,
    sum(c.energy_mj) AS used_mj,
    sum(c.unpriced_gpu_ms) AS unpriced_ms,
    sum(c.estimated_gpu_ms) AS estimated_ms,
    sumIf(c.total_nusd, c.use = 'idle') AS idle,
    countIf(c.final = 0) AS provisional,
    max(c.minute_ms) AS newest_ms
FROM costs AS c
WHERE c.minute_ms >= {from_ms:Int64} AND c.minute_ms < {to_ms:Int64}
    AND ({region:String} = '' OR c.region = {region:String})
