-- How much of the range has data: the windows in which anything reported, whatever the filters, and gaps up to 5 min.
-- param grain_ms: width of the windows that are read [ms]
-- reads requests: llm.requests 10s <= 1h, 1m <= 6h, 1h <= 60d, 1d
-- reads gpu: gpu.samples 10s <= 1h, 1m <= 6h, 1h <= 60d, 1d
-- reads hosts: host.samples 10s <= 1h, 1m <= 6h, 1h <= 60d, 1d
-- reads engines: engine.samples 10s <= 1h, 1m <= 6h, 1h <= 60d, 1d
-- rows: 2
-- seconds: 5
-- kept: 2
WITH
    greatest({grain_ms:Int64}, 300000) AS quiet_ms,
    arrayMap(
        gap_ms -> if(gap_ms <= quiet_ms, gap_ms, {grain_ms:Int64}),
        arrayPopFront(arrayDifference(windows))
    ) AS steps_ms
SELECT if(empty(windows), 0, least({grain_ms:Int64} + arraySum(steps_ms), {to_ms:Int64} - {from_ms:Int64})) AS covered_ms
FROM
(
    SELECT arraySort(groupUniqArray(window_ms)) AS windows
    FROM
    (
        SELECT window_ms
        FROM {requests:Identifier}
        WHERE grouping = 'service' AND window_ms > {from_ms:Int64} - {grain_ms:Int64} AND window_ms < {to_ms:Int64}
        UNION ALL
        SELECT window_ms
        FROM {gpu:Identifier}
        WHERE grouping = 'gpu' AND window_ms > {from_ms:Int64} - {grain_ms:Int64} AND window_ms < {to_ms:Int64}
        UNION ALL
        SELECT window_ms
        FROM {hosts:Identifier}
        WHERE grouping = 'host' AND window_ms > {from_ms:Int64} - {grain_ms:Int64} AND window_ms < {to_ms:Int64}
        UNION ALL
        SELECT window_ms
        FROM {engines:Identifier}
        WHERE grouping = 'engine_sample' AND window_ms > {from_ms:Int64} - {grain_ms:Int64} AND window_ms < {to_ms:Int64}
    )
)
