-- What each model, tenant or service class did and cost: requests, tokens, money, energy and emissions, failed requests apart.
-- `dimension` is one of model, tenant, slo_class.
SELECT
    name,
    lines.requests AS requests,
    lines.failed AS failed,
    lines.prefill_tokens AS prefill_tokens,
    lines.cached_tokens AS cached_tokens,
    lines.decode_tokens AS decode_tokens,
    parts.cost_nusd AS cost_nusd,
    parts.prefill_nusd AS prefill_nusd,
    parts.decode_nusd AS decode_nusd,
    parts.kv_nusd AS kv_nusd,
    parts.failed_nusd AS failed_nusd,
    parts.energy_mj AS energy_mj,
    parts.carbon_ug AS carbon_ug,
    parts.gpu_ms AS gpu_ms
FROM
(
    SELECT
        ifNull({dimension:Identifier}, '') AS name,
        sum(l.requests) AS requests,
        sumIf(l.requests, status != 'ok') AS failed,
        sum(l.prefill_tokens) AS prefill_tokens,
        sum(l.cached_tokens) AS cached_tokens,
        sum(l.decode_tokens) AS decode_tokens
    FROM cost_lines AS l
    WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
    GROUP BY name
) AS lines
LEFT JOIN
(
    SELECT
        ifNull({dimension:Identifier}, '') AS name,
        sum(toInt128(p.cost_nusd)) AS cost_nusd,
        sumIf(toInt128(p.cost_nusd), kind = 'prefill' AND status = 'ok') AS prefill_nusd,
        sumIf(toInt128(p.cost_nusd), kind = 'decode' AND status = 'ok') AS decode_nusd,
        sumIf(toInt128(p.cost_nusd), kind = 'kv' AND status = 'ok') AS kv_nusd,
        sumIf(toInt128(p.cost_nusd), status != 'ok') AS failed_nusd,
        sum(toInt128(p.energy_mj)) AS energy_mj,
        sum(toInt128(p.carbon_ug)) AS carbon_ug,
        sum(p.gpu_ms) AS gpu_ms
    FROM cost_parts AS p
    WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64} AND status IS NOT NULL
    GROUP BY name
) AS parts USING (name)
ORDER BY cost_nusd DESC, name
