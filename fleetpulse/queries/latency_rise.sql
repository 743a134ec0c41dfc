-- When a latency of each model rose most from one stretch of time to the next: p99 of time to first token by the minute, or another.
-- The biggest rise first, by its share of what was before. `width_ms` is the length of a stretch, a minute or a multiple of it;
-- `bins`, `quantile` and `model` as in who_slowed_model. Stretches of too few requests, and those after them, are left out.
-- param width_ms: length of a stretch [ms]
-- param bins: sketch of the latency
-- param quantile: which percentile, as a share
-- rows: 50
-- kept: 2
SELECT
    model,
    at_ms,
    before_ms,
    now_ms,
    requests
FROM
(
    SELECT
        model,
        at_ms,
        requests,
        value / 1e3 AS now_ms,
        lagInFrame(value) OVER stretches / 1e3 AS before_ms,
        lagInFrame(at_ms) OVER stretches AS last_ms
    FROM
    (
        SELECT
            model,
            intDiv(window_ms, {width_ms:Int64}) * {width_ms:Int64} AS at_ms,
            sumMap(bins) AS merged,
            arraySum(mapValues(merged)) AS requests,
            fp_quantile_linear({quantile:Float64}, merged) AS value
        FROM
        (
            SELECT model, window_ms, {bins:Identifier} AS bins
            FROM request_windows
            WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AND {model:String} IN ('', model)
        )
        GROUP BY model, at_ms
        HAVING requests >= 1 / (1 - {quantile:Float64})
    )
    WINDOW stretches AS (PARTITION BY model ORDER BY at_ms ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
)
WHERE last_ms = at_ms - {width_ms:Int64} AND before_ms > 0
ORDER BY now_ms / before_ms DESC, model, at_ms
LIMIT 1 BY model
LIMIT 50
