-- How much of the range has data: the windows in which anything reported, whatever the filters, and gaps up to 5 min.
-- By windows of 10 s up to an hour, else by minutes; beyond six hours an hour between two hours with data counts whole.
-- reads requests: llm.requests 10s <= 1h, 1m
-- reads gpu: gpu.samples 10s <= 1h, 1m
-- reads hosts: host.samples 10s <= 1h, 1m
-- reads engines: engine.samples 10s <= 1h, 1m
-- rows: 2
-- kept: 2
WITH
    (
        SELECT groupUniqArray(intDiv(window_ms, 3600000))
        FROM
        (
            SELECT window_ms FROM llm_requests_rollup_1h WHERE grouping = 'service'
                AND window_ms > {from_ms:Int64} - 3600000 AND window_ms < {to_ms:Int64}
            UNION ALL
            SELECT window_ms FROM gpu_samples_rollup_1h WHERE grouping = 'gpu'
                AND window_ms > {from_ms:Int64} - 3600000 AND window_ms < {to_ms:Int64}
            UNION ALL
            SELECT window_ms FROM host_samples_rollup_1h WHERE grouping = 'host'
                AND window_ms > {from_ms:Int64} - 3600000 AND window_ms < {to_ms:Int64}
            UNION ALL
            SELECT window_ms FROM engine_samples_rollup_1h WHERE grouping = 'engine_sample'
                AND window_ms > {from_ms:Int64} - 3600000 AND window_ms < {to_ms:Int64}
        )
        WHERE {to_ms:Int64} - {from_ms:Int64} > 21600000
    ) AS hours,
    arrayFilter(hour -> has(hours, hour - 1) AND has(hours, hour + 1), hours) AS inner_hours,
    arrayConcat(
        arrayFilter(hour -> NOT has(inner_hours, hour), hours),
        if({to_ms:Int64} - {from_ms:Int64} > 21600000,
            [intDiv({from_ms:Int64}, 3600000), intDiv({to_ms:Int64}, 3600000)],
            range(intDiv({from_ms:Int64}, 3600000), intDiv({to_ms:Int64}, 3600000) + 1))) AS looked_into,
    starts AS
    (
        SELECT arraySort(groupUniqArray((start_ms, width_ms))) AS windows
        FROM
        (
            SELECT arrayJoin(inner_hours) * 3600000 AS start_ms, toInt64(3600000) AS width_ms
            UNION ALL
            SELECT window_ms AS start_ms, width_ms
            FROM {requests:Windows}
            WHERE grouping = 'service' AND intDiv(window_ms, 3600000) IN (SELECT arrayJoin(looked_into))
            UNION ALL
            SELECT window_ms AS start_ms, width_ms
            FROM {gpu:Windows}
            WHERE grouping = 'gpu' AND intDiv(window_ms, 3600000) IN (SELECT arrayJoin(looked_into))
            UNION ALL
            SELECT window_ms AS start_ms, width_ms
            FROM {hosts:Windows}
            WHERE grouping = 'host' AND intDiv(window_ms, 3600000) IN (SELECT arrayJoin(looked_into))
            UNION ALL
            SELECT window_ms AS start_ms, width_ms
            FROM {engines:Windows}
            WHERE grouping = 'engine_sample' AND intDiv(window_ms, 3600000) IN (SELECT arrayJoin(looked_into))
        )
    )
SELECT
    arraySum(arrayMap(
        (window, next_ms) -> if(next_ms - window.1 <= greatest(window.2, 300000), next_ms - window.1, window.2),
        windows,
        if(empty(windows), emptyArrayInt64(), arrayPushBack(arrayMap(window -> window.1, arrayPopFront(windows)),
            toInt64(9000000000000000))))) AS covered_ms
FROM starts
