-- The money of each hour of a range, by what it went to.
SELECT intDiv(minute_ms, 3600000) * 3600000 AS hour_ms, part, sum(toInt128(cost_nusd)) AS cost_nusd
FROM cost_parts
WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
GROUP BY hour_ms, part
ORDER BY hour_ms, part
