-- What each tenant cost, and what of it was for requests that failed.
-- rows: 2000
-- seconds: 5
SELECT
    tenant,
    sum(cost_nusd) AS cost,
    sumIf(cost_nusd, part = '__overhead__') AS lost,
    sum(energy_mj) AS used_mj,
    sum(gpu_ms) AS gpu_time_ms
FROM cost_parts
WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64} AND tenant IS NOT NULL
    AND ({region:String} = '' OR region = {region:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
    AND ({model:String} = '' OR model = {model:String})
GROUP BY tenant
ORDER BY cost DESC, tenant
LIMIT 1000
