-- With which prices the last hour of the range was rated.
-- rows: 20
SELECT toString(ifNull(prices_version, '')) AS version, max(minute_ms) AS last_ms
FROM token_costs
WHERE minute_ms >= greatest({from_ms:Int64}, {to_ms:Int64} - 3600000) AND minute_ms < {to_ms:Int64}
GROUP BY version
ORDER BY last_ms DESC, version
LIMIT 10
