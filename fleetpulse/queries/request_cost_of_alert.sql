-- What requests cost that an alert's fault hit, by tenant: their parts of the bills of its engine, or of its host.
-- Of the minutes from the alert's start to its end, or to the end of the range; at most six hours. An alert of neither
-- engine nor host counts by its model and tenant; one of a GPU by the engine that ran on it, by minutes where rows of 10 s are gone. Null: no bill, no price.
-- Unanswered: failed, or the client's fault; bills keep how requests ended and not why.
-- param fingerprint: of the alert, 16 hex digits
-- rows: 1000
WITH
    (
        SELECT (any(engine), any(gpu), any(on_host), any(model), any(tenant), any(first_ms), any(over_ms))
        FROM
        (
            SELECT
                JSONExtractString(record, 'labels', 'engine_id') AS engine,
                JSONExtractString(record, 'labels', 'gpu_uuid') AS gpu,
                JSONExtractString(record, 'labels', 'host') AS on_host,
                JSONExtractString(record, 'labels', 'model') AS model,
                JSONExtractString(record, 'labels', 'tenant') AS tenant,
                intDiv(since_ms, 60000) * 60000 AS first_ms,
                least(ifNull(resolved_ms, {to_ms:Int64}), since_ms + 21600000) AS over_ms
            FROM alerts FINAL
            WHERE fingerprint = {fingerprint:String} AND at_ms < {to_ms:Int64}
                AND at_ms >= {from_ms:Int64} - 2592000000
            ORDER BY opened_ms DESC, number DESC, log_offset DESC
            LIMIT 1
        )
    ) AS alert,
    (
        SELECT argMax(engine_id, (last_at_ms, engine_id))
        FROM
        (
            SELECT engine_id, last_at_ms
            FROM gpu_samples_partials FINAL
            WHERE grouping = 'gpu' AND alert.1 = '' AND alert.2 != '' AND gpu_uuid = alert.2 AND engine_id IS NOT NULL
                AND window_ms >= alert.6 - 300000 AND window_ms < alert.6 + 60000
            UNION ALL
            SELECT engine_id, last_at_ms
            FROM gpu_history_1m FINAL
            WHERE grouping = 'gpu' AND alert.1 = '' AND alert.2 != '' AND gpu_uuid = alert.2 AND engine_id IS NOT NULL
                AND window_ms >= alert.6 - 300000 AND window_ms < alert.6 + 60000
        )
    ) AS ran,
    coalesce(nullIf(alert.1, ''), ran, '') AS engine,
    if(engine = '', alert.3, '') AS at_host,
    concat(engine, alert.3, alert.4, alert.5) != '' AS is_of_any,
    hit AS (
        SELECT tenant, status, final, 0 AS ended, cost_nusd AS nusd, cost_nusd IS NULL AS unpriced, energy_mj AS mj
        FROM cost_parts
        WHERE use = 'engine' AND status IS NOT NULL AND is_of_any AND minute_ms >= alert.6 AND minute_ms < alert.7
            AND (engine = '' OR owner = engine) AND (at_host = '' OR host = at_host)
            AND (alert.4 = '' OR model = alert.4) AND (alert.5 = '' OR tenant = alert.5)
        UNION ALL
        SELECT tenant, status, final, requests, NULL, 0, NULL
        FROM cost_lines
        WHERE use = 'engine' AND status IS NOT NULL AND is_of_any AND minute_ms >= alert.6 AND minute_ms < alert.7
            AND (engine = '' OR owner = engine) AND (at_host = '' OR host = at_host)
            AND (alert.4 = '' OR model = alert.4) AND (alert.5 = '' OR tenant = alert.5)
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
