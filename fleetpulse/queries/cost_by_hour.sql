-- The money of each hour of a range, by what it went to.
SELECT intDiv(window_ms, 3600000) * 3600000 AS hour_ms, part, sum(toInt128(cost_nusd)) AS cost_nusd
FROM billed_parts(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 3600000) AS c
GROUP BY hour_ms, part
ORDER BY hour_ms, part
