-- By source topic: the newest event that stands in the tables.
-- rows: 100
SELECT 'llm.requests' AS topic, max(last_at_ms) AS newest_ms
FROM llm_requests_partials
WHERE grouping = 'service' AND window_ms =
(
    SELECT window_ms
    FROM llm_requests_partials
    WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    ORDER BY window_ms DESC
    LIMIT 1
)
HAVING count() > 0
UNION ALL
SELECT 'gpu.samples' AS topic, max(last_at_ms) AS newest_ms
FROM gpu_samples_partials
WHERE grouping = 'gpu' AND window_ms =
(
    SELECT window_ms
    FROM gpu_samples_partials
    WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    ORDER BY window_ms DESC
    LIMIT 1
)
HAVING count() > 0
UNION ALL
SELECT 'gpu.events' AS topic, max(last_at_ms) AS newest_ms
FROM gpu_events_partials
WHERE grouping = 'gpu_event' AND window_ms =
(
    SELECT window_ms
    FROM gpu_events_partials
    WHERE grouping = 'gpu_event' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    ORDER BY window_ms DESC
    LIMIT 1
)
HAVING count() > 0
UNION ALL
SELECT 'host.samples' AS topic, max(last_at_ms) AS newest_ms
FROM host_samples_partials
WHERE grouping = 'host' AND window_ms =
(
    SELECT window_ms
    FROM host_samples_partials
    WHERE grouping = 'host' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    ORDER BY window_ms DESC
    LIMIT 1
)
HAVING count() > 0
UNION ALL
SELECT 'engine.samples' AS topic, max(last_at_ms) AS newest_ms
FROM engine_samples_partials
WHERE grouping = 'engine_sample' AND window_ms =
(
    SELECT window_ms
    FROM engine_samples_partials
    WHERE grouping = 'engine_sample' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    ORDER BY window_ms DESC
    LIMIT 1
)
HAVING count() > 0
