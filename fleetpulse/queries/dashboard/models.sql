-- Models by what they did over a range; of many, those with most requests whose name holds a text.
-- param search: what the name must hold, upper or lower case
-- param top: how many at most
-- reads requests: llm.requests 10s <= 15m, 1m <= 6h, 1h <= 60d, 1d
-- rows: 1000
-- seconds: 10
SELECT
    model,
    sum(event_count) AS requests,
    sumIf(event_count, status NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client') AS failed,
    failed / requests AS failed_share,
    sum(output_tokens_sum) AS output_tokens,
    sum(input_tokens_sum) AS input_tokens,
    fp_quantiles([0.5, 0.95], sumMap(ttft_us_bins)) AS ttft,
    fp_quantiles([0.5, 0.95], sumMap(tpot_us_bins)) AS tpot,
    fp_quantiles([0.5, 0.95], sumMap(e2e_us_bins)) AS e2e,
    count() OVER () AS models
FROM {requests:Identifier} FINAL
WHERE grouping = 'service' AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
    AND positionCaseInsensitiveUTF8(model, {search:String}) > 0
GROUP BY model
ORDER BY requests DESC, model
LIMIT {top:UInt32}
