"""The topic contract: names, keys, partitions, retention, timestamps, who writes and who reads.

Partition counts are those of the local stack; a production cluster multiplies them at creation and tells every
process (``FLEETPULSE_PARTITIONS``). State topics have as many partitions as their source topic, because another
partition's open transaction would hide a snapshot otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.events import EVENTS
from schemas.limits import DEFAULT_LIMITS


@dataclass(frozen=True, slots=True)
class Topic:
    """``log_append_time`` is a must on source topics: verdicts hang on it."""

    name: str
    partitions: int
    retention_ms: int
    log_append_time: bool
    compacted: bool
    key: str
    written_by: str
    read_by: str
    record_bytes_max: int = 16 * 1024 * 1024


_PARTITIONS = {"llm.requests": 4, "gpu.samples": 4, "host.samples": 2, "engine.samples": 2}
"""One, where nothing is said: events and slow readings."""

WINDOW_PARTIALS = "window.partials"
BOOKS_TOPIC = "books"
REJECTED_TOPIC = "rejected"
WINDOW_FINALS = "window.finals"
"""One partition: what judges the fleet sees all of it in one order, so that one cause makes one alert."""
ALERTS_TOPIC = "alerts"
ALERT_COMMANDS = "alert.commands"
"""What people tell the alert job: mutes. Read by the finals job, which passes them on in order."""
COSTS_TOPIC = "costs"
DEAD_LETTERS = "alerts.undelivered"

SOURCE_TOPICS = tuple(
    Topic(
        event.topic,
        _PARTITIONS.get(event.topic, 1),
        DEFAULT_LIMITS.source_retention_ms,
        log_append_time=True,
        compacted=False,
        key=" or ".join(event.key),
        written_by="edge, anyone",
        read_by="windows job, raw sink",
        record_bytes_max=64 * 1024 * 1024,
    )
    for event in EVENTS
)

DERIVED_TOPICS = (
    Topic(
        WINDOW_PARTIALS,
        4,
        DEFAULT_LIMITS.partials_retention_ms,
        False,
        False,
        "none",
        "windows job",
        "sink, finals job, cost job",
    ),
    Topic(
        BOOKS_TOPIC,
        1,
        DEFAULT_LIMITS.partials_retention_ms,
        False,
        False,
        "none",
        "windows job, edge",
        "sink",
    ),
    Topic(
        REJECTED_TOPIC,
        1,
        DEFAULT_LIMITS.partials_retention_ms,
        False,
        False,
        "none",
        "windows job",
        "sink, command line",
    ),
)

INSIGHT_TOPICS = (
    Topic(
        WINDOW_FINALS,
        1,
        DEFAULT_LIMITS.partials_retention_ms,
        False,
        False,
        "none",
        "finals job",
        "alert job",
    ),
    Topic(
        ALERTS_TOPIC,
        1,
        -1,
        False,
        True,
        "fingerprint",
        "alert job",
        "delivery, sink, anyone",
    ),
    Topic(ALERT_COMMANDS, 1, -1, True, False, "none", "command line", "finals job"),
    Topic(
        COSTS_TOPIC,
        4,
        DEFAULT_LIMITS.partials_retention_ms,
        False,
        False,
        "none",
        "cost job",
        "sink, finals job",
    ),
    Topic(DEAD_LETTERS, 1, 30 * 24 * 3_600_000, False, False, "fingerprint", "delivery", "people"),
)
"""Finals and what is made of them."""


def state_topic(job: str, source_topic: str) -> str:
    """Name of the topic that holds a job's snapshots for one source topic."""
    return f"state.{job}.{source_topic}"


_SOURCES_OF_JOBS = {t.name: t.partitions for t in (*SOURCE_TOPICS, *DERIVED_TOPICS, *INSIGHT_TOPICS)}

STATE_TOPICS = tuple(
    Topic(state_topic("windows", t.name), t.partitions, -1, False, True, "part", "windows job", "windows job")
    for t in SOURCE_TOPICS
) + tuple(
    Topic(state_topic(job, t), _SOURCES_OF_JOBS[t], -1, False, True, "part", f"{job} job", f"{job} job")
    for job, t in (
        ("finals", WINDOW_PARTIALS),
        ("finals", "gpu.events"),
        ("finals", "engine.events"),
        ("finals", ALERT_COMMANDS),
        ("finals", COSTS_TOPIC),
        ("alerts", WINDOW_FINALS),
        ("costs", WINDOW_PARTIALS),
    )
)

CONTRACT = Topic("contract", 1, -1, False, True, "topic", "migrate", "sink, reconcile")
"""The log id of every topic, written when the topic is made: a topic made anew begins at offset 0 again."""

TOPICS = (CONTRACT, *SOURCE_TOPICS, *DERIVED_TOPICS, *INSIGHT_TOPICS, *STATE_TOPICS)
BY_NAME = {topic.name: topic for topic in TOPICS}
