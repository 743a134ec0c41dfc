-- Spend of every UTC day by tenant and model: what budgets and forecasts are made of.
SELECT intDiv(minute_ms, 86400000) AS day, tenant, model, sum(toInt128(cost_nusd)) AS cost_nusd
FROM cost_parts
WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
GROUP BY day, tenant, model
ORDER BY day, tenant, model
