-- What single requests cost: their share of the bills of their engine, for the minutes in which they ran.
-- Tokens are spread over minutes as in why/costs.md; of each part of a bill a request has its own amount by the part's,
-- rounded down. Null: no engine, no tokens, no bill or no price at all; unpriced_minutes are missing in the sum, as in the
-- bill. all_final 0: provisional bills are among them. Tokens are those that list prices go by (cost_list_tokens).
-- param request_id: request id or trace id; an empty text takes all
-- rows: 1000
WITH
    requests AS (
        SELECT
            request_id, at_ms, tenant, model, slo_class, status, engine_id, coalesce(placement_group, host) AS of_group,
            input_tokens, cached_tokens, output_tokens, source, boot, seq, row,
            at_ms * 1000 AS end_us,
            end_us - ifNull(e2e_us, 0) AS start_us,
            least(start_us + ifNull(queue_us, 0), end_us) AS begin_us,
            coalesce(start_us + ttft_us, end_us - decode_us, start_us + ifNull(queue_us, 0) + prefill_us) AS first_us,
            e2e_us IS NOT NULL AND first_us IS NOT NULL AS known,
            least(greatest(ifNull(first_us, end_us), begin_us), end_us) AS held_us,
            if(known, held_us, end_us) AS prefill_to,
            if(known, held_us, begin_us) AS decode_from,
            toInt128(if(input_tokens IS NULL, NULL, greatest(input_tokens - ifNull(cached_tokens, 0), 0))) AS computed,
            toInt128(if(e2e_us IS NULL OR output_tokens IS NULL, NULL, input_tokens)) AS prompt,
            toInt128(output_tokens) AS answer,
            intDiv(end_us, 60000000) AS ended,
            greatest(ended - (end_us > begin_us AND end_us = ended * 60000000), 0) AS last_minute,
            greatest(ended - 15, 0, least(last_minute, intDiv(begin_us, 60000000))) AS first_minute
        FROM llm_requests FINAL
        WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
            AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000)
            AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
            AND verdict = 'accepted'
            AND ({request_id:String} = '' OR request_id = {request_id:String} OR trace_id = {request_id:String})
    ),
    minutes AS (
        SELECT
            *, minute,
            [if(minute = first_minute, 0, minute * 60000000),
                if(minute = last_minute, 4611686018427387904, (minute + 1) * 60000000)] AS moments,
            arrayMap(m -> multiIf(m <= begin_us, 0, m >= prefill_to, computed,
                intDiv(computed * (m - begin_us), greatest(prefill_to - begin_us, 1))), moments) AS prefilled,
            arrayMap(m -> multiIf(m <= decode_from, 0, m >= end_us, answer,
                intDiv(answer * (m - decode_from), greatest(end_us - decode_from, 1))), moments) AS decoded,
            arrayMap(m -> intDiv(prompt * greatest(least(m, end_us) - begin_us, 0), 1000)
                + if(m <= decode_from, 0, intDiv(answer * (least(m, end_us) - decode_from) * (least(m, end_us) - decode_from),
                    2000 * greatest(end_us - decode_from, 1))), moments) AS kept
        FROM requests
        ARRAY JOIN arrayMap(n -> toInt64(n), range(toUInt64(first_minute), toUInt64(last_minute) + 1)) AS minute
    ),
    work AS (
        SELECT *, kind, own, minute * 60000 AS of_ms
        FROM minutes
        ARRAY JOIN
            ['prefill', 'decode', 'kv'] AS kind,
            [prefilled[2] - prefilled[1], decoded[2] - decoded[1], kept[2] - kept[1]] AS own
    ),
    parts AS (
        SELECT minute_ms, owner, placement_group, kind, tenant, model, slo_class, status, final,
            amount, cost_nusd, energy_mj, meter_mj, carbon_ug, gpu_ms
        FROM cost_parts
        WHERE minute_ms >= {from_ms:Int64} - 960000 AND minute_ms < {to_ms:Int64} AND use = 'engine' AND amount > 0
            AND owner IN (SELECT engine_id FROM requests)
    ),
    shares AS (
        SELECT
            w.*,
            p.final AS final,
            if(w.own = 0, NULL, intDiv(w.own * p.cost_nusd, p.amount)) AS nusd,
            if(w.own = 0, NULL, intDiv(w.own * p.energy_mj, p.amount)) AS mj,
            if(w.own = 0, NULL, intDiv(w.own * p.meter_mj, p.amount)) AS metered_mj,
            if(w.own = 0, NULL, intDiv(w.own * p.carbon_ug, p.amount)) AS ug,
            if(w.own = 0, NULL, intDiv(w.own * p.gpu_ms, p.amount)) AS ms
        FROM work AS w
        LEFT JOIN parts AS p ON w.of_ms = p.minute_ms AND w.engine_id = p.owner AND w.of_group = p.placement_group
            AND w.kind = p.kind AND w.tenant <=> p.tenant AND w.model <=> p.model AND w.slo_class <=> p.slo_class
            AND w.status <=> p.status
    )
SELECT
    request_id,
    any(at_ms) AS ended_ms,
    any(engine_id) AS engine,
    any(tenant) AS tenant,
    any(model) AS model,
    any(slo_class) AS slo_class,
    any(status) AS status,
    any(input_tokens) AS tokens_in,
    any(cached_tokens) AS tokens_cached,
    any(output_tokens) AS tokens_out,
    uniqExact(minute) AS minutes,
    uniqExactIf(minute, own > 0 AND nusd IS NULL) AS unpriced_minutes,
    minIf(final, own > 0 AND nusd IS NOT NULL) AS all_final,
    engine IS NOT NULL AND sum(toInt128(own)) = 0 AS no_work,
    if(no_work, 0, sumIf(toInt128(nusd), kind = 'prefill')) AS prefill_nusd,
    if(no_work, 0, sumIf(toInt128(nusd), kind = 'decode')) AS decode_nusd,
    if(no_work, 0, sumIf(toInt128(nusd), kind = 'kv')) AS kv_nusd,
    if(no_work, 0, sum(toInt128(nusd))) AS cost_nusd,
    if(no_work, 0, sum(toInt128(mj))) AS share_energy_mj,
    if(no_work, 0, sum(toInt128(metered_mj))) AS share_meter_mj,
    if(no_work, 0, sum(toInt128(ug))) AS share_carbon_ug,
    if(no_work, 0, sum(toInt128(ms))) AS share_gpu_ms
FROM shares
GROUP BY request_id, source, boot, seq, row
ORDER BY cost_nusd DESC, request_id
LIMIT 1000
