-- The same as covered of a range of up to six hours, in which no hour counts whole: two thirds of the work.
-- reads requests: llm.requests 10s <= 1h, 1m
-- reads gpu: gpu.samples 10s <= 1h, 1m
-- reads hosts: host.samples 10s <= 1h, 1m
-- reads engines: engine.samples 10s <= 1h, 1m
-- rows: 2
-- kept: 2
SELECT {covered_ms:Covered} AS covered_ms, {coverage:Metric} AS coverage
FROM
(
    SELECT arraySort(groupUniqArray((start_ms, width_ms))) AS windows
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
)
