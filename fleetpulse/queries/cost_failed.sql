-- What requests cost that were not answered in full, by how they ended and whose they were.
SELECT
    status,
    model,
    tenant,
    sum(toInt128(p.cost_nusd)) AS cost_nusd,
    sum(toInt128(p.energy_mj)) AS energy_mj,
    sum(toInt128(p.meter_mj)) AS meter_mj,
    sum(toInt128(p.carbon_ug)) AS carbon_ug
FROM billed_parts(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS p
WHERE status IS NOT NULL AND NOT {ok:End}
GROUP BY status, model, tenant
ORDER BY cost_nusd DESC, status, model, tenant
LIMIT 50
