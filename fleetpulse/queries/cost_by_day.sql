-- Spend of every UTC day by tenant and model: what budgets and forecasts are made of.
-- More rows than a page may read are refused, not cut: what would be missing is the newest days.
-- `first_ms`: the minute of the first bill of all that are kept; the day that holds it is not spent from midnight on.
-- rows: 500000
SELECT
    intDiv(window_ms, 86400000) AS day,
    tenant,
    model,
    sum(toInt128(cost_nusd)) AS cost_nusd,
    (SELECT window_ms FROM token_costs_rollup_1m ORDER BY window_ms LIMIT 1) AS first_ms
FROM billed_parts(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS c
GROUP BY day, tenant, model
ORDER BY day, tenant, model
LIMIT 2000000
