-- By kind of data: the first and last minute that the tables hold, the last before a range, and the first from its start on.
-- What no minute holds yet counts by its windows.
-- rows: 10
-- kept: 5
SELECT
    'requests' AS kind,
    (SELECT window_ms FROM llm_requests_rollup_1m WHERE grouping = 'service' ORDER BY window_ms LIMIT 1) AS first_ms,
    (SELECT window_ms FROM llm_requests_rollup_1m WHERE grouping = 'service' AND window_ms < intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms DESC LIMIT 1) AS before_ms,
    ifNull(
        (SELECT window_ms FROM llm_requests_rollup_1m WHERE grouping = 'service' AND window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1),
        (SELECT window_ms FROM llm_requests_partials WHERE grouping = 'service' AND window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1)
    ) AS next_ms,
    nullIf(greatest(
        ifNull((SELECT window_ms FROM llm_requests_rollup_1m WHERE grouping = 'service' ORDER BY window_ms DESC LIMIT 1), 0),
        ifNull((SELECT window_ms FROM llm_requests_partials WHERE grouping = 'service' ORDER BY window_ms DESC LIMIT 1), 0)
    ), 0) AS last_ms
UNION ALL
SELECT
    'GPU readings' AS kind,
    (SELECT window_ms FROM gpu_samples_rollup_1m WHERE grouping = 'gpu' ORDER BY window_ms LIMIT 1) AS first_ms,
    (SELECT window_ms FROM gpu_samples_rollup_1m WHERE grouping = 'gpu' AND window_ms < intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms DESC LIMIT 1) AS before_ms,
    ifNull(
        (SELECT window_ms FROM gpu_samples_rollup_1m WHERE grouping = 'gpu' AND window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1),
        (SELECT window_ms FROM gpu_samples_partials WHERE grouping = 'gpu' AND window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1)
    ) AS next_ms,
    nullIf(greatest(
        ifNull((SELECT window_ms FROM gpu_samples_rollup_1m WHERE grouping = 'gpu' ORDER BY window_ms DESC LIMIT 1), 0),
        ifNull((SELECT window_ms FROM gpu_samples_partials WHERE grouping = 'gpu' ORDER BY window_ms DESC LIMIT 1), 0)
    ), 0) AS last_ms
UNION ALL
SELECT
    'host readings' AS kind,
    (SELECT window_ms FROM host_samples_rollup_1m WHERE grouping = 'host' ORDER BY window_ms LIMIT 1) AS first_ms,
    (SELECT window_ms FROM host_samples_rollup_1m WHERE grouping = 'host' AND window_ms < intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms DESC LIMIT 1) AS before_ms,
    ifNull(
        (SELECT window_ms FROM host_samples_rollup_1m WHERE grouping = 'host' AND window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1),
        (SELECT window_ms FROM host_samples_partials WHERE grouping = 'host' AND window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1)
    ) AS next_ms,
    nullIf(greatest(
        ifNull((SELECT window_ms FROM host_samples_rollup_1m WHERE grouping = 'host' ORDER BY window_ms DESC LIMIT 1), 0),
        ifNull((SELECT window_ms FROM host_samples_partials WHERE grouping = 'host' ORDER BY window_ms DESC LIMIT 1), 0)
    ), 0) AS last_ms
UNION ALL
SELECT
    'engine readings' AS kind,
    (SELECT window_ms FROM engine_samples_rollup_1m WHERE grouping = 'engine_sample' ORDER BY window_ms LIMIT 1) AS first_ms,
    (SELECT window_ms FROM engine_samples_rollup_1m WHERE grouping = 'engine_sample' AND window_ms < intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms DESC LIMIT 1) AS before_ms,
    ifNull(
        (SELECT window_ms FROM engine_samples_rollup_1m WHERE grouping = 'engine_sample' AND window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1),
        (SELECT window_ms FROM engine_samples_partials WHERE grouping = 'engine_sample' AND window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1)
    ) AS next_ms,
    nullIf(greatest(
        ifNull((SELECT window_ms FROM engine_samples_rollup_1m WHERE grouping = 'engine_sample' ORDER BY window_ms DESC LIMIT 1), 0),
        ifNull((SELECT window_ms FROM engine_samples_partials WHERE grouping = 'engine_sample' ORDER BY window_ms DESC LIMIT 1), 0)
    ), 0) AS last_ms
UNION ALL
SELECT
    'training steps' AS kind,
    (SELECT window_ms FROM training_steps_rollup_1m WHERE grouping = 'training' ORDER BY window_ms LIMIT 1) AS first_ms,
    (SELECT window_ms FROM training_steps_rollup_1m WHERE grouping = 'training' AND window_ms < intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms DESC LIMIT 1) AS before_ms,
    ifNull(
        (SELECT window_ms FROM training_steps_rollup_1m WHERE grouping = 'training' AND window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1),
        (SELECT window_ms FROM training_steps_partials WHERE grouping = 'training' AND window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1)
    ) AS next_ms,
    nullIf(greatest(
        ifNull((SELECT window_ms FROM training_steps_rollup_1m WHERE grouping = 'training' ORDER BY window_ms DESC LIMIT 1), 0),
        ifNull((SELECT window_ms FROM training_steps_partials WHERE grouping = 'training' ORDER BY window_ms DESC LIMIT 1), 0)
    ), 0) AS last_ms
UNION ALL
SELECT
    'bills' AS kind,
    (SELECT window_ms FROM token_costs_rollup_1m ORDER BY window_ms LIMIT 1) AS first_ms,
    (SELECT window_ms FROM token_costs_rollup_1m WHERE window_ms < intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms DESC LIMIT 1) AS before_ms,
    (SELECT window_ms FROM token_costs_rollup_1m WHERE window_ms >= intDiv({from_ms:Int64}, 60000) * 60000 ORDER BY window_ms LIMIT 1) AS next_ms,
    (SELECT window_ms FROM token_costs_rollup_1m ORDER BY window_ms DESC LIMIT 1) AS last_ms
