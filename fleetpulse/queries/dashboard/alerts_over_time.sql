-- How many alerts were opened over time, by severity.
-- rows: 5000
SELECT
    intDiv(opened_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS bucket,
    severity,
    uniqExact(fingerprint, opened_ms) AS opened
FROM alerts FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64} AND transition = 'opened'
    AND ({cluster:String} = '' OR JSONExtractString(record, 'labels', 'cluster') = {cluster:String})
    AND ({host:String} = '' OR JSONExtractString(record, 'labels', 'host') = {host:String})
    AND ({model:String} = '' OR JSONExtractString(record, 'labels', 'model') = {model:String})
    AND ({tenant:String} = '' OR JSONExtractString(record, 'labels', 'tenant') = {tenant:String})
GROUP BY bucket, severity
ORDER BY bucket, severity
LIMIT 5000
