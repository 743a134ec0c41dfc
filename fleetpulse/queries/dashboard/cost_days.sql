-- Spend of every UTC day by tenant and model: what budgets and forecasts are made of.
-- Of the last two days the hours are added up, of the last hour the minutes, so that today is there before it is over.
-- reads days: costs 1d
-- reads hours: costs 1h
-- reads minutes: costs 1m
-- rows: 200000
SELECT day, tenant, model, sum(toInt128(cost_nusd)) AS cost_nusd
FROM
(
    SELECT intDiv(window_ms, 86400000) AS day, tenant, model, cost_nusd
    FROM {days:Identifier} AS r FINAL
    ARRAY JOIN
        r.part_tenant AS tenant,
        r.part_model AS model,
        r.part_cost_nusd AS cost_nusd
    WHERE window_ms >= {from_ms:Int64} AND window_ms < (intDiv({to_ms:Int64}, 86400000) - 1) * 86400000
    UNION ALL
    SELECT intDiv(window_ms, 86400000) AS day, tenant, model, cost_nusd
    FROM {hours:Identifier} AS r FINAL
    ARRAY JOIN
        r.part_tenant AS tenant,
        r.part_model AS model,
        r.part_cost_nusd AS cost_nusd
    WHERE window_ms >= {from_ms:Int64} AND window_ms >= (intDiv({to_ms:Int64}, 86400000) - 1) * 86400000
        AND window_ms < intDiv({to_ms:Int64} - 3600000, 3600000) * 3600000
    UNION ALL
    SELECT intDiv(window_ms, 86400000) AS day, tenant, model, cost_nusd
    FROM {minutes:Identifier} AS r FINAL
    ARRAY JOIN
        r.part_tenant AS tenant,
        r.part_model AS model,
        r.part_cost_nusd AS cost_nusd
    WHERE window_ms >= {from_ms:Int64} AND window_ms >= (intDiv({to_ms:Int64}, 86400000) - 1) * 86400000
        AND window_ms >= intDiv({to_ms:Int64} - 3600000, 3600000) * 3600000 AND window_ms < {to_ms:Int64}
)
GROUP BY day, tenant, model
ORDER BY day, tenant, model
LIMIT 150000
