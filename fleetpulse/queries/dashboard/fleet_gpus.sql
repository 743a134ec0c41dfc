-- One row for each GPU and MIG device: a metric's mean, when it reported last, how long it was throttled.
-- throttled_fault_us is what anything but the power limit did of that, covered_ms the time of which it is known.
-- param total: column with the metric's sum
-- param known: column with how many values of it were known
-- reads gpu: gpu.samples 10s <= 5m, 1m <= 2h, 1h <= 30d, 1d
-- list: 20000 by host, gpu_uuid
-- rows: 30000
-- kept: 5
SELECT
    host,
    gpu_uuid,
    any(gpu_model) AS a_model,
    any(parent_uuid) AS part_of_gpu,
    argMax(engine_id, last_at_ms) AS engine,
    sum(toInt128({total:Identifier})) / nullIf(sumIf({known:Identifier}, {total:Identifier} IS NOT NULL), 0) AS value,
    max(temperature_c_max) AS temperature_max_c,
    sum(toInt128(throttled_us_sum)) AS throttled_us,
    sum(toInt128(throttled_fault_us_sum)) AS throttled_fault_us,
    sumIf(toInt128(interval_ms_sum), throttled_fault_us_sum IS NOT NULL) AS covered_ms,
    max(last_at_ms) AS heard_ms,
    count() OVER () AS gpus_known
FROM {gpu:Rows}
WHERE grouping = 'gpu' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({host:String} = '' OR host = {host:String})
    AND ({gpu_model:String} = '' OR gpu_model = {gpu_model:String})
GROUP BY host, gpu_uuid
