-- What each model cost, and a million of its tokens: all of what its requests cost over their generated tokens.
-- reads bills: costs 1m <= 6h, 1h <= 60d, 1d
-- rows: 500
-- seconds: 5
SELECT
    model,
    sum(toInt128(cost_nusd)) AS cost,
    sumIf(toInt128(cost_nusd), name = '__overhead__') AS lost,
    sumIf(toInt128(cost_nusd), kind = 'prefill') / nullIf(sumIf(toInt128(amount), kind = 'prefill'), 0) * 1e6 AS per_million_in,
    sumIf(toInt128(cost_nusd), kind IN ('decode', 'kv')) / nullIf(sumIf(toInt128(amount), kind = 'decode'), 0) * 1e6 AS per_million_out,
    sum(toInt128(energy_mj)) AS used_mj,
    sum(toInt128(carbon_ug)) / nullIf(sumIf(toInt128(amount), kind IN ('prefill', 'decode')), 0) AS ug_per_token,
    sumIf(toInt128(energy_mj), kind = 'decode') / nullIf(sumIf(toInt128(amount), kind = 'decode'), 0) AS mj_per_token
FROM
(
    SELECT model, name, kind, amount, cost_nusd, energy_mj, carbon_ug
    FROM {bills:Rows} AS r
    ARRAY JOIN
        r.part_name AS name,
        r.part_kind AS kind,
        r.part_tenant AS tenant,
        r.part_model AS model,
        r.part_region AS region,
        r.part_amount AS amount,
        r.part_cost_nusd AS cost_nusd,
        r.part_energy_mj AS energy_mj,
        arrayResize(r.part_carbon_ug, length(r.part_name), NULL) AS carbon_ug
    WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND model IS NOT NULL
        AND ({region:String} = '' OR region = {region:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND ({model:String} = '' OR model = {model:String})
)
GROUP BY model
ORDER BY cost DESC, model
LIMIT 200
