-- By source topic: the newest event that stands in the tables, and how many stand there of its last two hours.
-- rows: 100
-- seconds: 5
SELECT 'llm.requests' AS topic, max(last_at_ms) AS newest_ms, sum(event_count) AS events
FROM llm_requests_partials
WHERE grouping = 'service' AND window_ms >= greatest({from_ms:Int64}, {to_ms:Int64} - 7200000) AND window_ms < {to_ms:Int64}
HAVING events > 0
UNION ALL
SELECT 'gpu.samples' AS topic, max(last_at_ms) AS newest_ms, sum(event_count) AS events
FROM gpu_samples_partials
WHERE grouping = 'gpu' AND window_ms >= greatest({from_ms:Int64}, {to_ms:Int64} - 7200000) AND window_ms < {to_ms:Int64}
HAVING events > 0
UNION ALL
SELECT 'gpu.events' AS topic, max(last_at_ms) AS newest_ms, sum(event_count) AS events
FROM gpu_events_partials
WHERE grouping = 'gpu_event' AND window_ms >= greatest({from_ms:Int64}, {to_ms:Int64} - 7200000) AND window_ms < {to_ms:Int64}
HAVING events > 0
UNION ALL
SELECT 'host.samples' AS topic, max(last_at_ms) AS newest_ms, sum(event_count) AS events
FROM host_samples_partials
WHERE grouping = 'host' AND window_ms >= greatest({from_ms:Int64}, {to_ms:Int64} - 7200000) AND window_ms < {to_ms:Int64}
HAVING events > 0
UNION ALL
SELECT 'engine.samples' AS topic, max(last_at_ms) AS newest_ms, sum(event_count) AS events
FROM engine_samples_partials
WHERE grouping = 'engine_sample' AND window_ms >= greatest({from_ms:Int64}, {to_ms:Int64} - 7200000) AND window_ms < {to_ms:Int64}
HAVING events > 0
