-- Hosts whose clock is more than a second off the broker's, by what their producers measured last; furthest first.
-- rows: 100
SELECT
    p.host AS host,
    argMax(p.clock_skew_ms, p.at_ms) AS skew_ms,
    max(p.at_ms) AS reported_ms
FROM producer_books AS p FINAL
WHERE p.at_ms >= {from_ms:Int64} AND p.clock_skew_ms IS NOT NULL
GROUP BY p.host
HAVING abs(skew_ms) > 1000
ORDER BY abs(skew_ms) DESC, host
LIMIT 100
