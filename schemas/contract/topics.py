"""The topic contract: names, keys, partitions, retention, timestamps, who writes and who reads.

Partition counts are those of the local stack; a production cluster has more of them (``[partitions]``, the same for
every process). A state topic has at least as many partitions as its source topic, because another partition's open
transaction would hide a snapshot otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from schemas.events.event_types import EVENTS
from schemas.limits import DAY_MS, Limits


class Growth(Enum):
    """When a topic may get more partitions. The value is the reason where it may not."""

    ANY_TIME = ""
    """A record's partition decides nothing: its own identity and the windows it counts in stay the same."""
    JOBS_STOPPED = "what must be billed together is in one partition: open windows would be split between two"
    WHILE_EMPTY = "bills that are still being revised would move and count twice in budgets"
    NEVER = "its records have one order, so it has one partition"


KEPT_FOR_EVER = -1


@dataclass(frozen=True, slots=True)
class Topic:
    """``log_append_time`` is a must on source topics: verdicts hang on it. ``retention`` names the limit that says how
    long records are kept, or is it [ms]."""

    name: str
    partitions: int
    retention: str | int
    log_append_time: bool
    compacted: bool
    key: str
    written_by: str
    read_by: str
    record_bytes_max: int = 16 * 1024 * 1024
    growth: Growth = Growth.ANY_TIME

    def retention_ms(self, limits: Limits) -> int:
        """How long records are kept under these limits; ``KEPT_FOR_EVER`` for ever."""
        return self.retention if isinstance(self.retention, int) else int(getattr(limits, self.retention))


_PARTITIONS = {"llm.requests": 4, "gpu.samples": 4, "host.samples": 2, "engine.samples": 2}
"""One, where nothing is said: events and slow readings."""

WINDOW_PARTIALS = "window.partials"
BOOKS_TOPIC = "books"
REJECTED_TOPIC = "rejected"
WINDOW_FINALS = "window.finals"
"""One partition: what judges the fleet sees all of it in one order, so that one cause makes one alert."""
ALERTS_TOPIC = "alerts"
ALERT_COMMANDS = "alert.commands"
"""What people do: silences, which the finals job passes on to the alert job in order, and runs that change stored
results. The audit: the sink lands all of it in table ``actions``."""
COSTS_TOPIC = "costs"
DEAD_LETTERS = "alerts.undelivered"

SOURCE_TOPICS = tuple(
    Topic(
        event.topic,
        _PARTITIONS.get(event.topic, 1),
        "source_retention_ms",
        log_append_time=True,
        compacted=False,
        key=" or ".join(event.key),
        written_by="edge, anyone",
        read_by="windows job, raw sink",
        record_bytes_max=64 * 1024 * 1024,
    )
    for event in EVENTS
)

# fmt: off
DERIVED_TOPICS = (
    Topic(WINDOW_PARTIALS, 4, "partials_retention_ms", False, False, "none", "windows job",
          "sink, finals job, cost job", growth=Growth.JOBS_STOPPED),
    Topic(BOOKS_TOPIC, 1, "partials_retention_ms", False, False, "none", "windows job, edge", "sink"),
    Topic(REJECTED_TOPIC, 1, "partials_retention_ms", False, False, "none", "windows job", "sink, command line"),
)

INSIGHT_TOPICS = (
    Topic(WINDOW_FINALS, 1, "partials_retention_ms", False, False, "none", "finals job", "alert job",
          growth=Growth.NEVER),
    Topic(ALERTS_TOPIC, 1, KEPT_FOR_EVER, False, True, "fingerprint", "alert job", "delivery, sink, anyone",
          growth=Growth.NEVER),
    Topic(ALERT_COMMANDS, 1, KEPT_FOR_EVER, True, False, "none", "people", "finals job, sink", growth=Growth.NEVER),
    Topic(COSTS_TOPIC, 4, "partials_retention_ms", False, False, "none", "cost job", "sink, finals job",
          growth=Growth.WHILE_EMPTY),
    Topic(DEAD_LETTERS, 1, 30 * DAY_MS, False, False, "fingerprint", "delivery", "people"),
)
# fmt: on
"""Finals and what is made of them."""


def state_topic(job: str, source_topic: str) -> str:
    """Name of the topic that holds a job's snapshots for one source topic."""
    return f"state.{job}.{source_topic}"


_SOURCES_OF_JOBS = {t.name: t.partitions for t in (*SOURCE_TOPICS, *DERIVED_TOPICS, *INSIGHT_TOPICS)}

STATE_TOPICS = tuple(
    Topic(state_topic(job, t), _SOURCES_OF_JOBS[t], KEPT_FOR_EVER, False, True, "part", f"{job} job", f"{job} job")
    for job, t in (
        *(("windows", topic.name) for topic in SOURCE_TOPICS),
        ("finals", WINDOW_PARTIALS),
        ("finals", "gpu.events"),
        ("finals", "engine.events"),
        ("finals", ALERT_COMMANDS),
        ("finals", COSTS_TOPIC),
        ("alerts", WINDOW_FINALS),
        ("costs", WINDOW_PARTIALS),
    )
)

CONTRACT = Topic("contract", 1, KEPT_FOR_EVER, False, True, "topic", "migrate", "everyone", growth=Growth.NEVER)
"""The log id of every topic, written when the topic is made: a recreated topic starts at offset 0."""
DEPLOYMENT_KEY = "@deployment"
"""Key of the record of ``contract`` that names the deployment whose topics these are. No topic can have this name, and
0.1.0 takes it for the log id of a topic that it does not know."""

ENGINES_TOPIC = Topic(
    "engines", 1, 7 * DAY_MS, False, True, "host/engine_id", "agent", "proxy, doctor", growth=Growth.NEVER
)
"""What every agent knows of its engines, by which requests measured elsewhere are joined to GPUs. Keys of machines that
are gone leave with the retention: agents repeat theirs."""

TOPICS = (CONTRACT, ENGINES_TOPIC, *SOURCE_TOPICS, *DERIVED_TOPICS, *INSIGHT_TOPICS, *STATE_TOPICS)
BY_NAME = {topic.name: topic for topic in TOPICS}


def source_of(topic: Topic) -> str:
    """Name of the source topic of a state topic; of any other topic its own."""
    return topic.name.split(".", 2)[2] if topic.name.startswith("state.") else topic.name


def partitions_of(topic: Topic, partitions: Mapping[str, int]) -> int:
    """How many partitions a topic must have where the configuration has these counts by topic."""
    return partitions.get(source_of(topic), topic.partitions)
