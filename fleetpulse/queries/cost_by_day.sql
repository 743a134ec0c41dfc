-- Spend of every UTC day by tenant and model: what budgets and forecasts are made of.
-- rows: 500000
SELECT intDiv(window_ms, 86400000) AS day, tenant, model, sum(toInt128(cost_nusd)) AS cost_nusd
FROM billed_parts(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS c
GROUP BY day, tenant, model
ORDER BY day, tenant, model
