-- Ranks of one training job over a range, the slowest first.
-- param job: the job
-- param top: how many at most
-- reads training: training.steps 10s <= 10m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 1000
SELECT
    ifNull(rank, '') AS of_rank,
    any(host) AS a_host,
    any(engine_id) AS of_engine,
    sum(event_count) AS steps,
    sum(toInt128(step_us_sum)) / nullIf(sum(step_us_count), 0) AS step_mean_us,
    max(step_us_max) AS step_longest_us,
    argMax(loss_micro_last, if(loss_micro_last IS NULL, 0, last_at_ms)) / 1000000 AS loss,
    1000000 * (sum(toInt128(samples_sum)) / sum(event_count))
        / (nullIf(sum(toInt128(step_us_sum)), 0) / sum(step_us_count)) AS samples_per_s,
    1000000 * (sum(toInt128(tokens_sum)) / sum(event_count))
        / (nullIf(sum(toInt128(step_us_sum)), 0) / sum(step_us_count)) AS tokens_per_s,
    max(last_at_ms) AS last_ms,
    count() OVER () AS ranks
FROM {training:Rows}
WHERE grouping = 'training' AND job = {job:String} AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({host:String} = '' OR host = {host:String})
GROUP BY of_rank
ORDER BY step_mean_us DESC, of_rank
LIMIT {top:UInt32}
