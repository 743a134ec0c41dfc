-- What requests cost that were not answered in full, by how they ended and whose they were.
-- The fifty dearest, and all others as one row behind them (status `others`): rows add up to the cost of such requests.
SELECT
    if(place > 50, 'others', of_status) AS status,
    if(place > 50, NULL, of_model) AS model,
    if(place > 50, NULL, of_tenant) AS tenant,
    sum(cost) AS cost_nusd,
    sum(energy) AS energy_mj,
    sum(meter) AS meter_mj,
    sum(carbon) AS carbon_ug
FROM
(
    SELECT
        toString(status) AS of_status,
        model AS of_model,
        tenant AS of_tenant,
        sum(toInt128(p.cost_nusd)) AS cost,
        sum(toInt128(p.energy_mj)) AS energy,
        sum(toInt128(p.meter_mj)) AS meter,
        sum(toInt128(p.carbon_ug)) AS carbon,
        row_number() OVER (ORDER BY cost DESC, of_status, of_model, of_tenant) AS place
    FROM billed_parts(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS p
    WHERE status IS NOT NULL AND NOT {ok:End}
    GROUP BY of_status, of_model, of_tenant
)
GROUP BY status, model, tenant
ORDER BY status = 'others', cost_nusd DESC, status, model, tenant
