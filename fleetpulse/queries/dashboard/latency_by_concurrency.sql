-- Latency of good requests by how many their engine ran at one time (nearest power of two) in the window they ended in.
-- Of engines that served any; windows in which none ended count in the rates, those in which none ran do not. Where there
-- are many, every so many windows alone are read (of_windows).
-- param grain_ms: width of a row that it reads [ms]
-- reads requests: llm.requests 10s <= 3h, 1m
-- reads engines: engine.samples 10s <= 3h, 1m
-- rows: 100
-- kept: 60
WITH
    (of_cluster, of_region, of_model, of_engine) -> ({cluster:String} = '' OR of_cluster = {cluster:String})
        AND ({region:String} = '' OR of_region = {region:String})
        AND ({model:String} = '' OR of_model = {model:String})
        AND ({engine_id:String} = '' OR of_engine = {engine_id:String}) AS wanted,
    (
        SELECT toInt64(greatest(1, ceil(count() / 40000)))
        FROM {requests:Identifier}
        WHERE grouping = 'engine' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            AND wanted(cluster, region, model, engine_id)
    ) AS every_nth,
    sumMapIf(r.ttft_us_bins, {ok:End}) AS ttft,
    sumMapIf(r.itl_bins, {ok:End}) AS itl,
    sumMapIf(r.e2e_us_bins, {ok:End}) AS e2e
SELECT
    any(every_nth) AS of_windows,
    toUInt32(exp2(round(log2(greatest(1, e.running))))) AS at_once,
    uniqExact(e.engine_id) AS engines,
    uniqExact(e.engine_id, e.window_ms) AS engine_windows,
    sum(r.event_count) AS requests,
    {failed:Metric} AS failed_requests,
    {ok:Metric} AS ok_requests,
    requests / (engine_windows * {grain_ms:Int64} / 1000) AS requests_per_s,
    sumIf(r.input_tokens_sum, {ok:End}) / (engine_windows * {grain_ms:Int64} / 1000) AS input_tokens_per_s,
    sumIf(r.output_tokens_sum, {ok:End}) / (engine_windows * {grain_ms:Int64} / 1000) AS output_tokens_per_s,
    fp_quantiles_linear([0.5, 0.95, 0.99], ttft) AS ttft_us,
    fp_quantiles_linear([0.5, 0.95, 0.99], itl) AS itl_us,
    fp_quantiles_linear([0.5, 0.95, 0.99], e2e) AS e2e_us,
    arraySum(mapValues(ttft)) AS ttft_counted,
    arraySum(mapValues(itl)) AS itl_counted,
    arraySum(mapValues(e2e)) AS e2e_counted
FROM
(
    SELECT window_ms, engine_id, status, error_kind, event_count, input_tokens_sum, output_tokens_sum,
        ttft_us_bins, itl_bins, e2e_us_bins
    FROM {requests:Identifier} FINAL
    PREWHERE grouping = 'engine' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND intDiv(window_ms, {grain_ms:Int64}) % every_nth = 0
    WHERE engine_id IS NOT NULL
        AND wanted(cluster, region, model, engine_id)
) AS r
RIGHT JOIN
(
    SELECT window_ms, engine_id, sum(mean_running) AS running
    FROM
    (
        SELECT
            window_ms,
            engine_id,
            sum(toInt128(running_sum)) / nullIf(sum(running_count), 0) AS mean_running
        FROM {engines:Identifier} FINAL
        PREWHERE grouping = 'engine_sample' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            AND intDiv(window_ms, {grain_ms:Int64}) % every_nth = 0
        WHERE engine_id IN
            (
                SELECT engine_id
                FROM {requests:Identifier}
                WHERE grouping = 'engine' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
                    AND wanted(cluster, region, model, engine_id)
            )
        GROUP BY window_ms, engine_id, model
    )
    WHERE mean_running > 0
    GROUP BY window_ms, engine_id
) AS e ON r.window_ms = e.window_ms AND r.engine_id = e.engine_id
GROUP BY at_once
ORDER BY at_once
LIMIT 100
