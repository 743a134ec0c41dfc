-- What a rerate changed, by tenant: costs of the bills that it replaced, and of those that stand now.
SELECT tenant, sum(before) AS before_nusd, sum(after) AS after_nusd
FROM
(
    SELECT tenant, sum(toInt128(cost_nusd)) AS after, CAST(NULL, 'Nullable(Int64)') AS before
    FROM cost_parts
    WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}
    GROUP BY tenant
    UNION ALL
    SELECT each_tenant AS tenant, CAST(NULL, 'Nullable(Int64)'), sum(toInt128(each_cost_nusd))
    FROM
    (
        SELECT part_tenant, part_cost_nusd FROM token_costs_replaced FINAL
        WHERE minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64} AND rerate = {rerate:String}
    )
    ARRAY JOIN part_tenant AS each_tenant, part_cost_nusd AS each_cost_nusd
    GROUP BY tenant
)
GROUP BY tenant
ORDER BY after_nusd DESC, tenant
