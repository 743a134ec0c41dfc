-- Values of one dimension of GPUs that hold a text, most frequent first.
-- param dimension: column of the dimension
-- param search: what the value must hold, upper or lower case
-- param top: how many at most
-- reads gpu: gpu.samples 1m <= 1m, 1h <= 30d, 1d
-- rows: 1000
SELECT {dimension:Identifier} AS value, sum(event_count) AS events
FROM {gpu:Seen}
WHERE grouping = 'gpu'
    AND value IS NOT NULL AND positionCaseInsensitiveUTF8(value, {search:String}) > 0
GROUP BY value
ORDER BY events DESC, value
LIMIT {top:UInt32}
