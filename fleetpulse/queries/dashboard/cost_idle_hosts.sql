-- Hosts by what their GPUs cost while no model was loaded, and engines by what they cost while no token was computed.
-- rows: 200
-- seconds: 5
SELECT owner, any(use) AS what, any(gpu_model) AS a_gpu, sum(gpu_ms) AS gpu_time_ms, sum(cost_nusd) AS cost
FROM cost_parts
WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64} AND part IN ('__idle__', '__wasted__')
    AND ({region:String} = '' OR region = {region:String})
GROUP BY owner
ORDER BY cost DESC, owner
LIMIT 100
