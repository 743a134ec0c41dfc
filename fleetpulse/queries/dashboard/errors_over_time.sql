-- Why requests were not answered in full, over time: the kinds with most of them.
-- reads requests: llm.requests 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 20000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    ifNull(error_kind, status) AS kind,
    sum(event_count) AS requests
FROM {requests:Rows}
WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
    AND NOT {ok:End}
GROUP BY at_ms, kind
ORDER BY at_ms, kind
LIMIT 20000
