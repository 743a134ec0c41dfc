-- Which tenant of a model explains most of a change of its p99 of time to first token, or of another percentile and latency.
-- Between two ranges of one length. The models that got slower most come first; `model` is one of them, or empty for all;
-- `bins` is the column of the latency, `quantile` 0.99 for p99. What a tenant explains would not have happened had it alone
-- stayed as it was before, with the share of requests that it had then; null where the whole did not rise by a tenth, or is of too few requests to say.
-- reads requests: llm.requests 10s <= 1h, 1m <= 1d, 1h
SELECT
    model,
    tenant,
    percentiles[1] / 1e3 AS before_ms,
    percentiles[2] / 1e3 AS now_ms,
    if(
        model_now_ms - model_before_ms < 0.1 * model_before_ms OR least(model_requests_before, model_requests_now) < 1 / (1 - {quantile:Float64}),
        NULL,
        round(0 + 100 * (percentiles[5] / 1e3 - percentiles[6] / 1e3) / nullIf(model_now_ms - model_before_ms, 0), 1)
    ) AS explains_pct,
    requests_before,
    requests_now,
    percentiles[3] / 1e3 AS model_before_ms,
    percentiles[4] / 1e3 AS model_now_ms,
    sum(requests_before) OVER (PARTITION BY model) AS model_requests_before,
    sum(requests_now) OVER (PARTITION BY model) AS model_requests_now
FROM
(
    SELECT
        *,
        arraySum(mapValues(was)) AS requests_before,
        arraySum(mapValues(is)) AS requests_now,
        sumMap(was) OVER (PARTITION BY model) AS all_was,
        sumMap(is) OVER (PARTITION BY model) AS all_is,
        ifNull(1000. * arraySum(mapValues(all_is)) / nullIf(arraySum(mapValues(all_was)), 0), 0) AS thousandths,
        mapApply((k, v) -> (k, 1000 * v), all_is) AS with_it,
        mapApply((k, v) -> (k, 1000 * v), mapSubtract(all_is, is)) AS others,
        mapApply((k, v) -> (k, toUInt64(round(thousandths * v))), was) AS instead,
        mapFilter((k, v) -> v > 0, mapAdd(others, instead)) AS without_it,
        arrayMap(of -> fp_quantile_linear({quantile:Float64}, of), [was, is, all_was, all_is, with_it, without_it]) AS percentiles
    FROM
    (
        SELECT
            model,
            tenant,
            sumMapIf(bins, in_was) AS was,
            sumMapIf(bins, in_is) AS is
        FROM
        (
            SELECT model, tenant, {bins:Identifier} AS bins, false AS in_was, true AS in_is
            FROM {requests:Rows}
            WHERE grouping = 'service'
            UNION ALL
            SELECT model, tenant, {bins:Identifier} AS bins, true AS in_was, false AS in_is
            FROM {requests:Before}
            WHERE grouping = 'service'
        )
        WHERE {model:String} IN ('', model)
        GROUP BY model, tenant
    )
)
ORDER BY model_now_ms - model_before_ms DESC NULLS LAST, model, abs(explains_pct) DESC NULLS LAST, requests_now DESC, tenant
LIMIT 10 BY model
LIMIT 50
