-- Second by second, how full an engine was.
-- rows: 5000
SELECT at_ms, running, waiting, kv_used_ppm
FROM engine_samples FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
    AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000) AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
    AND verdict = 'accepted' AND engine_id = {engine_id:String}
ORDER BY at_ms
LIMIT 5000
