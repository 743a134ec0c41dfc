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
SELECT
    grouping,
    dimension,
    sum(events) AS beyond,
    arraySort(groupUniqArrayIf(5)(of_tenant, of_tenant NOT IN ('', '__other__'))) AS tenants
FROM
(
    SELECT grouping, toInt128(event_count) AS events, ifNull(tenant, '') AS of_tenant,
        arrayJoin(if(ifNull(origin, '') = '__other__', ['every label'], arrayMap(name -> name.1, arrayFilter(
            name -> name.2 = '__other__', [('tenant', ifNull(tenant, '')), ('model', ifNull(model, '')),
            ('model_version', ifNull(model_version, '')), ('slo_class', ifNull(slo_class, '')),
            ('host', ifNull(host, '')), ('engine_id', ifNull(engine_id, ''))])))) AS dimension
    FROM {requests:Rows}
    WHERE grouping IN ('service', 'engine') AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (origin = '__other__' OR tenant = '__other__' OR model = '__other__' OR model_version = '__other__'
            OR slo_class = '__other__' OR host = '__other__' OR engine_id = '__other__')
    UNION ALL
    SELECT grouping, toInt128(event_count) AS events, '' AS of_tenant,
        arrayJoin(if(ifNull(origin, '') = '__other__', ['every label'], arrayMap(name -> name.1, arrayFilter(
            name -> name.2 = '__other__', [('host', ifNull(host, '')), ('gpu_uuid', ifNull(gpu_uuid, '')),
            ('engine_id', ifNull(engine_id, ''))])))) AS dimension
    FROM {gpu:Rows}
    WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (origin = '__other__' OR host = '__other__' OR gpu_uuid = '__other__' OR engine_id = '__other__')
    UNION ALL
    SELECT grouping, toInt128(event_count) AS events, '' AS of_tenant,
        arrayJoin(if(ifNull(origin, '') = '__other__', ['every label'], arrayMap(name -> name.1, arrayFilter(
            name -> name.2 = '__other__', [('host', ifNull(host, '')), ('service', ifNull(service, '')),
            ('metric', ifNull(metric, '')), ('attributes', ifNull(attributes, ''))])))) AS dimension
    FROM {custom:Rows}
    WHERE grouping = 'custom' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (origin = '__other__' OR host = '__other__' OR service = '__other__' OR metric = '__other__'
            OR attributes = '__other__')
    UNION ALL
    SELECT grouping, toInt128(event_count) AS events, '' AS of_tenant,
        arrayJoin(if(ifNull(origin, '') = '__other__', ['every label'], arrayMap(name -> name.1, arrayFilter(
            name -> name.2 = '__other__', [('host', ifNull(host, '')), ('gpu_uuid', ifNull(gpu_uuid, '')),
            ('engine_id', ifNull(engine_id, ''))])))) AS dimension
    FROM {gpu_events:Rows}
    WHERE grouping = 'gpu_event' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (origin = '__other__' OR host = '__other__' OR gpu_uuid = '__other__' OR engine_id = '__other__')
    UNION ALL
    SELECT grouping, toInt128(event_count) AS events, '' AS of_tenant,
        arrayJoin(if(ifNull(origin, '') = '__other__', ['every label'], arrayMap(name -> name.1, arrayFilter(
            name -> name.2 = '__other__', [('host', ifNull(host, '')), ('engine_id', ifNull(engine_id, '')),
            ('model', ifNull(model, '')), ('model_version', ifNull(model_version, ''))])))) AS dimension
    FROM {engines:Rows}
    WHERE grouping = 'engine_sample' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (origin = '__other__' OR host = '__other__' OR engine_id = '__other__' OR model = '__other__'
            OR model_version = '__other__')
    UNION ALL
    SELECT grouping, toInt128(event_count) AS events, '' AS of_tenant,
        arrayJoin(if(ifNull(origin, '') = '__other__', ['every label'], arrayMap(name -> name.1, arrayFilter(
            name -> name.2 = '__other__', [('host', ifNull(host, ''))])))) AS dimension
    FROM {hosts:Rows}
    WHERE grouping = 'host' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (origin = '__other__' OR host = '__other__')
    UNION ALL
    SELECT grouping, toInt128(event_count) AS events, '' AS of_tenant,
        arrayJoin(if(ifNull(origin, '') = '__other__', ['every label'], arrayMap(name -> name.1, arrayFilter(
            name -> name.2 = '__other__', [('host', ifNull(host, '')), ('engine_id', ifNull(engine_id, '')),
            ('process_name', ifNull(process_name, ''))])))) AS dimension
    FROM {processes:Rows}
    WHERE grouping = 'process' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (origin = '__other__' OR host = '__other__' OR engine_id = '__other__' OR process_name = '__other__')
    UNION ALL
    SELECT grouping, toInt128(event_count) AS events, '' AS of_tenant,
        arrayJoin(if(ifNull(origin, '') = '__other__', ['every label'], arrayMap(name -> name.1, arrayFilter(
            name -> name.2 = '__other__', [('host', ifNull(host, '')), ('engine_id', ifNull(engine_id, '')),
            ('job', ifNull(job, '')), ('rank', ifNull(rank, '')), ('model', ifNull(model, ''))])))) AS dimension
    FROM {training:Rows}
    WHERE grouping = 'training' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (origin = '__other__' OR host = '__other__' OR engine_id = '__other__' OR job = '__other__'
            OR rank = '__other__' OR model = '__other__')
)
GROUP BY grouping, dimension
ORDER BY beyond DESC, grouping, dimension
LIMIT 100
