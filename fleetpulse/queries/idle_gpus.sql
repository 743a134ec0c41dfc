-- What GPUs cost that computed nothing, with their hosts and energy, by why and type; in 30 days at the rate of the time billed.
-- `gpus` is how many they were on average, `gpu_hour_nusd` what an hour of one cost.
-- Beside it, as `__unobserved__`, those of the last 24 hours that gave no reading: they are in no bill (gpu_coverage).
-- `provisional_bills` (they may still change) and `estimated_gpu_ms` (billed for gaps between readings) are of all bills of the range.
WITH
    {of_bills:Billed} AS billed_ms,
    (
        SELECT (countIf(c.final = 0), sum(c.estimated_gpu_ms))
        FROM costs AS c
        WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
    ) AS unsure
SELECT
    reason AS why,
    gpu_type AS gpu_model,
    round(time_ms / nullIf(billed_ms, 0), 2) AS gpus,
    time_ms AS gpu_ms,
    nusd AS cost_nusd,
    round(3600000 * (nusd / nullIf(time_ms, 0))) AS gpu_hour_nusd,
    {of_30_days_nusd:Metric} AS cost_of_30_days_nusd,
    billed_ms,
    unsure.1 AS provisional_bills,
    unsure.2 AS estimated_gpu_ms
FROM
(
    SELECT
        if(grouping(what) = 1, 'all in bills', what) AS reason,
        type AS gpu_type,
        sum(toInt128(ms)) AS time_ms,
        sum(toInt128(part_nusd)) AS nusd
    FROM
    (
        SELECT
            if(part = '__idle__', 'no model loaded', 'a model loaded, no tokens') AS what,
            ifNull(c.gpu_model, 'several types') AS type,
            c.gpu_ms AS ms,
            c.cost_nusd AS part_nusd
        FROM cost_parts AS c
        WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64} AND part IN ('__idle__', '__wasted__')
    )
    GROUP BY GROUPING SETS ((what, type), ())
    HAVING count() > 0
    UNION ALL
    SELECT 'no reading: __unobserved__', s.gpu_model, sum(toInt128(s.silent_gpu_ms)), sum(toInt128(s.unobserved_nusd))
    FROM gpu_coverage(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}) AS s
    WHERE s.silent_gpu_ms > 0
    GROUP BY s.gpu_model
)
ORDER BY why = 'all in bills' DESC, why LIKE 'no reading%', cost_nusd DESC, why, gpu_model
