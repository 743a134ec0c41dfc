-- What percentile 95 of a latency usually was, by hour of the day: its 10th and 90th percentile over hours before.
-- param bins: column with the sketch
-- reads requests: llm.requests 1h
-- rows: 100
-- kept: 300
SELECT
    intDiv(hour_ms, 3600000) % 24 AS hour,
    groupArray(value) AS hours
FROM
(
    SELECT
        intDiv(window_ms, 3600000) * 3600000 AS hour_ms,
        fp_quantile_linear(0.95, sumMap({bins:Identifier})) AS value
    FROM {requests:Identifier} FINAL
    WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
    GROUP BY hour_ms
)
WHERE value IS NOT NULL
GROUP BY hour
ORDER BY hour
LIMIT 24
