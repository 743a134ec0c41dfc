-- When a latency of each model rose most from one stretch of time to the next: p99 of time to first token by the minute, or another.
-- The biggest rise first, by its share of what was before. `width_ms` is the length of a stretch, a minute or a multiple of it;
-- `bins`, `quantile` and `model` as in who_slowed_model. Left out are stretches of too few requests, those after them, and those
-- after the first that follows a gap: what a model does while it starts is nothing to compare with. Minutes are read as such where rows of 10 s are no longer kept.
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
        lagInFrame(requests) OVER stretches AS requests_before,
        lagInFrame(at_ms) OVER stretches AS last_ms,
        lagInFrame(at_ms, 2) OVER stretches AS first_ms
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
            FROM llm_requests_partials FINAL
            WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} - 2 * {width_ms:Int64} AND window_ms < {to_ms:Int64} AND {model:String} IN ('', model)
            UNION ALL
            SELECT model, window_ms, {bins:Identifier} AS bins
            FROM llm_requests_rollup_1m FINAL
            WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} - 2 * {width_ms:Int64} AND {model:String} IN ('', model)
                AND window_ms < intDiv(ifNull((
                    SELECT minOrNull(window_ms)
                    FROM llm_requests_partials
                    WHERE window_ms >= {from_ms:Int64} - 2 * {width_ms:Int64} AND window_ms < {to_ms:Int64}
                ), {to_ms:Int64}), 60000) * 60000
        )
        GROUP BY model, at_ms
    )
    WINDOW stretches AS (PARTITION BY model ORDER BY at_ms ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
)
WHERE at_ms >= {from_ms:Int64}
    AND last_ms = at_ms - {width_ms:Int64}
    AND first_ms = last_ms - {width_ms:Int64}
    AND least(requests, requests_before) >= 1 / (1 - {quantile:Float64})
    AND before_ms > 0
ORDER BY now_ms / before_ms DESC, model, at_ms
LIMIT 1 BY model
LIMIT 50
