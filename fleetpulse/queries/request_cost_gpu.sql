-- GPU time and energy by tenant, in all and of a request; what is nobody's in particular stands under null.
-- The sums over all rows are the GPU time and the energy of the GPUs themselves, as their counters have it. Energy that was
-- not measured is in no sum (unmeasured_gpu_ms of the bills). Requests are counted in the minute in which they ended.
SELECT
    p.tenant AS tenant,
    ifNull(l.requests, 0) AS requests,
    p.gpu_ms AS gpu_ms,
    p.energy_mj AS energy_mj,
    p.work_gpu_ms AS work_gpu_ms,
    p.work_energy_mj AS work_energy_mj,
    if(tenant IS NULL, NULL, gpu_ms / nullIf(requests, 0)) AS gpu_ms_per_request,
    if(tenant IS NULL, NULL, energy_mj / nullIf(requests, 0)) AS energy_mj_per_request
FROM
(
    SELECT
        tenant,
        sum(toInt128(c.gpu_ms)) AS gpu_ms,
        sum(toInt128(c.energy_mj)) AS energy_mj,
        sumIf(toInt128(c.gpu_ms), c.kind IN ('prefill', 'decode', 'kv')) AS work_gpu_ms,
        sumIf(toInt128(c.energy_mj), c.kind IN ('prefill', 'decode', 'kv')) AS work_energy_mj
    FROM cost_parts AS c
    WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
    GROUP BY tenant
) AS p
LEFT JOIN
(
    SELECT tenant, sum(requests) AS requests
    FROM cost_lines
    WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
    GROUP BY tenant
) AS l ON p.tenant <=> l.tenant
ORDER BY energy_mj DESC, tenant
