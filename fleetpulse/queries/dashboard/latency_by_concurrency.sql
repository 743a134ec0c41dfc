-- Latency of good requests by how many their engine ran at one time (nearest power of two) in the window they ended in.
-- Of engines that served any; windows in which none ended count in the rates, those in which none ran do not.
-- param grain_ms: width of a row that it reads [ms]
-- reads requests: llm.requests 10s <= 3h, 1m
-- reads engines: engine.samples 10s <= 3h, 1m
-- rows: 100
-- seconds: 10
-- kept: 5
SELECT
    toUInt32(exp2(round(log2(greatest(1, e.running))))) AS at_once,
    uniqExact(e.engine_id) AS engines,
    count() AS engine_windows,
    sum(r.ended) AS requests,
    sum(r.failed) AS failed_requests,
    requests / (engine_windows * {grain_ms:Int64} / 1000) AS requests_per_s,
    sum(r.input_tokens) / (engine_windows * {grain_ms:Int64} / 1000) AS input_tokens_per_s,
    sum(r.output_tokens) / (engine_windows * {grain_ms:Int64} / 1000) AS output_tokens_per_s,
    fp_quantiles_linear([0.5, 0.95, 0.99], sumMap(r.ttft)) AS ttft_us,
    fp_quantiles_linear([0.5, 0.95, 0.99], sumMap(r.itl)) AS itl_us,
    fp_quantiles_linear([0.5, 0.95, 0.99], sumMap(r.e2e)) AS e2e_us,
    arraySum(mapValues(sumMap(r.ttft))) AS ttft_counted,
    arraySum(mapValues(sumMap(r.itl))) AS itl_counted,
    arraySum(mapValues(sumMap(r.e2e))) AS e2e_counted
FROM
(
    SELECT window_ms, engine_id, sum(mean_running) AS running
    FROM
    (
        SELECT
            window_ms,
            engine_id,
            sum(toInt128(running_sum)) / nullIf(sum(running_count), 0) AS mean_running
        FROM {engines:Identifier} FINAL
        WHERE grouping = 'engine_sample' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            AND engine_id IN
            (
                SELECT engine_id
                FROM {requests:Identifier} FINAL
                WHERE grouping = 'engine' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
                    AND ({cluster:String} = '' OR cluster = {cluster:String})
                    AND ({region:String} = '' OR region = {region:String})
                    AND ({model:String} = '' OR model = {model:String})
                    AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
            )
        GROUP BY window_ms, engine_id, model
    )
    WHERE mean_running > 0
    GROUP BY window_ms, engine_id
) AS e
LEFT JOIN
(
    SELECT
        window_ms,
        engine_id,
        sum(event_count) AS ended,
        {failed:Metric} AS failed,
        sumIf(input_tokens_sum, {ok:End}) AS input_tokens,
        sumIf(output_tokens_sum, {ok:End}) AS output_tokens,
        sumMapIf(ttft_us_bins, {ok:End}) AS ttft,
        sumMapIf(itl_bins, {ok:End}) AS itl,
        sumMapIf(e2e_us_bins, {ok:End}) AS e2e
    FROM {requests:Identifier} FINAL
    WHERE grouping = 'engine' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND engine_id IS NOT NULL
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
    GROUP BY window_ms, engine_id
) AS r ON r.window_ms = e.window_ms AND r.engine_id = e.engine_id
GROUP BY at_once
ORDER BY at_once
LIMIT 100
