-- What the requests of each tenant cost; null where nothing had a price.
-- rows: 2000
-- seconds: 5
SELECT tenant, sum(cost_nusd) AS cost, sum(energy_mj) AS energy
FROM cost_parts
WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64} AND tenant IS NOT NULL
    AND ({region:String} = '' OR region = {region:String})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY tenant
ORDER BY cost DESC, tenant
LIMIT 1000
