-- The slowest requests of a range, from the slowest two of every window, engine and model.
-- Beyond two hours: of whole hours from the slowest of every hour, engine, model, tenant and status, around them as before.
-- Rows of one `key` that are not merged yet may come several times, and a request of several engines with several keys: what
-- is slower than a first cut's last is read, and all of it where the cut holds too few that differ.
-- param metric: ttft or e2e
-- param top: how many at most
-- rows: 1000
WITH
    found AS
    (
        SELECT
            slowest.window_ms AS at_ms,
            slowest.request_id AS request_id,
            model, tenant, status,
            slowest.error_kind AS error_kind,
            engine_id,
            slowest.value_us AS value_us,
            (hour_ms, host, engine_id, model, tenant, status, NULL) AS key
        FROM exemplars_slowest_1h
        WHERE metric = {metric:String} AND {to_ms:Int64} - {from_ms:Int64} > 7200000
            AND hour_ms >= intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
            AND hour_ms < intDiv({to_ms:Int64}, 3600000) * 3600000
            AND ({model:String} = '' OR model = {model:String})
            AND ({tenant:String} = '' OR tenant = {tenant:String})
            AND ({status:String} = '' OR status = {status:String})
            AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
            AND ({host:String} = '' OR host = {host:String})
        UNION ALL
        SELECT
            window_ms AS at_ms,
            request_id,
            model, tenant, status,
            error_kind,
            engine_id,
            assumeNotNull(exemplars.value_us) AS value_us,
            (NULL, NULL, NULL, NULL, NULL, NULL, request_id) AS key
        FROM exemplars
        WHERE metric = {metric:String} AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
            AND exemplars.value_us IS NOT NULL
            AND ({to_ms:Int64} - {from_ms:Int64} <= 7200000
                OR window_ms < intDiv({from_ms:Int64} + 3599999, 3600000) * 3600000
                OR window_ms >= intDiv({to_ms:Int64}, 3600000) * 3600000)
            AND ({model:String} = '' OR model = {model:String})
            AND ({tenant:String} = '' OR tenant = {tenant:String})
            AND ({status:String} = '' OR status = {status:String})
            AND ({engine_id:String} = '' OR engine_id = {engine_id:String})
            AND ({host:String} = '' OR host = {host:String})
    )
SELECT
    at_ms, request_id, model, tenant, status, error_kind, engine_id,
    if({metric:String} = 'ttft', value_us, NULL) AS ttft_us,
    if({metric:String} = 'e2e', value_us, NULL) AS e2e_us
FROM
(
    SELECT *
    FROM found
    WHERE value_us >= (
        SELECT if(count() < {top:UInt32}, 0, min(value_us))
        FROM
        (
            SELECT value_us
            FROM
            (
                SELECT request_id, value_us
                FROM (SELECT key, request_id, value_us FROM found ORDER BY value_us DESC LIMIT 4 * {top:UInt32})
                LIMIT 1 BY key
            )
            LIMIT 1 BY request_id
            LIMIT {top:UInt32}
        )
    )
    ORDER BY value_us DESC, request_id
    LIMIT 1 BY key
)
ORDER BY value_us DESC, request_id
LIMIT 1 BY request_id
LIMIT {top:UInt32}
