-- Second by second, the GPUs of an engine; throttled_us is of ten seconds, null but once in them.
-- rows: 20000
SELECT at_ms, gpu_uuid, util_gpu_pct, power_mw, temperature_c, clock_sm_mhz, memory_used_bytes, throttled_us, interval_ms
FROM gpu_samples FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
    AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000) AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
    AND verdict = 'accepted' AND engine_id = {engine_id:String}
ORDER BY gpu_uuid, at_ms
LIMIT 20000
