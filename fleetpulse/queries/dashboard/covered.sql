-- How much of the range has data: the windows in which anything reported, whatever the filters, and gaps up to 5 min.
-- By windows of 10 s up to an hour, else by minutes; beyond six hours an hour between two hours with data counts whole.
-- reads requests: llm.requests 10s <= 1h, 1m
-- reads gpu: gpu.samples 10s <= 1h, 1m
-- reads hosts: host.samples 10s <= 1h, 1m
-- reads engines: engine.samples 10s <= 1h, 1m
-- rows: 2
-- seconds: 5
-- kept: 2
WITH
    hours AS
    (
        SELECT DISTINCT intDiv(window_ms, 3600000) AS hour
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
    ),
    inner_hours AS
    (
        SELECT hour
        FROM hours
        WHERE hour - 1 IN (SELECT hour FROM hours) AND hour + 1 IN (SELECT hour FROM hours)
    ),
    looked_into AS
    (
        SELECT arrayJoin(
            if({to_ms:Int64} - {from_ms:Int64} > 21600000,
                [intDiv({from_ms:Int64}, 3600000), intDiv({to_ms:Int64}, 3600000)],
                range(intDiv({from_ms:Int64}, 3600000), intDiv({to_ms:Int64}, 3600000) + 1))) AS hour
        UNION DISTINCT
        SELECT hour FROM hours WHERE hour NOT IN (SELECT hour FROM inner_hours)
    ),
    starts AS
    (
        SELECT arraySort(groupUniqArray((start_ms, width_ms))) AS windows
        FROM
        (
            SELECT hour * 3600000 AS start_ms, toInt64(3600000) AS width_ms
            FROM inner_hours
            UNION ALL
            SELECT window_ms AS start_ms, width_ms
            FROM {requests:Windows}
            WHERE grouping = 'service' AND intDiv(window_ms, 3600000) IN (SELECT hour FROM looked_into)
            UNION ALL
            SELECT window_ms AS start_ms, width_ms
            FROM {gpu:Windows}
            WHERE grouping = 'gpu' AND intDiv(window_ms, 3600000) IN (SELECT hour FROM looked_into)
            UNION ALL
            SELECT window_ms AS start_ms, width_ms
            FROM {hosts:Windows}
            WHERE grouping = 'host' AND intDiv(window_ms, 3600000) IN (SELECT hour FROM looked_into)
            UNION ALL
            SELECT window_ms AS start_ms, width_ms
            FROM {engines:Windows}
            WHERE grouping = 'engine_sample' AND intDiv(window_ms, 3600000) IN (SELECT hour FROM looked_into)
        )
    )
SELECT
    arraySum(arrayMap(
        (window, next_ms) -> if(next_ms - window.1 <= greatest(window.2, 300000), next_ms - window.1, window.2),
        windows,
        if(empty(windows), emptyArrayInt64(), arrayPushBack(arrayMap(window -> window.1, arrayPopFront(windows)),
            toInt64(9000000000000000))))) AS covered_ms
FROM starts
