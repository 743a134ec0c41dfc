-- What each tenant cost, and what of it was for requests that failed.
-- reads bills: costs 1m <= 6h, 1h <= 60d, 1d
-- rows: 2000
-- seconds: 5
SELECT
    tenant,
    sum(toInt128(cost_nusd)) AS cost,
    sumIf(toInt128(cost_nusd), name = '__overhead__') AS lost,
    sum(toInt128(energy_mj)) AS used_mj,
    sum(toInt128(carbon_ug)) AS emitted_ug,
    sum(gpu_ms) AS gpu_time_ms
FROM
(
    SELECT tenant, name, cost_nusd, energy_mj, carbon_ug, gpu_ms
    FROM {bills:Rows} AS r
    ARRAY JOIN
        r.part_name AS name,
        r.part_tenant AS tenant,
        r.part_model AS model,
        r.part_region AS region,
        r.part_cost_nusd AS cost_nusd,
        r.part_energy_mj AS energy_mj,
        arrayResize(r.part_carbon_ug, length(r.part_name), NULL) AS carbon_ug,
        r.part_gpu_ms AS gpu_ms
    WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND tenant IS NOT NULL
        AND ({region:String} = '' OR region = {region:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND ({model:String} = '' OR model = {model:String})
)
GROUP BY tenant
ORDER BY cost DESC, tenant
LIMIT 1000
