-- Given ranks of one training job over time: time of a step, loss, pace, age of the latest checkpoint.
-- param job: the job
-- param names: the ranks
-- reads training: training.steps 10s <= 30m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 5000
SELECT
    intDiv(window_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS at_ms,
    ifNull(rank, '') AS of_rank,
    sum(toInt128(step_us_sum)) / nullIf(sum(step_us_count), 0) AS step_us,
    sum(toInt128(loss_micro_sum)) / nullIf(sum(loss_micro_count), 0) / 1000000 AS loss,
    1000000 * (sum(toInt128(samples_sum)) / sum(event_count))
        / (nullIf(sum(toInt128(step_us_sum)), 0) / sum(step_us_count)) AS samples_per_s,
    1000000 * (sum(toInt128(tokens_sum)) / sum(event_count))
        / (nullIf(sum(toInt128(step_us_sum)), 0) / sum(step_us_count)) AS tokens_per_s,
    max(checkpoint_age_ms_max) / 60000 AS checkpoint_age_min
FROM {training:Rows}
WHERE grouping = 'training' AND job = {job:String} AND of_rank IN {names:Array(Nullable(String))}
    AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({host:String} = '' OR host = {host:String})
GROUP BY at_ms, of_rank
ORDER BY at_ms, of_rank
LIMIT 5000
