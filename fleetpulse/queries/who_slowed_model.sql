-- Which tenant of a model explains most of a change of its p99 of time to first token between two ranges of one length.
-- The models that got slower most come first; `model` is one of them, or empty for all. What a tenant explains would not
-- have happened had it alone stayed as it was before; one p99 says something of 100 or more requests.
SELECT
    model,
    tenant,
    fp_quantile_linear(0.99, was) / 1e3 AS before_ms,
    fp_quantile_linear(0.99, is) / 1e3 AS now_ms,
    round(0 + 100 * (model_now_ms - without_ms) / nullIf(model_now_ms - model_before_ms, 0), 1) AS explains_pct,
    requests_before,
    requests_now,
    fp_quantile_linear(0.99, all_was) / 1e3 AS model_before_ms,
    fp_quantile_linear(0.99, all_is) / 1e3 AS model_now_ms
FROM
(
    SELECT
        *,
        sumMap(was) OVER (PARTITION BY model) AS all_was,
        sumMap(is) OVER (PARTITION BY model) AS all_is,
        fp_quantile_linear(0.99, mapFilter((k, v) -> v > 0, mapAdd(mapSubtract(all_is, is), was))) / 1e3 AS without_ms
    FROM
    (
        SELECT
            model,
            tenant,
            sumMapIf(ttft_us_bins, in_was) AS was,
            sumMapIf(ttft_us_bins, in_is) AS is,
            sumIf(ttft_us_count, in_was) AS requests_before,
            sumIf(ttft_us_count, in_is) AS requests_now
        FROM
        (
            SELECT
                model,
                tenant,
                ttft_us_bins,
                ttft_us_count,
                window_ms >= {before_from_ms:Int64} AND window_ms < {before_to_ms:Int64} AS in_was,
                window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64} AS in_is
            FROM request_windows
            WHERE in_was OR in_is
        )
        WHERE {model:String} IN ('', model)
        GROUP BY model, tenant
    )
)
ORDER BY model_now_ms - model_before_ms DESC NULLS LAST, model, abs(explains_pct) DESC NULLS LAST, tenant
LIMIT 10 BY model
LIMIT 50
