-- What each model, tenant or service class did and cost: how its requests ended, tokens, money, energy and emissions.
-- `dimension` is one of model, tenant, slo_class. What is nobody's in particular stands under its part of the bills
-- (nobody 1), so that costs, energy and GPU time add up to the bills. How requests ended is counted of all of them,
-- as windows have them; `requests` are those with a bill, `priced_requests` those whose bill has a cost, as tokens are,
-- `priced_answered` of these those that were answered, in full or until the client went away, and `counted_requests`
-- those whose bill has CO2e. Bills do not know why a request ended as it did: `unanswered_nusd`
-- is of failed ones and client faults. Prices times tokens are the cost of requests.
-- reads outcomes: llm.requests 1m <= 1h, 1h
SELECT
    * EXCEPT (cost, energy, meter, carbon, gpu_time),
    cost AS cost_nusd, energy AS energy_mj, meter AS meter_mj, carbon AS carbon_ug, gpu_time AS gpu_ms
FROM
(
SELECT
    if(unused = '', ifNull(of_name, ''), unused) AS name,
    unused != '' AS nobody,
    sum(billed) AS requests,
    sum(was_ok) AS ok,
    sum(was_aborted) AS aborted,
    sum(was_client_fault) AS client_fault,
    sum(was_failed) AS failed,
    {uncached_tokens:Metric} AS uncached_tokens,
    sum(cached) AS cached_tokens,
    {output_tokens:Metric} AS output_tokens,
    sum(toInt128(cost_nusd)) AS cost,
    {uncached_nusd:Metric} AS uncached_nusd,
    {output_nusd:Metric} AS output_nusd,
    sumIf(toInt128(cost_nusd), unused = '' AND {aborted:End}) AS aborted_nusd,
    sumIf(toInt128(cost_nusd), unused = '' AND {unanswered:End}) AS unanswered_nusd,
    sum(toInt128(energy_mj)) AS energy,
    sum(toInt128(meter_mj)) AS meter,
    sum(toInt128(carbon_ug)) AS carbon,
    sum(gpu_ms) AS gpu_time,
    {usd_per_million_uncached:Metric} AS usd_per_million_uncached,
    {usd_per_million_output:Metric} AS usd_per_million_output,
    {kwh_per_million_uncached:Metric} AS kwh_per_million_uncached,
    {kwh_per_million_output:Metric} AS kwh_per_million_output,
    {g_per_million_uncached:Metric} AS g_per_million_uncached,
    {g_per_million_output:Metric} AS g_per_million_output,
    sum(priced) AS priced_requests,
    sum(counted) AS counted_requests,
    sum(answered) AS priced_answered
FROM
(
    SELECT {dimension:Identifier} AS of_name, if(status IS NULL, ifNull(part, ''), '') AS unused, status,
        kind, amount, cost_nusd, energy_mj, meter_mj, carbon_ug, gpu_ms, CAST(NULL, 'Nullable(Int64)') AS cached,
        toUInt64(0) AS billed, toUInt64(0) AS was_ok, toUInt64(0) AS was_aborted,
        toUInt64(0) AS was_client_fault, toUInt64(0) AS was_failed, toUInt64(0) AS priced, toUInt64(0) AS counted,
        toUInt64(0) AS answered
    FROM billed_parts(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000) AS p
    UNION ALL
    SELECT {dimension:Identifier}, '', status, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        if(unpriced IS NULL, cached_tokens, NULL), toUInt64(requests), 0, 0, 0, 0,
        toUInt64(if(unpriced IS NULL, requests, 0)), toUInt64(if(uncounted IS NULL, requests, 0)),
        toUInt64(if(unpriced IS NULL AND NOT {unanswered:End}, requests, 0))
    FROM billed_lines(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64}, bucket_ms = 86400000)
    UNION ALL
    SELECT {dimension:Identifier} AS of_name, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0,
        {ok:Metric}, {aborted:Metric}, {client_fault:Metric}, {failed:Metric}, 0, 0, 0
    FROM {outcomes:Rows}
    WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    GROUP BY of_name
)
GROUP BY name, nobody
)
ORDER BY nobody, cost_nusd DESC, name
