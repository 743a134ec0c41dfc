-- Judged and good requests by class, as windows hold them: over any range, by the classes that `jobs windows` was given.
-- Whole hours from their rollup, what lies before and after them from minutes. Which objective was missed single requests
-- say alone (cost_goodput). Of a class that the job did not know there is no row.
SELECT
    class AS slo_class,
    {judged:Metric} AS all_judged,
    {good:Metric} AS good,
    {judged_failed:Metric} AS failed,
    {missed:Metric} AS missed,
    sum(event_count) - all_judged AS left_out,
    {good_tokens:Metric} AS good_tokens
FROM
(
    SELECT slo_class AS class, status, event_count, judged_requests_sum, good_requests_sum, good_tokens_sum
    FROM llm_requests_rollup_1h FINAL
    WHERE grouping = 'service' AND slo_class IS NOT NULL AND judged_requests_sum IS NOT NULL
        AND window_ms >= intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
        AND window_ms < intDiv({to_ms:Int64}, 3600000) * 3600000
    UNION ALL
    SELECT slo_class, status, event_count, judged_requests_sum, good_requests_sum, good_tokens_sum
    FROM llm_requests_rollup_1m FINAL
    WHERE grouping = 'service' AND slo_class IS NOT NULL AND judged_requests_sum IS NOT NULL
        AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (window_ms < intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
            OR window_ms >= intDiv({to_ms:Int64}, 3600000) * 3600000)
)
GROUP BY class
ORDER BY class
