-- Deployments and marks of a range, oldest first: one for each minute, model and version, however many engines changed.
-- rows: 100
-- kept: 5
SELECT
    min(at_ms) AS begun_ms,
    min(kind) AS a_kind,
    model,
    model_version,
    uniq(engine_id) AS engines,
    min(message) AS a_message
FROM engine_events FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
    AND intDiv(at_ms, 60000) >= intDiv({from_ms:Int64}, 60000) AND intDiv(at_ms, 60000) <= intDiv({to_ms:Int64}, 60000)
    AND verdict = 'accepted' AND kind IN ('changed', 'marked')
    AND ({cluster:String} = '' OR cluster = {cluster:String})
    AND ({region:String} = '' OR region = {region:String})
    AND ({model:String} = '' OR model = {model:String} OR model IS NULL)
    AND ({host:String} = '' OR host = {host:String})
GROUP BY intDiv(at_ms, 60000), model, model_version
ORDER BY begun_ms DESC, model, model_version
LIMIT 20
