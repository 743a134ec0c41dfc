-- By tenant: requests, tokens, latencies, how many failed. The biggest first.
-- param top: how many tenants at most
-- reads requests: llm.requests 10s <= 30m, 1m <= 6h, 1h <= 30d, 1d
-- rows: 1000
-- seconds: 5
SELECT
    tenant,
    sum(event_count) AS requests,
    sumIf(event_count, status != 'ok') / requests AS failed,
    sum(input_tokens_sum) AS input_tokens,
    sum(cached_tokens_sum) AS cached_tokens,
    sum(output_tokens_sum) AS output_tokens,
    fp_quantile(0.5, sumMap(ttft_us_bins)) AS ttft_p50_us,
    fp_quantile(0.95, sumMap(ttft_us_bins)) AS ttft_p95_us,
    fp_quantile(0.95, sumMap(tpot_us_bins)) AS tpot_p95_us,
    fp_quantile(0.95, sumMap(e2e_us_bins)) AS e2e_p95_us
FROM {requests:Identifier} FINAL
WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY tenant
ORDER BY requests DESC, tenant
LIMIT {top:UInt32}
