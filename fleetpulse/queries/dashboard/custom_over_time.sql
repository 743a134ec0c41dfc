-- Ten series of one metric of an application over time, those with most values: level, or increase.
-- param metric: the metric
-- param service: the application; an empty text takes all
-- reads custom: custom.metrics 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    ifNull(service, '') AS of_service,
    ifNull(host, '') AS of_host,
    ifNull(attributes, '') AS with_attributes,
    sum(toInt128(value_micro_sum)) / nullIf(sum(value_micro_count), 0) / 1000000 AS level,
    sum(toInt128(increase_micro_sum)) / 1000000 AS increase
FROM {custom:Rows}
WHERE grouping = 'custom' AND metric = {metric:String} AND ({service:String} = '' OR service = {service:String})
    AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({host:String} = '' OR host = {host:String})
    AND (ifNull(service, ''), ifNull(host, ''), ifNull(attributes, '')) IN (
        SELECT ifNull(service, ''), ifNull(host, ''), ifNull(attributes, '')
        FROM {custom:Rows}
        WHERE grouping = 'custom' AND metric = {metric:String} AND ({service:String} = '' OR service = {service:String})
            AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            AND ({cluster:String} = '' OR cluster = {cluster:String})
            AND ({host:String} = '' OR host = {host:String})
        GROUP BY 1, 2, 3
        ORDER BY sum(event_count) DESC, 1, 2, 3
        LIMIT 10)
GROUP BY at_ms, of_service, of_host, with_attributes
ORDER BY at_ms, of_service, of_host, with_attributes
LIMIT 5000
