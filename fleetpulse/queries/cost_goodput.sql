-- Which requests met all objectives of their class, as stream_jobs.costs.goodput defines it (version 1).
WITH judged AS
(
    SELECT
        ifNull(slo_class, '') AS class,
        indexOf({slo_classes:Array(String)}, class) AS number,
        ifNull(ttft_us > {slo_ttft_us:Array(Nullable(Int64))}[number], false) AS missed_ttft,
        ifNull(tpot_us > {slo_tpot_us:Array(Nullable(Int64))}[number], false) AS missed_tpot,
        ifNull(e2e_us > {slo_e2e_us:Array(Nullable(Int64))}[number], false) AS missed_e2e,
        missed_ttft OR missed_tpot OR missed_e2e AS missed,
        multiIf(
            number = 0, 'not_judged',
            {left_out:End}, 'left_out',
            {good:End}, 'good',
            {unanswered:End}, 'failed',
            'missed'
        ) AS judgement,
        input_tokens,
        output_tokens
    FROM llm_requests FINAL
    WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64} AND verdict = 'accepted'
)
SELECT
    class AS slo_class,
    countIf(judgement = 'good') AS good,
    countIf(judgement = 'missed') AS missed,
    countIf(judgement = 'failed') AS failed,
    countIf(judgement = 'left_out') AS left_out,
    countIf(judgement = 'not_judged') AS not_judged,
    countIf(judgement = 'missed' AND missed_ttft) AS missed_ttft,
    countIf(judgement = 'missed' AND missed_tpot) AS missed_tpot,
    countIf(judgement = 'missed' AND missed_e2e) AS missed_e2e,
    good_input_tokens + good_output_tokens AS good_tokens,
    toInt64(ifNull(sumIf(input_tokens, judgement = 'good'), 0)) AS good_input_tokens,
    toInt64(ifNull(sumIf(output_tokens, judgement = 'good'), 0)) AS good_output_tokens,
    toInt64(ifNull(sumIf(output_tokens, judgement = 'missed'), 0)) AS missed_output_tokens,
    toInt64(ifNull(sum(output_tokens), 0)) AS all_output_tokens
FROM judged
GROUP BY class
ORDER BY class
