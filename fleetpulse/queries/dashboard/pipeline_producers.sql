-- By source topic: what producers have written to their spools since they began, and what still waits there.
-- rows: 100
SELECT
    topic,
    uniqExact(source) AS producers,
    sum(events) AS written,
    written - least(written, sum(acknowledged_events)) AS waiting,
    sum(shed_events) AS shed,
    max(at_ms) AS reported_ms
FROM
(
    SELECT
        topic,
        source,
        boot,
        max(p.events) AS events,
        max(p.acknowledged_events) AS acknowledged_events,
        max(p.shed_events) AS shed_events,
        max(p.at_ms) AS at_ms
    FROM producer_books AS p
    WHERE p.at_ms >= {from_ms:Int64}
    GROUP BY topic, source, boot
)
GROUP BY topic
ORDER BY topic
