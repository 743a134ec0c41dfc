-- What requests, GPU samples and GPU time are joined with: how many there are, how many have it, who lacks it most.
-- A GPU that is known to be idle or training needs no engine. One that names none belongs to no request's engine, though
-- its group may be the same: that of both is their host where the agent could not match them. GPU time counts in milliseconds of the bill.
-- Reports of one request by several measurers (the last three minutes of the range) meet by its id.
-- reads requests: llm.requests 10s <= 10m, 1m <= 12h, 1h <= 60d, 1d
-- reads gpu: gpu.samples 10s <= 10m, 1m <= 2h, 1h <= 30d, 1d
-- reads minutes: costs 1m <= 7d, 1h <= 60d, 1d
-- rows: 10
-- kept: 60
WITH reporting AS (
    SELECT DISTINCT placement_group
    FROM {gpu:Labels}
    WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND placement_group IS NOT NULL AND (engine_id IS NOT NULL OR placement_group != ifNull(host, ''))
)
SELECT
    counted,
    joined_with,
    sum(events) AS total,
    sum(joined) AS joined_events,
    arraySort(groupUniqArrayIf(5)(lacking, joined < events AND lacking != '')) AS lacks
FROM
(
    SELECT 'requests' AS counted, side.1 AS joined_with, requests AS events, if(side.2, requests, 0) AS joined, side.3 AS lacking
    FROM
    (
        SELECT grouping, host, engine_id, ifNull(placement_group, '') AS of_group, tenant IS NOT NULL AS has_tenant,
            if(grouping = 'service', model, '') AS of_model, sum(toInt64(event_count)) AS requests
        FROM {requests:Rows}
        WHERE grouping IN ('engine', 'service') AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        GROUP BY grouping, host, engine_id, of_group, has_tenant, of_model
    )
    ARRAY JOIN if(grouping = 'service', [('tenant', has_tenant, ifNull(of_model, ''))],
        [('engine', engine_id IS NOT NULL, ifNull(host, '')),
            ('GPUs', of_group IN (SELECT ifNull(placement_group, '') FROM reporting), ifNull(engine_id, ''))]) AS side
    UNION ALL
    SELECT 'requests' AS counted, 'one report' AS joined_with, toInt64(1) AS events, toInt64(length(reporters) = 1) AS joined,
        arrayStringConcat(arraySort(reporters), ' and ') AS lacking
    FROM
    (
        SELECT groupUniqArray(assumeNotNull(reported_by)) AS reporters
        FROM llm_requests
        WHERE at_ms >= greatest({from_ms:Int64}, {to_ms:Int64} - 180000) AND at_ms < {to_ms:Int64}
            AND reported_by IS NOT NULL
        GROUP BY replaceRegexpOne(
            if(reported_by = 'plugin' AND match(request_id, '^([0-9]+_)?((cmpl|embd|score|classify|pooling)-|resp_)'),
                replaceRegexpOne(replaceRegexpOne(request_id, '[-_][0-9]+$', ''), '^[0-9]+_resp_', 'resp_'), request_id),
            if(reported_by IN ('plugin', 'gateway', 'sdk'), concat('^', if(reported_by = 'plugin', '([0-9]+_)?', ''),
                '(chatcmpl|cmpl|embd|score|classify|pooling|transcribe|translate|generate-tokens)-'), '^$'), '')
    )
    UNION ALL
    SELECT 'GPU samples' AS counted, 'engine' AS joined_with, sum(toInt64(event_count)) AS events,
        sumIf(toInt64(event_count), NOT ifNull(engine_id IS NULL AND ifNull(placement_group, host) = host, 0)) AS joined,
        ifNull(host, '') AS lacking
    FROM {gpu:Rows}
    WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ifNull(workload, '') NOT IN ('idle', 'training', 'fine_tuning')
    GROUP BY host
    UNION ALL
    SELECT 'GPU time' AS counted, 'price' AS joined_with, toInt64(gpu_ms) AS events,
        toInt64(gpu_ms) - toInt64(unpriced_ms) AS joined, '' AS lacking
    FROM {minutes:Rows} AS r
    ARRAY JOIN r.bill_gpu_ms AS gpu_ms, r.bill_unpriced_gpu_ms AS unpriced_ms
    WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
)
GROUP BY counted, joined_with
HAVING total > 0
ORDER BY counted DESC, joined_with
