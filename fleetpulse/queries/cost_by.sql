-- What each model, tenant or service class did and cost: how its requests ended, tokens, money, energy and emissions.
-- `dimension` is one of model, tenant, slo_class. What is nobody's in particular stands under its part of the bills
-- (nobody 1), so that costs, energy and GPU time add up to the bills. How requests ended is counted of all of them,
-- as windows have them; tokens and costs are of those with a bill, `requests` too. Bills do not know why a request
-- ended as it did: `unanswered_nusd` is of failed ones and client faults.
SELECT
    name,
    nobody,
    toUInt64(sum(billed)) AS requests,
    toUInt64(sum(was_ok)) AS ok,
    toUInt64(sum(was_aborted)) AS aborted,
    toUInt64(sum(was_client_fault)) AS client_fault,
    toUInt64(sum(was_failed)) AS failed,
    sum(prefill) AS prefill_tokens,
    sum(cached) AS cached_tokens,
    sum(decode) AS decode_tokens,
    sum(nusd) AS cost_nusd,
    sum(of_prefill) AS prefill_nusd,
    sum(of_decode) AS decode_nusd,
    sum(of_kv) AS kv_nusd,
    sum(of_aborted) AS aborted_nusd,
    sum(of_unanswered) AS unanswered_nusd,
    sum(mj) AS energy_mj,
    sum(ug) AS carbon_ug,
    sum(ms) AS gpu_ms
FROM
(
    SELECT
        ifNull({dimension:Identifier}, '') AS name, 0 AS nobody,
        sum(l.requests) AS billed, 0 AS was_ok, 0 AS was_aborted, 0 AS was_client_fault, 0 AS was_failed,
        sum(l.prefill_tokens) AS prefill, sum(l.cached_tokens) AS cached, sum(l.decode_tokens) AS decode,
        CAST(NULL, 'Nullable(Int128)') AS nusd, CAST(NULL, 'Nullable(Int128)') AS of_prefill,
        CAST(NULL, 'Nullable(Int128)') AS of_decode, CAST(NULL, 'Nullable(Int128)') AS of_kv,
        CAST(NULL, 'Nullable(Int128)') AS of_aborted, CAST(NULL, 'Nullable(Int128)') AS of_unanswered,
        CAST(NULL, 'Nullable(Int128)') AS mj, CAST(NULL, 'Nullable(Int128)') AS ug, CAST(NULL, 'Nullable(Int64)') AS ms
    FROM cost_lines AS l
    WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
    GROUP BY name
    UNION ALL
    SELECT
        if(status IS NULL, ifNull(part, ''), ifNull({dimension:Identifier}, '')) AS name, status IS NULL AS nobody,
        0, 0, 0, 0, 0, NULL, NULL, NULL,
        sum(toInt128(p.cost_nusd)),
        sumIf(toInt128(p.cost_nusd), kind = 'prefill' AND {ok:End}),
        sumIf(toInt128(p.cost_nusd), kind = 'decode' AND {ok:End}),
        sumIf(toInt128(p.cost_nusd), kind = 'kv' AND {ok:End}),
        sumIf(toInt128(p.cost_nusd), {aborted:End}),
        sumIf(toInt128(p.cost_nusd), {unanswered:End} AND status IS NOT NULL),
        sum(toInt128(p.energy_mj)), sum(toInt128(p.carbon_ug)), sum(p.gpu_ms)
    FROM cost_parts AS p
    WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
    GROUP BY name, nobody
    UNION ALL
    SELECT ifNull({dimension:Identifier}, '') AS name, 0, 0, {ok:Metric}, {aborted:Metric}, {client_fault:Metric}, {failed:Metric},
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM
    (
        SELECT {dimension:Identifier}, status, error_kind, event_count
        FROM llm_requests_rollup_1h FINAL
        WHERE grouping = 'service'
            AND window_ms >= intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
            AND window_ms < intDiv({to_ms:Int64}, 3600000) * 3600000
        UNION ALL
        SELECT {dimension:Identifier}, status, error_kind, event_count
        FROM llm_requests_rollup_1m FINAL
        WHERE grouping = 'service'
            AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            AND (window_ms < intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
                OR window_ms >= intDiv({to_ms:Int64}, 3600000) * 3600000)
    )
    GROUP BY name
)
GROUP BY name, nobody
ORDER BY nobody, cost_nusd DESC, name
