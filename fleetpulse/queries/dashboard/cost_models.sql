-- What each model cost, and a million of its tokens: all of what its requests cost over their generated tokens.
-- rows: 500
-- seconds: 5
SELECT
    model,
    sum(cost_nusd) AS cost,
    sumIf(cost_nusd, part = '__overhead__') AS lost,
    sumIf(cost_nusd, kind = 'prefill') / nullIf(sumIf(amount, kind = 'prefill'), 0) * 1e6 AS per_million_in,
    sumIf(cost_nusd, kind IN ('decode', 'kv')) / nullIf(sumIf(amount, kind = 'decode'), 0) * 1e6 AS per_million_out,
    sum(energy_mj) AS used_mj,
    sumIf(energy_mj, kind = 'decode') / nullIf(sumIf(amount, kind = 'decode'), 0) AS mj_per_token
FROM cost_parts
WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64} AND model IS NOT NULL
    AND ({region:String} = '' OR region = {region:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
    AND ({model:String} = '' OR model = {model:String})
GROUP BY model
ORDER BY cost DESC, model
LIMIT 200
