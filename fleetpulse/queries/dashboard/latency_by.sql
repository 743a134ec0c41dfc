-- Percentiles 50, 95 and 99 of one latency by a dimension, of those named (null is a name too) or of all.
-- param bins: column with the sketch
-- param dimension: model, tenant or another
-- param names: values of the dimension; an empty list takes all
-- reads requests: llm.requests 10s <= 5m, 1m <= 2h, 1h <= 60d, 1d
-- rows: 1000
SELECT
    name,
    fp_quantiles_linear([0.5, 0.95, 0.99], sumMap(bins)) AS percentiles,
    arraySum(mapValues(sumMap(bins))) AS counted
FROM
(
    SELECT {dimension:Identifier} AS name, {bins:Identifier} AS bins
    FROM {requests:Rows}
    WHERE grouping = 'service'
        AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
        AND (empty({names:Array(Nullable(String))}) OR has({names:Array(Nullable(String))}, name))
)
GROUP BY name
ORDER BY name
LIMIT 1000
