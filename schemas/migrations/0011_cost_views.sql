CREATE OR REPLACE VIEW costs
(
    minute DateTime('UTC') COMMENT 'start of the minute, event time',
    minute_ms Int64 COMMENT 'start of the minute, event time, UTC [ms]',
    version UInt64 COMMENT 'of the rows of a bill the greatest counts',
    revision UInt64 COMMENT 'source offset of the last change in this bill',
    final UInt32 COMMENT '1 once no request that ends in time can change it, else 0',
    weights_version UInt32 COMMENT 'version of the weights that parts were split by',
    definition_version UInt32 COMMENT 'version of the metric definitions',
    total_nusd Nullable(Int64) COMMENT 'the bill: what is known of GPU, host and energy; null: nothing had a price [nUSD]',
    gpu_nusd Nullable(Int64) COMMENT 'GPU time at its price; null: no price [nUSD]',
    host_nusd Nullable(Int64) COMMENT 'overhead of the hosts; null: no price [nUSD]',
    energy_nusd Nullable(Int64) COMMENT 'energy at tariff and PUE; null: no price or not measured [nUSD]',
    gpu_ms Int64 COMMENT 'GPU time, estimated time included [ms]',
    energy_mj Nullable(Int64) COMMENT 'energy; null: not measured [mJ]',
    unpriced_gpu_ms Int64 COMMENT 'GPU time without a price [ms]',
    unpriced_energy_mj Int64 COMMENT 'energy without a price [mJ]',
    unmeasured_gpu_ms Int64 COMMENT 'GPU time whose energy was not measured [ms]',
    estimated_gpu_ms Int64 COMMENT 'GPU time billed for gaps between readings; above 0: the bill is estimated [ms]',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    line_tenant Array(LowCardinality(Nullable(String))) COMMENT 'of each line who asked',
    line_model Array(LowCardinality(Nullable(String))) COMMENT 'of each line the model as served',
    line_slo_class Array(LowCardinality(Nullable(String))) COMMENT 'of each line the service class',
    line_status Array(LowCardinality(Nullable(String))) COMMENT 'of each line how its requests ended',
    line_requests Array(Int64) COMMENT 'of each line requests that ended in this minute',
    line_prefill_tokens Array(Nullable(Int64)) COMMENT 'of each line prompt tokens computed; null: not told [tokens]',
    line_cached_tokens Array(Nullable(Int64)) COMMENT 'of each line prompt tokens from the prefix cache; null: not told [tokens]',
    line_decode_tokens Array(Nullable(Int64)) COMMENT 'of each line generated tokens; null: not told [tokens]',
    line_kv_token_ms Array(Nullable(Int64)) COMMENT 'of each line tokens in the KV cache times how long; null: not told [token-ms]',
    part_name Array(LowCardinality(Nullable(String))) COMMENT 'what each part is for: request, __overhead__, __wasted__, __unattributed__, __idle__, __training__, __unpriced__',
    part_kind Array(LowCardinality(Nullable(String))) COMMENT 'what each part was paid for: prefill, decode, kv, startup, held',
    part_tenant Array(LowCardinality(Nullable(String))) COMMENT 'whose each part is; null: nobody\'s in particular',
    part_model Array(LowCardinality(Nullable(String))) COMMENT 'model of each part',
    part_slo_class Array(LowCardinality(Nullable(String))) COMMENT 'service class of each part',
    part_status Array(LowCardinality(Nullable(String))) COMMENT 'how the requests of each part ended',
    part_amount Array(Nullable(Int64)) COMMENT 'units each part pays for; null where its kind has none [tokens or token-ms]',
    part_cost_nusd Array(Nullable(Int64)) COMMENT 'cost of each part; null: no price [nUSD]',
    part_energy_mj Array(Nullable(Int64)) COMMENT 'energy of each part; null: not measured [mJ]',
    part_gpu_ms Array(Nullable(Int64)) COMMENT 'GPU time of each part [ms]'
)
AS SELECT
    toDateTime(intDiv(minute_ms, 1000), 'UTC') AS minute,
    minute_ms,
    version,
    revision,
    final,
    weights_version,
    definition_version,
    total_nusd,
    gpu_nusd,
    host_nusd,
    energy_nusd,
    gpu_ms,
    energy_mj,
    unpriced_gpu_ms,
    unpriced_energy_mj,
    unmeasured_gpu_ms,
    estimated_gpu_ms,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    line_tenant,
    line_model,
    line_slo_class,
    line_status,
    line_requests,
    line_prefill_tokens,
    line_cached_tokens,
    line_decode_tokens,
    line_kv_token_ms,
    part_name,
    part_kind,
    part_tenant,
    part_model,
    part_slo_class,
    part_status,
    part_amount,
    part_cost_nusd,
    part_energy_mj,
    part_gpu_ms
FROM token_costs FINAL
COMMENT 'bills by minute, the last revision of each, with all its parts';

CREATE OR REPLACE VIEW cost_parts
(
    minute DateTime('UTC') COMMENT 'start of the minute, event time',
    minute_ms Int64 COMMENT 'start of the minute, event time, UTC [ms]',
    version UInt64 COMMENT 'of the rows of a bill the greatest counts',
    revision UInt64 COMMENT 'source offset of the last change in this bill',
    final UInt32 COMMENT '1 once no request that ends in time can change it, else 0',
    weights_version UInt32 COMMENT 'version of the weights that parts were split by',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    part LowCardinality(Nullable(String)) COMMENT 'what the part is for: request, __overhead__, __wasted__, __unattributed__, __idle__, __training__, __unpriced__',
    kind LowCardinality(Nullable(String)) COMMENT 'what the part was paid for: prefill, decode, kv, startup, held',
    tenant LowCardinality(Nullable(String)) COMMENT 'whose the part is; null: nobody\'s in particular',
    model LowCardinality(Nullable(String)) COMMENT 'model of the part',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class of the part',
    status LowCardinality(Nullable(String)) COMMENT 'how the requests of the part ended',
    amount Nullable(Int64) COMMENT 'units the part pays for; null where its kind has none [tokens or token-ms]',
    cost_nusd Nullable(Int64) COMMENT 'cost of the part; null: no price [nUSD]',
    energy_mj Nullable(Int64) COMMENT 'energy of the part; null: not measured [mJ]',
    gpu_ms Nullable(Int64) COMMENT 'GPU time of the part [ms]'
)
AS SELECT
    toDateTime(intDiv(minute_ms, 1000), 'UTC') AS minute,
    t.minute_ms AS minute_ms,
    t.version AS version,
    t.revision AS revision,
    t.final AS final,
    t.weights_version AS weights_version,
    t.use AS use,
    t.owner AS owner,
    t.placement_group AS placement_group,
    t.region AS region,
    t.host AS host,
    t.gpu_model AS gpu_model,
    t.prices_version AS prices_version,
    each_part AS part,
    each_kind AS kind,
    each_tenant AS tenant,
    each_model AS model,
    each_slo_class AS slo_class,
    each_status AS status,
    each_amount AS amount,
    each_cost_nusd AS cost_nusd,
    each_energy_mj AS energy_mj,
    each_gpu_ms AS gpu_ms
FROM token_costs AS t FINAL
ARRAY JOIN
    part_name AS each_part,
    part_kind AS each_kind,
    part_tenant AS each_tenant,
    part_model AS each_model,
    part_slo_class AS each_slo_class,
    part_status AS each_status,
    part_amount AS each_amount,
    part_cost_nusd AS each_cost_nusd,
    part_energy_mj AS each_energy_mj,
    part_gpu_ms AS each_gpu_ms
COMMENT 'parts of the bills, a row each, the last revision of each bill';

CREATE OR REPLACE VIEW cost_lines
(
    minute DateTime('UTC') COMMENT 'start of the minute, event time',
    minute_ms Int64 COMMENT 'start of the minute, event time, UTC [ms]',
    version UInt64 COMMENT 'of the rows of a bill the greatest counts',
    revision UInt64 COMMENT 'source offset of the last change in this bill',
    final UInt32 COMMENT '1 once no request that ends in time can change it, else 0',
    weights_version UInt32 COMMENT 'version of the weights that parts were split by',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    tenant LowCardinality(Nullable(String)) COMMENT 'of the line who asked',
    model LowCardinality(Nullable(String)) COMMENT 'of the line the model as served',
    slo_class LowCardinality(Nullable(String)) COMMENT 'of the line the service class',
    status LowCardinality(Nullable(String)) COMMENT 'of the line how its requests ended',
    requests Int64 COMMENT 'of the line requests that ended in this minute',
    prefill_tokens Nullable(Int64) COMMENT 'of the line prompt tokens computed; null: not told [tokens]',
    cached_tokens Nullable(Int64) COMMENT 'of the line prompt tokens from the prefix cache; null: not told [tokens]',
    decode_tokens Nullable(Int64) COMMENT 'of the line generated tokens; null: not told [tokens]',
    kv_token_ms Nullable(Int64) COMMENT 'of the line tokens in the KV cache times how long; null: not told [token-ms]'
)
AS SELECT
    toDateTime(intDiv(minute_ms, 1000), 'UTC') AS minute,
    t.minute_ms AS minute_ms,
    t.version AS version,
    t.revision AS revision,
    t.final AS final,
    t.weights_version AS weights_version,
    t.use AS use,
    t.owner AS owner,
    t.placement_group AS placement_group,
    t.region AS region,
    t.host AS host,
    t.gpu_model AS gpu_model,
    t.prices_version AS prices_version,
    each_tenant AS tenant,
    each_model AS model,
    each_slo_class AS slo_class,
    each_status AS status,
    each_requests AS requests,
    each_prefill_tokens AS prefill_tokens,
    each_cached_tokens AS cached_tokens,
    each_decode_tokens AS decode_tokens,
    each_kv_token_ms AS kv_token_ms
FROM token_costs AS t FINAL
ARRAY JOIN
    line_tenant AS each_tenant,
    line_model AS each_model,
    line_slo_class AS each_slo_class,
    line_status AS each_status,
    line_requests AS each_requests,
    line_prefill_tokens AS each_prefill_tokens,
    line_cached_tokens AS each_cached_tokens,
    line_decode_tokens AS each_decode_tokens,
    line_kv_token_ms AS each_kv_token_ms
COMMENT 'lines of the bills, a row each, the last revision of each bill';

CREATE OR REPLACE VIEW costs_1h
(
    hour DateTime('UTC') COMMENT 'start of the hour, event time',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    total_nusd Nullable(Int64) COMMENT 'the bill: what is known of GPU, host and energy; null: nothing had a price [nUSD]',
    gpu_nusd Nullable(Int64) COMMENT 'GPU time at its price; null: no price [nUSD]',
    host_nusd Nullable(Int64) COMMENT 'overhead of the hosts; null: no price [nUSD]',
    energy_nusd Nullable(Int64) COMMENT 'energy at tariff and PUE; null: no price or not measured [nUSD]',
    gpu_ms Int64 COMMENT 'GPU time, estimated time included [ms]',
    energy_mj Nullable(Int64) COMMENT 'energy; null: not measured [mJ]',
    unpriced_gpu_ms Int64 COMMENT 'GPU time without a price [ms]',
    unpriced_energy_mj Int64 COMMENT 'energy without a price [mJ]',
    unmeasured_gpu_ms Int64 COMMENT 'GPU time whose energy was not measured [ms]',
    estimated_gpu_ms Int64 COMMENT 'GPU time billed for gaps between readings; above 0: the bill is estimated [ms]',
    final UInt32 COMMENT '1 once all its minutes are final'
)
AS SELECT
    toStartOfHour(minute) AS hour,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    sum(c.total_nusd) AS total_nusd,
    sum(c.gpu_nusd) AS gpu_nusd,
    sum(c.host_nusd) AS host_nusd,
    sum(c.energy_nusd) AS energy_nusd,
    sum(c.gpu_ms) AS gpu_ms,
    sum(c.energy_mj) AS energy_mj,
    sum(c.unpriced_gpu_ms) AS unpriced_gpu_ms,
    sum(c.unpriced_energy_mj) AS unpriced_energy_mj,
    sum(c.unmeasured_gpu_ms) AS unmeasured_gpu_ms,
    sum(c.estimated_gpu_ms) AS estimated_gpu_ms,
    min(c.final) AS final
FROM costs AS c
GROUP BY hour, use, owner, placement_group, region, host, gpu_model, prices_version
COMMENT 'sums of costs by hour';

CREATE OR REPLACE VIEW cost_parts_1h
(
    hour DateTime('UTC') COMMENT 'start of the hour, event time',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    part LowCardinality(Nullable(String)) COMMENT 'what the part is for: request, __overhead__, __wasted__, __unattributed__, __idle__, __training__, __unpriced__',
    kind LowCardinality(Nullable(String)) COMMENT 'what the part was paid for: prefill, decode, kv, startup, held',
    tenant LowCardinality(Nullable(String)) COMMENT 'whose the part is; null: nobody\'s in particular',
    model LowCardinality(Nullable(String)) COMMENT 'model of the part',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class of the part',
    status LowCardinality(Nullable(String)) COMMENT 'how the requests of the part ended',
    amount Nullable(Int64) COMMENT 'units the part pays for; null where its kind has none [tokens or token-ms]',
    cost_nusd Nullable(Int64) COMMENT 'cost of the part; null: no price [nUSD]',
    energy_mj Nullable(Int64) COMMENT 'energy of the part; null: not measured [mJ]',
    gpu_ms Nullable(Int64) COMMENT 'GPU time of the part [ms]',
    final UInt32 COMMENT '1 once all its minutes are final'
)
AS SELECT
    toStartOfHour(minute) AS hour,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    part,
    kind,
    tenant,
    model,
    slo_class,
    status,
    sum(c.amount) AS amount,
    sum(c.cost_nusd) AS cost_nusd,
    sum(c.energy_mj) AS energy_mj,
    sum(c.gpu_ms) AS gpu_ms,
    min(c.final) AS final
FROM cost_parts AS c
GROUP BY hour, use, owner, placement_group, region, host, gpu_model, prices_version, part, kind, tenant, model, slo_class, status
COMMENT 'sums of cost_parts by hour';

CREATE OR REPLACE VIEW cost_lines_1h
(
    hour DateTime('UTC') COMMENT 'start of the hour, event time',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    tenant LowCardinality(Nullable(String)) COMMENT 'of the line who asked',
    model LowCardinality(Nullable(String)) COMMENT 'of the line the model as served',
    slo_class LowCardinality(Nullable(String)) COMMENT 'of the line the service class',
    status LowCardinality(Nullable(String)) COMMENT 'of the line how its requests ended',
    requests Int64 COMMENT 'of the line requests that ended in this minute',
    prefill_tokens Nullable(Int64) COMMENT 'of the line prompt tokens computed; null: not told [tokens]',
    cached_tokens Nullable(Int64) COMMENT 'of the line prompt tokens from the prefix cache; null: not told [tokens]',
    decode_tokens Nullable(Int64) COMMENT 'of the line generated tokens; null: not told [tokens]',
    kv_token_ms Nullable(Int64) COMMENT 'of the line tokens in the KV cache times how long; null: not told [token-ms]',
    final UInt32 COMMENT '1 once all its minutes are final'
)
AS SELECT
    toStartOfHour(minute) AS hour,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    tenant,
    model,
    slo_class,
    status,
    sum(c.requests) AS requests,
    sum(c.prefill_tokens) AS prefill_tokens,
    sum(c.cached_tokens) AS cached_tokens,
    sum(c.decode_tokens) AS decode_tokens,
    sum(c.kv_token_ms) AS kv_token_ms,
    min(c.final) AS final
FROM cost_lines AS c
GROUP BY hour, use, owner, placement_group, region, host, gpu_model, prices_version, tenant, model, slo_class, status
COMMENT 'sums of cost_lines by hour';

CREATE OR REPLACE VIEW costs_1d
(
    day DateTime('UTC') COMMENT 'start of the day, event time',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    total_nusd Nullable(Int64) COMMENT 'the bill: what is known of GPU, host and energy; null: nothing had a price [nUSD]',
    gpu_nusd Nullable(Int64) COMMENT 'GPU time at its price; null: no price [nUSD]',
    host_nusd Nullable(Int64) COMMENT 'overhead of the hosts; null: no price [nUSD]',
    energy_nusd Nullable(Int64) COMMENT 'energy at tariff and PUE; null: no price or not measured [nUSD]',
    gpu_ms Int64 COMMENT 'GPU time, estimated time included [ms]',
    energy_mj Nullable(Int64) COMMENT 'energy; null: not measured [mJ]',
    unpriced_gpu_ms Int64 COMMENT 'GPU time without a price [ms]',
    unpriced_energy_mj Int64 COMMENT 'energy without a price [mJ]',
    unmeasured_gpu_ms Int64 COMMENT 'GPU time whose energy was not measured [ms]',
    estimated_gpu_ms Int64 COMMENT 'GPU time billed for gaps between readings; above 0: the bill is estimated [ms]',
    final UInt32 COMMENT '1 once all its minutes are final'
)
AS SELECT
    toStartOfDay(minute) AS day,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    sum(c.total_nusd) AS total_nusd,
    sum(c.gpu_nusd) AS gpu_nusd,
    sum(c.host_nusd) AS host_nusd,
    sum(c.energy_nusd) AS energy_nusd,
    sum(c.gpu_ms) AS gpu_ms,
    sum(c.energy_mj) AS energy_mj,
    sum(c.unpriced_gpu_ms) AS unpriced_gpu_ms,
    sum(c.unpriced_energy_mj) AS unpriced_energy_mj,
    sum(c.unmeasured_gpu_ms) AS unmeasured_gpu_ms,
    sum(c.estimated_gpu_ms) AS estimated_gpu_ms,
    min(c.final) AS final
FROM costs AS c
GROUP BY day, use, owner, placement_group, region, host, gpu_model, prices_version
COMMENT 'sums of costs by day';

CREATE OR REPLACE VIEW cost_parts_1d
(
    day DateTime('UTC') COMMENT 'start of the day, event time',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    part LowCardinality(Nullable(String)) COMMENT 'what the part is for: request, __overhead__, __wasted__, __unattributed__, __idle__, __training__, __unpriced__',
    kind LowCardinality(Nullable(String)) COMMENT 'what the part was paid for: prefill, decode, kv, startup, held',
    tenant LowCardinality(Nullable(String)) COMMENT 'whose the part is; null: nobody\'s in particular',
    model LowCardinality(Nullable(String)) COMMENT 'model of the part',
    slo_class LowCardinality(Nullable(String)) COMMENT 'service class of the part',
    status LowCardinality(Nullable(String)) COMMENT 'how the requests of the part ended',
    amount Nullable(Int64) COMMENT 'units the part pays for; null where its kind has none [tokens or token-ms]',
    cost_nusd Nullable(Int64) COMMENT 'cost of the part; null: no price [nUSD]',
    energy_mj Nullable(Int64) COMMENT 'energy of the part; null: not measured [mJ]',
    gpu_ms Nullable(Int64) COMMENT 'GPU time of the part [ms]',
    final UInt32 COMMENT '1 once all its minutes are final'
)
AS SELECT
    toStartOfDay(minute) AS day,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    part,
    kind,
    tenant,
    model,
    slo_class,
    status,
    sum(c.amount) AS amount,
    sum(c.cost_nusd) AS cost_nusd,
    sum(c.energy_mj) AS energy_mj,
    sum(c.gpu_ms) AS gpu_ms,
    min(c.final) AS final
FROM cost_parts AS c
GROUP BY day, use, owner, placement_group, region, host, gpu_model, prices_version, part, kind, tenant, model, slo_class, status
COMMENT 'sums of cost_parts by day';

CREATE OR REPLACE VIEW cost_lines_1d
(
    day DateTime('UTC') COMMENT 'start of the day, event time',
    use LowCardinality(String) COMMENT 'what the GPUs are for',
    owner LowCardinality(String) COMMENT 'engine id; the host where no engine holds the GPU',
    placement_group LowCardinality(String) COMMENT 'engines that share any GPU; else the host',
    region LowCardinality(Nullable(String)) COMMENT 'region of its GPUs; null where they are of several',
    host LowCardinality(Nullable(String)) COMMENT 'host of its GPUs; null where they are on several',
    gpu_model LowCardinality(Nullable(String)) COMMENT 'product name of its GPUs; null where they are of several',
    prices_version LowCardinality(Nullable(String)) COMMENT 'version of the prices that it was billed with',
    tenant LowCardinality(Nullable(String)) COMMENT 'of the line who asked',
    model LowCardinality(Nullable(String)) COMMENT 'of the line the model as served',
    slo_class LowCardinality(Nullable(String)) COMMENT 'of the line the service class',
    status LowCardinality(Nullable(String)) COMMENT 'of the line how its requests ended',
    requests Int64 COMMENT 'of the line requests that ended in this minute',
    prefill_tokens Nullable(Int64) COMMENT 'of the line prompt tokens computed; null: not told [tokens]',
    cached_tokens Nullable(Int64) COMMENT 'of the line prompt tokens from the prefix cache; null: not told [tokens]',
    decode_tokens Nullable(Int64) COMMENT 'of the line generated tokens; null: not told [tokens]',
    kv_token_ms Nullable(Int64) COMMENT 'of the line tokens in the KV cache times how long; null: not told [token-ms]',
    final UInt32 COMMENT '1 once all its minutes are final'
)
AS SELECT
    toStartOfDay(minute) AS day,
    use,
    owner,
    placement_group,
    region,
    host,
    gpu_model,
    prices_version,
    tenant,
    model,
    slo_class,
    status,
    sum(c.requests) AS requests,
    sum(c.prefill_tokens) AS prefill_tokens,
    sum(c.cached_tokens) AS cached_tokens,
    sum(c.decode_tokens) AS decode_tokens,
    sum(c.kv_token_ms) AS kv_token_ms,
    min(c.final) AS final
FROM cost_lines AS c
GROUP BY day, use, owner, placement_group, region, host, gpu_model, prices_version, tenant, model, slo_class, status
COMMENT 'sums of cost_lines by day';

CREATE OR REPLACE VIEW cost_late
(
    minute DateTime('UTC') COMMENT 'start of the minute, event time',
    placement_group String COMMENT 'engines that share any GPU; else the host',
    newest_offset UInt64 COMMENT 'offset of the last row that no bill holds',
    told_offset UInt64 COMMENT 'offset of the last row that a bill holds'
)
AS SELECT
    toDateTime(intDiv(c.minute_ms, 1000), 'UTC') AS minute,
    c.placement_group AS placement_group,
    max(r.newest) AS newest_offset,
    max(c.told) AS told_offset
FROM (
    SELECT intDiv(window_ms, 60000) * 60000 AS of_ms, ifNull(coalesce(placement_group, host), '') AS of_group, max(log_offset) AS newest
    FROM usage FINAL GROUP BY of_ms, of_group
    UNION ALL
    SELECT intDiv(window_ms, 60000) * 60000 AS of_ms, ifNull(coalesce(placement_group, host), '') AS of_group, max(log_offset) AS newest
    FROM gpu_samples_partials FINAL GROUP BY of_ms, of_group
) AS r
INNER JOIN (
    SELECT minute_ms, placement_group, max(revision) AS told, min(final) AS is_final
    FROM token_costs FINAL GROUP BY minute_ms, placement_group
) AS c ON r.of_ms = c.minute_ms AND r.of_group = c.placement_group
WHERE c.is_final = 1 AND r.newest > c.told
GROUP BY c.minute_ms, c.placement_group
COMMENT 'final minutes with rows that came too late for their bill: rerate them';
