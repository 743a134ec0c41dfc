-- What requests cost that an alert's fault hit, by tenant: their parts of the bills of its engine, or of its host.
-- Of the minutes from the alert's start to its end, or to the end of the range; at most six hours. An alert of neither
-- engine nor host counts by its model and tenant; one of a GPU by the engine that ran on it. Null: no bill, no price.
-- Unanswered: failed, or the client's fault; bills keep how requests ended and not why.
-- param fingerprint: of the alert, 16 hex digits
-- rows: 1000
WITH
    alert AS (
        SELECT
            JSONExtractString(record, 'labels', 'engine_id') AS named,
            JSONExtractString(record, 'labels', 'gpu_uuid') AS gpu,
            JSONExtractString(record, 'labels', 'host') AS on_host,
            JSONExtractString(record, 'labels', 'model') AS of_model,
            JSONExtractString(record, 'labels', 'tenant') AS of_tenant,
            intDiv(since_ms, 60000) * 60000 AS first_ms,
            least(ifNull(resolved_ms, {to_ms:Int64}), since_ms + 21600000) AS over_ms
        FROM alerts FINAL
        WHERE fingerprint = {fingerprint:String} AND at_ms < {to_ms:Int64}
            AND at_ms >= {from_ms:Int64} - 2592000000
        ORDER BY opened_ms DESC, number DESC, log_offset DESC
        LIMIT 1
    ),
    ran AS (
        SELECT argMax(engine_id, window_ms) AS engine
        FROM gpu_windows
        WHERE gpu_uuid = (SELECT gpu FROM alert) AND engine_id IS NOT NULL
            AND window_ms >= (SELECT first_ms FROM alert) - 300000 AND window_ms < (SELECT first_ms FROM alert) + 60000
    ),
    scope AS (
        SELECT
            coalesce(nullIf(named, ''), if(gpu = '', NULL, (SELECT engine FROM ran)), '') AS engine,
            if(engine = '', on_host, '') AS at_host,
            of_model, of_tenant, first_ms, over_ms
        FROM alert
        WHERE concat(engine, on_host, of_model, of_tenant) != ''
    ),
    hit AS (
        SELECT tenant, status, final, 0 AS ended, cost_nusd AS nusd, cost_nusd IS NULL AS unpriced, energy_mj AS mj
        FROM cost_parts
        WHERE use = 'engine' AND status IS NOT NULL
            AND minute_ms >= (SELECT first_ms FROM scope) AND minute_ms < (SELECT over_ms FROM scope)
            AND ((SELECT engine FROM scope) = '' OR owner = (SELECT engine FROM scope))
            AND ((SELECT at_host FROM scope) = '' OR host = (SELECT at_host FROM scope))
            AND ((SELECT of_model FROM scope) = '' OR model = (SELECT of_model FROM scope))
            AND ((SELECT of_tenant FROM scope) = '' OR tenant = (SELECT of_tenant FROM scope))
        UNION ALL
        SELECT tenant, status, final, requests, NULL, 0, NULL
        FROM cost_lines
        WHERE use = 'engine' AND status IS NOT NULL
            AND minute_ms >= (SELECT first_ms FROM scope) AND minute_ms < (SELECT over_ms FROM scope)
            AND ((SELECT engine FROM scope) = '' OR owner = (SELECT engine FROM scope))
            AND ((SELECT at_host FROM scope) = '' OR host = (SELECT at_host FROM scope))
            AND ((SELECT of_model FROM scope) = '' OR model = (SELECT of_model FROM scope))
            AND ((SELECT of_tenant FROM scope) = '' OR tenant = (SELECT of_tenant FROM scope))
    )
SELECT
    ifNull(tenant, '') AS name,
    sum(ended) AS requests,
    sumIf(ended, {ok:End}) AS ok,
    sumIf(ended, {aborted:End}) AS aborted,
    sumIf(ended, {unanswered:End}) AS unanswered,
    sum(toInt128(nusd)) AS cost_nusd,
    sumIf(toInt128(nusd), {aborted:End}) AS aborted_nusd,
    sumIf(toInt128(nusd), {unanswered:End}) AS unanswered_nusd,
    sum(toInt128(mj)) AS cost_energy_mj,
    sum(unpriced) AS unpriced_parts,
    min(final) AS all_final
FROM hit
GROUP BY name
ORDER BY cost_nusd DESC, name
LIMIT 1000
