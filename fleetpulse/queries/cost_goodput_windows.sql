-- Judged and good requests by class, as windows hold them: over any range, by the classes that `jobs windows` was given.
-- Which objective was missed single requests say alone (cost_goodput). Of a class that the job did not know there is no
-- row.
-- reads requests: llm.requests 1m <= 1h, 1h
SELECT
    slo_class,
    {judged:Metric} AS all_judged,
    {good:Metric} AS good,
    {judged_failed:Metric} AS failed,
    {missed:Metric} AS missed,
    sum(event_count) - all_judged AS left_out,
    {good_tokens:Metric} AS good_tokens
FROM {requests:Rows}
WHERE grouping = 'service' AND slo_class IS NOT NULL AND judged_requests_sum IS NOT NULL
    AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
GROUP BY slo_class
ORDER BY slo_class
