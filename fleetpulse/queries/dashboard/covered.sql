-- How much of the range has data: the windows in which anything reported, whatever the filters, and gaps up to 5 min.
-- By windows of 10 s up to an hour, else by minutes; beyond six hours an hour between two hours with data counts whole.
-- reads requests: llm.requests 10s <= 1h, 1m
-- reads gpu: gpu.samples 10s <= 1h, 1m
-- reads hosts: host.samples 10s <= 1h, 1m
-- reads engines: engine.samples 10s <= 1h, 1m
-- rows: 2
-- kept: 2
{hours:Covered}
SELECT {covered_ms:Covered} AS covered_ms, {coverage:Metric} AS coverage
FROM
(
    SELECT arraySort(groupUniqArray((start_ms, width_ms))) AS windows
    FROM
    (
        {whole:Covered}
        UNION ALL
        SELECT start_ms, width_ms
        FROM
        (
            SELECT DISTINCT window_ms AS start_ms, width_ms FROM {requests:Windows} WHERE grouping = 'service'
            UNION ALL
            SELECT DISTINCT window_ms AS start_ms, width_ms FROM {gpu:Windows} WHERE grouping = 'gpu'
            UNION ALL
            SELECT DISTINCT window_ms AS start_ms, width_ms FROM {hosts:Windows} WHERE grouping = 'host'
            UNION ALL
            SELECT DISTINCT window_ms AS start_ms, width_ms FROM {engines:Windows} WHERE grouping = 'engine_sample'
        )
        WHERE {looked_into:Covered}
    )
)
