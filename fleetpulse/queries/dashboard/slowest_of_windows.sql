-- The slowest requests of a range, from the slowest two of every window, engine and model.
-- param metric: ttft or e2e
-- param top: how many at most
-- rows: 1000
-- seconds: 10
SELECT
    window_ms AS at_ms, request_id, model, tenant, status, error_kind, engine_id,
    if({metric:String} = 'ttft', value_us, NULL) AS ttft_us,
    if({metric:String} = 'e2e', value_us, NULL) AS e2e_us
FROM exemplars FINAL
WHERE metric = {metric:String} AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
    AND ({model:String} = '' OR model = {model:String})
    AND ({tenant:String} = '' OR tenant = {tenant:String})
    AND ({status:String} = '' OR status = {status:String})
    AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
    AND ({host:String} = '' OR host = {host:String})
ORDER BY value_us DESC, request_id
LIMIT 1 BY request_id
LIMIT {top:UInt32}
