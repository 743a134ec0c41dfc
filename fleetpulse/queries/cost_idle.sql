-- What GPUs without a model cost, by host and hour.
SELECT
    owner AS host,
    intDiv(window_ms, 3600000) * 3600000 AS hour_ms,
    sum(toInt128(total_nusd)) AS cost_nusd,
    sum(c.gpu_ms) AS gpu_ms
FROM billed_owners(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 3600000) AS c
WHERE use = 'idle'
GROUP BY host, hour_ms
ORDER BY host, hour_ms
