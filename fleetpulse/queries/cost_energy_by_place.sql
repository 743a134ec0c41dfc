-- Energy and GPU time by place, type of GPU and hour: what emissions and the prices in force are looked up by.
SELECT
    region,
    gpu_model,
    intDiv(minute_ms, 3600000) * 3600000 AS hour_ms,
    sum(toInt128(c.energy_mj)) AS energy_mj,
    sum(c.gpu_ms) AS gpu_ms
FROM costs AS c
WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
GROUP BY region, gpu_model, hour_ms
ORDER BY region, gpu_model, hour_ms
