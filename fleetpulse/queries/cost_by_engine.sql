-- The bill of every engine: what requests, start-up and waiting cost, and the tokens for it.
-- `failed_nusd` is of requests that were not answered in full.
SELECT
    owner AS engine_id,
    any(b.gpu_model) AS gpu_model,
    any(b.host) AS host,
    any(b.total_nusd) AS total_nusd,
    sumIf(toInt128(p.cost_nusd), part = 'request') AS request_nusd,
    sumIf(toInt128(p.cost_nusd), part = '__overhead__' AND status IS NOT NULL) AS failed_nusd,
    sumIf(toInt128(p.cost_nusd), part = '__overhead__' AND status IS NULL) AS startup_nusd,
    sumIf(toInt128(p.cost_nusd), part IN ('__wasted__', '__unattributed__')) AS unused_nusd,
    any(b.energy_mj) AS energy_mj,
    any(b.carbon_ug) AS carbon_ug,
    any(b.gpu_ms) AS gpu_ms
FROM billed_owner_parts(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS p
INNER JOIN
(
    SELECT
        owner,
        if(uniqExact(c.gpu_model) = 1, any(c.gpu_model), NULL) AS gpu_model,
        if(uniqExact(c.host) = 1, any(c.host), NULL) AS host,
        sum(toInt128(c.total_nusd)) AS total_nusd,
        sum(toInt128(c.energy_mj)) AS energy_mj,
        sum(toInt128(c.carbon_ug)) AS carbon_ug,
        sum(c.gpu_ms) AS gpu_ms
    FROM billed_owners(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS c
    WHERE use = 'engine'
    GROUP BY owner
) AS b USING (owner)
WHERE p.use = 'engine'
GROUP BY owner
ORDER BY total_nusd DESC, engine_id
