-- What GPUs without a model cost, by host and hour.
SELECT
    owner AS host,
    intDiv(minute_ms, 3600000) * 3600000 AS hour_ms,
    sum(toInt128(total_nusd)) AS cost_nusd,
    sum(c.gpu_ms) AS gpu_ms
FROM costs AS c
WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64} AND use = 'idle'
GROUP BY host, hour_ms
ORDER BY host, hour_ms
