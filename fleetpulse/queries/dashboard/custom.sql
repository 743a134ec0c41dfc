-- Metrics that applications defined, over a range: who reports them, and their values or what they grew by.
-- param search: a part of a metric, service or attribute, upper or lower case
-- param top: how many at most
-- reads custom: custom.metrics 10s <= 10m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 1000
SELECT
    metric,
    ifNull(service, '') AS of_service,
    ifNull(unit, '') AS in_unit,
    uniq(ifNull(host, ''), ifNull(attributes, '')) AS series_seen,
    sum(event_count) AS values_seen,
    argMax(value_micro_last, if(value_micro_last IS NULL, 0, last_at_ms)) / 1000000 AS value_last,
    min(value_micro_min) / 1000000 AS value_least,
    max(value_micro_max) / 1000000 AS value_most,
    sum(toInt128(increase_micro_sum)) / 1000000 AS increase,
    max(last_at_ms) AS last_ms,
    count() OVER () AS metrics
FROM {custom:Rows}
WHERE grouping = 'custom' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND (positionCaseInsensitiveUTF8(ifNull(metric, ''), {search:String}) > 0
        OR positionCaseInsensitiveUTF8(ifNull(service, ''), {search:String}) > 0
        OR positionCaseInsensitiveUTF8(ifNull(attributes, ''), {search:String}) > 0)
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({host:String} = '' OR host = {host:String})
GROUP BY metric, of_service, in_unit
ORDER BY metric, of_service, in_unit
LIMIT {top:UInt32}
