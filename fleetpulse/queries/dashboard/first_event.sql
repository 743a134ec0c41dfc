-- The window of the first event that the tables still hold; null before the first.
-- rows: 2
-- kept: 5
SELECT minOrNull(window_ms) AS first_ms
FROM
(
    SELECT window_ms FROM llm_requests_partials WHERE grouping = 'service' ORDER BY window_ms LIMIT 1
    UNION ALL
    SELECT window_ms FROM gpu_samples_partials WHERE grouping = 'gpu' ORDER BY window_ms LIMIT 1
    UNION ALL
    SELECT window_ms FROM host_samples_partials WHERE grouping = 'host' ORDER BY window_ms LIMIT 1
    UNION ALL
    SELECT window_ms FROM engine_samples_partials WHERE grouping = 'engine_sample' ORDER BY window_ms LIMIT 1
)
