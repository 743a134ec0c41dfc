-- What each tenant cost, and what of it was for requests that were not answered in full; energy and CO2e with PUE.
-- What is of no request (nobody 1) has a row for each part of the bills, so that the rows add up to the bills;
-- of_requests is what all requests cost, also those of tenants without a row.
-- reads bills: costs 1m <= 6h, 1h <= 60d, 1d
-- rows: 2000
SELECT
    if(status IS NULL, ifNull(name, ''), ifNull(of_tenant, '')) AS tenant,
    status IS NULL AS nobody,
    sum(toInt128(cost_nusd)) AS cost,
    sumIf(toInt128(cost_nusd), status IS NOT NULL AND {aborted:End}) AS aborted,
    sumIf(toInt128(cost_nusd), status IS NOT NULL AND {unanswered:End}) AS unanswered,
    sum(toInt128(meter_mj)) AS used_mj,
    sum(toInt128(carbon_ug)) AS emitted_ug,
    sum(gpu_ms) AS gpu_time_ms,
    sumIf(cost, NOT nobody) OVER () AS of_requests
FROM
(
    SELECT of_tenant, name, status, cost_nusd, meter_mj, carbon_ug, gpu_ms
    FROM {bills:Rows} AS r
    ARRAY JOIN
        r.part_name AS name,
        r.part_tenant AS of_tenant,
        r.part_status AS status,
        r.part_model AS model,
        r.part_region AS region,
        r.part_cost_nusd AS cost_nusd,
        arrayResize(r.part_meter_mj, length(r.part_name), NULL) AS meter_mj,
        arrayResize(r.part_carbon_ug, length(r.part_name), NULL) AS carbon_ug,
        r.part_gpu_ms AS gpu_ms
    WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({region:String} = '' OR region = {region:String})
        AND ({tenant:String} = '' OR of_tenant = {tenant:String})
        AND ({model:String} = '' OR model = {model:String})
)
GROUP BY tenant, nobody
ORDER BY nobody, cost DESC, tenant
LIMIT 1000
