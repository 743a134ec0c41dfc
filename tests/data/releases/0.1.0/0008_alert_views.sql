CREATE OR REPLACE VIEW alert_history
(
    at DateTime64(3, 'UTC') COMMENT 'when the transition happened, event time',
    opened DateTime64(3, 'UTC') COMMENT 'when the alert was opened',
    since DateTime64(3, 'UTC') COMMENT 'when what it tells of began',
    resolved Nullable(DateTime64(3, 'UTC')) COMMENT 'when it was resolved; null while open',
    at_ms Int64 COMMENT 'when the transition happened, event time, UTC [ms]',
    opened_ms Int64 COMMENT 'when the alert was opened [ms]',
    since_ms Int64 COMMENT 'when what it tells of began [ms]',
    resolved_ms Nullable(Int64) COMMENT 'when it was resolved; null while open [ms]',
    fingerprint LowCardinality(String) COMMENT 'id of the alert: 16 hex digits',
    number UInt64 COMMENT 'of this transition within the alert: 1 opens it',
    transition LowCardinality(Nullable(String)) COMMENT 'opened, updated or resolved',
    rule LowCardinality(Nullable(String)) COMMENT 'rule of the headline',
    severity LowCardinality(Nullable(String)) COMMENT 'the worst so far',
    summary String COMMENT 'one sentence for people',
    value Nullable(Float64) COMMENT 'what was measured',
    baseline Nullable(Float64) COMMENT 'what was to be expected',
    low Nullable(Float64) COMMENT 'lower end of the expected range',
    high Nullable(Float64) COMMENT 'upper end of the expected range',
    unit String COMMENT 'unit of the four',
    count Int64 COMMENT 'events behind the value',
    labels Map(String, String) COMMENT 'what it is about',
    note String COMMENT 'a likely cause in words',
    advice String COMMENT 'what to do',
    muted_until_ms Nullable(Int64) COMMENT 'nobody is to be woken before this [ms]',
    transition_id String COMMENT 'the same in every run over the same input',
    members UInt64 COMMENT 'other things the same cause did',
    evidence String COMMENT 'what it was concluded from, as JSON'
)
AS SELECT
    fromUnixTimestamp64Milli(a.at_ms, 'UTC') AS at,
    fromUnixTimestamp64Milli(a.opened_ms, 'UTC') AS opened,
    fromUnixTimestamp64Milli(a.since_ms, 'UTC') AS since,
    if(a.resolved_ms IS NULL, NULL, fromUnixTimestamp64Milli(assumeNotNull(a.resolved_ms), 'UTC')) AS resolved,
    a.at_ms AS at_ms,
    a.opened_ms AS opened_ms,
    a.since_ms AS since_ms,
    a.resolved_ms AS resolved_ms,
    a.fingerprint AS fingerprint,
    a.number AS number,
    a.transition AS transition,
    a.rule AS rule,
    a.severity AS severity,
    a.summary AS summary,
    JSONExtract(a.record, 'value', 'Nullable(Float64)') AS value,
    JSONExtract(a.record, 'baseline', 'Nullable(Float64)') AS baseline,
    JSONExtract(a.record, 'low', 'Nullable(Float64)') AS low,
    JSONExtract(a.record, 'high', 'Nullable(Float64)') AS high,
    JSONExtract(a.record, 'unit', 'String') AS unit,
    JSONExtract(a.record, 'count', 'Int64') AS count,
    JSONExtract(a.record, 'labels', 'Map(String, String)') AS labels,
    JSONExtract(a.record, 'note', 'String') AS note,
    JSONExtract(a.record, 'advice', 'String') AS advice,
    JSONExtract(a.record, 'muted_until_ms', 'Nullable(Int64)') AS muted_until_ms,
    JSONExtract(a.record, 'transition_id', 'String') AS transition_id,
    JSONLength(a.record, 'members') AS members,
    JSONExtractRaw(a.record, 'evidence') AS evidence
FROM (
    SELECT *
    FROM alerts FINAL
    ORDER BY log_offset DESC
    LIMIT 1 BY fingerprint, opened_ms, number
) AS a
COMMENT 'every transition of every alert, with what its record says';
