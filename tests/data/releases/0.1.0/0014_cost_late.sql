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
    FROM gpu_shares FINAL GROUP BY of_ms, of_group
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
