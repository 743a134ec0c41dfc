-- Single requests that met all objectives of their class, over time, as stream_jobs.costs.goodput defines it.
-- Version 1 of the definition; for where windows hold no verdicts.
-- param slo_classes: names of the classes
-- param slo_ttft_us: their objectives, null for none [us]
-- param slo_tpot_us: their objectives, null for none [us]
-- param slo_e2e_us: their objectives, null for none [us]
-- rows: 5000
WITH judged AS
(
    SELECT
        at_ms,
        indexOf({slo_classes:Array(String)}, ifNull(slo_class, '')) AS number,
        ifNull(ttft_us > {slo_ttft_us:Array(Nullable(Int64))}[number], false)
            OR ifNull(tpot_us > {slo_tpot_us:Array(Nullable(Int64))}[number], false)
            OR ifNull(e2e_us > {slo_e2e_us:Array(Nullable(Int64))}[number], false) AS missed,
        number = 0 OR {left_out:End} AS left_out,
        {good:End} AS good
    FROM llm_requests FINAL
    WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64} AND verdict = 'accepted'
        AND ({cluster:String} = '' OR cluster = {cluster:String})
        AND ({region:String} = '' OR region = {region:String})
        AND ({model:String} = '' OR model = {model:String})
        AND ({tenant:String} = '' OR tenant = {tenant:String})
)
SELECT
    intDiv(at_ms, {bucket_ms:Int64}) * {bucket_ms:Int64} AS bucket_at_ms,
    countIf(NOT left_out) AS judged,
    countIf(good AND NOT left_out) AS good
FROM judged
GROUP BY bucket_at_ms
ORDER BY bucket_at_ms
LIMIT 5000
