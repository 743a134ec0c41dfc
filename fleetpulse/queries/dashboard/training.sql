-- Training jobs of a range: how fast, how far, and how uneven their ranks are.
-- A rank's pace is of the time in its steps: what one brings on average, by the mean time of those whose time is known.
-- param search: a part of a job or model, upper or lower case; the one that is called just so stands first
-- param top: how many at most
-- reads training: training.steps 10s <= 10m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 1000
SELECT
    job,
    any(a_model) AS model_name,
    count() AS ranks,
    uniq(a_host) AS hosts_used,
    max(steps) AS steps_most,
    argMax(loss, heard_ms) AS loss_last,
    fp_quantiles_linear([0.5, 0.95], sumMap(bins)) AS step_us,
    arraySum(mapValues(sumMap(bins))) AS step_counted,
    max(step_mean_us) / nullIf(min(step_mean_us), 0) AS slowest_by_fastest,
    sum(samples_pace) AS samples_per_s,
    sum(tokens_pace) AS tokens_per_s,
    max(checkpoint_ms) AS checkpoint_age_ms,
    max(heard_ms) AS last_ms,
    count() OVER () AS jobs
FROM
(
    SELECT
        job,
        rank,
        any(model) AS a_model,
        any(host) AS a_host,
        sum(event_count) AS steps,
        argMax(loss_micro_last, if(loss_micro_last IS NULL, 0, last_at_ms)) / 1000000 AS loss,
        sumMap(step_us_bins) AS bins,
        sum(toInt128(step_us_sum)) / nullIf(sum(step_us_count), 0) AS step_mean_us,
        1000000 * (sum(toInt128(samples_sum)) / sum(event_count))
            / (nullIf(sum(toInt128(step_us_sum)), 0) / sum(step_us_count)) AS samples_pace,
        1000000 * (sum(toInt128(tokens_sum)) / sum(event_count))
            / (nullIf(sum(toInt128(step_us_sum)), 0) / sum(step_us_count)) AS tokens_pace,
        argMax(checkpoint_age_ms_last, last_at_ms) AS checkpoint_ms,
        max(last_at_ms) AS heard_ms
    FROM {training:Rows}
    WHERE grouping = 'training' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (positionCaseInsensitiveUTF8(ifNull(job, ''), {search:String}) > 0
            OR positionCaseInsensitiveUTF8(ifNull(model, ''), {search:String}) > 0)
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({host:String} = '' OR host = {host:String})
    GROUP BY job, rank
)
GROUP BY job
ORDER BY ifNull(job = {search:String}, 0) DESC, last_ms DESC, job
LIMIT {top:UInt32}
