-- Names of models, tenants, hosts, engines, GPUs, regions and so on that hold any of some texts, names in full first.
-- param parts: what a name must hold one of, upper or lower case
-- reads requests: llm.requests 1m <= 1m, 1h <= 30d, 1d
-- reads gpu: gpu.samples 1m <= 1m, 1h <= 30d, 1d
-- rows: 1000
SELECT one.1 AS kind, one.2 AS name, sum(events) AS seen
FROM
(
    SELECT
        arrayJoin([('model', model), ('tenant', tenant), ('model_version', model_version), ('slo_class', slo_class),
            ('host', host), ('engine_id', engine_id), ('region', region), ('cluster', cluster)]) AS one,
        event_count AS events
    FROM {requests:Seen}
    WHERE grouping IN ('service', 'engine')
    UNION ALL
    SELECT
        arrayJoin([('gpu_uuid', gpu_uuid), ('gpu_model', gpu_model), ('host', host), ('engine_id', engine_id), ('region', region),
            ('cluster', cluster)]),
        events
    FROM
    (
        SELECT gpu_uuid, gpu_model, host, engine_id, region, cluster, sum(event_count) AS events
        FROM {gpu:Seen}
        WHERE grouping = 'gpu'
        GROUP BY ALL
    )
)
WHERE name IS NOT NULL AND multiSearchAnyCaseInsensitiveUTF8(assumeNotNull(name), {parts:Array(String)})
GROUP BY kind, name
ORDER BY has({parts:Array(String)}, lowerUTF8(name)) DESC, seen DESC, kind, name
LIMIT 50 BY kind
