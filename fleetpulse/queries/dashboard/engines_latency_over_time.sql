-- Latencies of the engines with most requests over time.
-- param top: how many engines
-- reads requests: llm.requests 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 12000
WITH busiest AS
(
    SELECT engine_id
    FROM {requests:Rows}
    WHERE grouping = 'engine' AND engine_id IS NOT NULL AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({host:String} = '' OR host = {host:String})
        AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
        AND ({model:String} = '' OR model = {model:String})
    GROUP BY engine_id
    ORDER BY sum(event_count) DESC, engine_id
    LIMIT {top:UInt32}
)
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    engine_id AS name,
    sum(event_count) AS requests,
    fp_quantile_linear(0.99, sumMap(ttft_us_bins)) AS ttft_p99_us,
    fp_quantile_linear(0.99, sumMap(itl_bins)) AS itl_p99_us,
    arraySum(mapValues(sumMap(ttft_us_bins))) AS ttft_counted,
    arraySum(mapValues(sumMap(itl_bins))) AS itl_counted
FROM {requests:Rows}
WHERE grouping = 'engine' AND engine_id IS NOT NULL AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({host:String} = '' OR host = {host:String})
    AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
    AND ({model:String} = '' OR model = {model:String})
    AND engine_id IN (busiest)
GROUP BY at_ms, name
ORDER BY at_ms, name
LIMIT 12000
