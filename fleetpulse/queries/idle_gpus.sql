-- What GPUs cost that computed nothing, by why and type, and all together; in 30 days at the rate of the minutes billed.
WITH
    (
        SELECT uniqExact(minute_ms)
        FROM costs
        WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
    ) AS minutes
SELECT
    if(grouping(reason) = 1, 'all', reason) AS why,
    gpu_type AS gpu_model,
    sum(toInt128(p.gpu_ms)) AS gpu_ms,
    sum(toInt128(p.cost_nusd)) AS cost_nusd,
    43200 * (cost_nusd / minutes) AS of_30_days_nusd,
    minutes AS billed_minutes
FROM
(
    SELECT
        if(part = '__idle__', 'no model loaded', 'a model loaded, no tokens') AS reason,
        ifNull(c.gpu_model, 'several types') AS gpu_type,
        c.gpu_ms AS gpu_ms,
        c.cost_nusd AS cost_nusd
    FROM cost_parts AS c
    WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64} AND part IN ('__idle__', '__wasted__')
) AS p
GROUP BY GROUPING SETS ((reason, gpu_type), ())
HAVING count() > 0
ORDER BY why = 'all' DESC, cost_nusd DESC, why, gpu_model
