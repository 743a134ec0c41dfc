-- Energy and speed by power limit, as measured: minutes in which an engine computed tokens, by the limit of its GPUs.
-- Usage is by the minute and GPU windows are not: of both only minutes that lie in the range as a whole are taken, and
-- speed is of the time that readings of the GPUs cover. Usage is kept for 30 days (limits.partials_ttl_ms): of a longer
-- range it is what is kept, `minutes` of it.
WITH
    intDiv({from_ms:Int64} + 59999, 60000) * 60000 AS first_ms,
    intDiv({to_ms:Int64}, 60000) * 60000 AS end_ms,
    gpus AS
    (
        SELECT
            engine_id,
            intDiv(window_ms, 60000) AS minute,
            any(gpu_model) AS gpu,
            sum(toInt128(interval_ms_sum)) AS covered_ms,
            25 * round(sum(toInt128(power_limit_mw_sum)) / nullIf(sum(power_limit_mw_count), 0) / 25000) AS limit_w,
            sum(toInt128(energy_mj_sum)) AS energy_mj
        FROM gpu_samples_partials FINAL
        WHERE grouping = 'gpu' AND window_ms >= first_ms AND window_ms < end_ms AND engine_id IS NOT NULL
        GROUP BY engine_id, minute
        HAVING limit_w IS NOT NULL
    ),
    work AS
    (
        SELECT
            engine_id,
            intDiv(window_ms, 60000) AS minute,
            any(model) AS model,
            sum(prefill_tokens) AS prompt,
            sum(decode_tokens) AS generated
        FROM usage FINAL
        WHERE window_ms >= first_ms AND window_ms < end_ms AND engine_id IS NOT NULL
        GROUP BY engine_id, minute
    )
SELECT
    work.model AS model,
    gpus.gpu AS gpu_model,
    gpus.limit_w AS limit_w,
    count() AS minutes,
    sum(toInt128(gpus.energy_mj)) AS energy_mj,
    toInt64(ifNull(sum(work.prompt), 0)) AS prompt_tokens,
    toInt64(ifNull(sum(work.generated), 0)) AS generated_tokens,
    round(sum(toInt128(gpus.energy_mj)) / 1000 / (prompt_tokens + generated_tokens), 3) AS j_per_token,
    round(generated_tokens / nullIf(sum(gpus.covered_ms) / 1000, 0), 1) AS generated_tokens_per_gpu_s
FROM gpus
INNER JOIN work ON gpus.engine_id = work.engine_id AND gpus.minute = work.minute
GROUP BY work.model, gpus.gpu, gpus.limit_w
HAVING prompt_tokens + generated_tokens > 0
ORDER BY model, gpu_model, limit_w
