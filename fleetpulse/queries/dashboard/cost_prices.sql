-- With which prices the last hour of the range that has bills was rated; of a bill as it was rated last.
-- rows: 20
SELECT toString(ifNull(prices_version, '')) AS version, max(minute_ms) AS last_ms
FROM token_costs FINAL
WHERE minute_ms >= {from_ms:Int64}
    AND minute_ms < {to_ms:Int64}
    AND minute_ms > (
        SELECT minute_ms
        FROM token_costs
        WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
        ORDER BY minute_ms DESC
        LIMIT 1
    ) - 3600000
GROUP BY version
ORDER BY last_ms DESC, version
LIMIT 10
