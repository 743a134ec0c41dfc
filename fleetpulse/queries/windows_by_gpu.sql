-- Each 10 s window of each GPU: use, power, temperature, memory.
-- Where rows of 10 s are no longer kept, each minute.
-- reads gpus: gpu.samples 10s <= 400d, 1m
SELECT
    window_ms,
    cluster,
    host,
    gpu_uuid,
    gpu_model,
    engine_id,
    sum(util_gpu_pct_sum) / nullIf(sum(util_gpu_pct_count), 0) / 100 AS utilisation,
    sum(toInt128(power_mw_sum)) / nullIf(sum(power_mw_count), 0) / 1e3 AS power_w,
    max(temperature_c_max) AS temperature_max_c,
    max(memory_used_bytes_max) AS memory_used_max_bytes,
    sum(toInt128(throttled_us_sum)) / 1e6 AS throttled_s
FROM {gpus:Rows}
WHERE grouping = 'gpu'
GROUP BY window_ms, cluster, host, gpu_uuid, gpu_model, engine_id
ORDER BY window_ms, host, gpu_uuid
