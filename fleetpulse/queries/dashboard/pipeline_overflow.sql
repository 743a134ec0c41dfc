-- Events whose names found no room in the windows job, by grouping set and dimension, most first, with their tenants.
-- Where the whole series found none every label reads __other__; else one label does, and the rest of the series is as it was sent.
-- reads requests: llm.requests 10s <= 10m, 1m <= 12h, 1h <= 60d, 1d
-- reads gpu: gpu.samples 10s <= 10m, 1m <= 2h, 1h <= 30d, 1d
-- reads gpu_events: gpu.events 10s <= 10m, 1m <= 6h, 1h <= 60d, 1d
-- reads engines: engine.samples 10s <= 10m, 1m <= 6h, 1h <= 60d, 1d
-- reads hosts: host.samples 10s <= 10m, 1m <= 6h, 1h <= 60d, 1d
-- reads processes: host.processes 10s <= 10m, 1m <= 2h, 1h <= 30d, 1d
-- reads training: training.steps 10s <= 10m, 1m <= 6h, 1h <= 60d, 1d
-- reads custom: custom.metrics 10s <= 10m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 100
-- kept: 60
SELECT
    grouping,
    dimension,
    sum(events) AS beyond,
    arraySort(groupUniqArrayIf(5)(of_tenant, of_tenant NOT IN ('', '__other__'))) AS tenants
FROM
(
    {every:Overflow}
)
GROUP BY grouping, dimension
ORDER BY beyond DESC, grouping, dimension
LIMIT 100
