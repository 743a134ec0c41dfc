"""What the tables say, summed by the database: nothing here grows with the number of events or windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetpulse.sql.database import Database
from schemas.ddl.merging import LEVELS, rollup_table
from schemas.ddl.stored import LOG_PREFIX, RAW, VERDICT_WORDS
from schemas.events.event_types import BY_TOPIC, EVENTS
from schemas.events.grouping import sets_of
from schemas.limits import DAY_MS, HOUR_MS, WINDOW_MS, Limits
from schemas.rows.tables import GROUPED, PARTIALS

DIFFERING_MAX = 50
"""So many differing cells of a table are named; the others are counted."""
_NEVER = 2**64 - 1

TopicPartition = tuple[str, int]
"""(source topic, partition)."""
Sender = tuple[str, int, str, int, int]
"""(topic, partition, source, boot, verdict); source "" and boot 0: no identity."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Commits of a source partition: offsets ``[first, end)``, and ``breaks`` (end of a commit, begin of the next)
    where one does not follow the other. ``oldest_ms`` is the first commit's time; ``fresh`` the offset from which
    on all rows of the raw tables are still kept."""

    first: int
    end: int
    breaks: Sequence[tuple[int, int]]
    oldest_ms: int
    fresh: int


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of two tables side by side: how many were ``compared``, those that differ, and how many ``more`` do."""

    topic: str
    what: str
    compared: int
    differing: Sequence[tuple[str, int, int]]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Tables:
    """What the tables hold. Sums that begin before ``since_ms`` may lack expired rows. ``raw`` None: not to be
    checked; its values are (events, first offset, last offset)."""

    since_ms: int
    produced: Sequence[Mapping[str, Any]]
    booked: Sequence[Mapping[str, Any]]
    spans: Mapping[TopicPartition, Spans]
    partials: Mapping[tuple[str, int, str], int]
    rejected: Mapping[TopicPartition, int]
    raw_booked: Mapping[Sender, tuple[int, int, int]]
    raw: Mapping[Sender, tuple[int, int, int]] | None
    windows: Sequence[Cells]
    rollups: Sequence[Cells]


_PRODUCED = """
SELECT source, boot, topic, max(events) AS events, max(shed_events) AS shed, min(first_at_ms) AS first_at_ms
FROM producer_books GROUP BY source, boot, topic
"""
_BOOKED = """
SELECT ifNull(source, '') AS source, boot, topic, partition, verdict, sum(events) AS events,
    min(offset_from) AS offset_first, max(offset_to) AS offset_end, min(committed_ms) AS oldest_ms
FROM books FINAL GROUP BY source, boot, topic, partition, verdict
"""
_SPANS = """
SELECT topic, partition, min(offset_from), max(offset_to),
    groupArrayIf(100)((before, offset_from), before != offset_from), min(committed),
    countIf(committed >= {since:Int64}), minIf(offset_from, committed >= {since:Int64})
FROM
(
    SELECT topic, partition, offset_from, offset_to, committed,
        lagInFrame(offset_to, 1, offset_from)
            OVER (PARTITION BY topic, partition ORDER BY offset_from, offset_to) AS before
    FROM
    (
        SELECT topic, partition, offset_from, offset_to, min(committed_ms) AS committed
        FROM books FINAL GROUP BY topic, partition, offset_from, offset_to
    )
)
GROUP BY topic, partition
"""


def read_tables(database: Database, now_ms: int, limits: Limits, *, raw: bool) -> Tables:
    """Ask for everything. A day and more is kept away from each time to live: rows wait in the log before they land."""
    raw_since_ms = now_ms - limits.raw_ttl_ms + limits.source_retention_ms + HOUR_MS
    since_ms = now_ms - limits.partials_ttl_ms + limits.source_retention_ms + DAY_MS
    spans = _spans(database, raw_since_ms)
    return Tables(
        since_ms,
        database.sql(_PRODUCED).records(),
        database.sql(_BOOKED).records(),
        spans,
        _partials(database),
        _rejected(database),
        _raw_booked(database, spans) if raw else {},
        _raw(database, spans) if raw else None,
        [_windows(database, event.topic, raw_since_ms) for event in GROUPED] if raw else [],
        [
            _rollup(database, event.topic, level.name, level.bucket_ms, since_ms)
            for event in GROUPED
            for level in LEVELS
        ],
    )


def _spans(database: Database, raw_since_ms: int) -> dict[TopicPartition, Spans]:
    return {
        (topic, int(partition)): Spans(
            int(first), int(end), [(int(a), int(b)) for a, b in breaks], int(oldest), int(fresh) if some else _NEVER
        )
        for topic, partition, first, end, breaks, oldest, some, fresh in database.sql(
            _SPANS, {"since": raw_since_ms}
        ).rows
    }


def _partials(database: Database) -> dict[tuple[str, int, str], int]:
    found: dict[tuple[str, int, str], int] = {}
    for event in GROUPED:
        rows = database.sql(
            f"SELECT source_partition, grouping, sum(event_count) FROM {PARTIALS[event.topic].name} FINAL"
            " GROUP BY source_partition, grouping"
        ).rows
        found |= {(event.topic, int(partition), grouping): int(events) for partition, grouping, events in rows}
    return found


def _rejected(database: Database) -> dict[TopicPartition, int]:
    rows = database.sql("SELECT topic, partition, sum(events) FROM rejected FINAL GROUP BY topic, partition").rows
    return {(topic, int(partition)): int(events) for topic, partition, events in rows}


def _fresh(spans: Mapping[TopicPartition, Spans], topic: str) -> str:
    """An expression of ``partition``: the offset from which on raw rows are complete."""
    known = sorted((partition, one.fresh) for (name, partition), one in spans.items() if name == topic)
    if not known:
        return "toUInt64(0)"
    partitions = ", ".join(f"toUInt64({partition})" for partition, _ in known)
    offsets = ", ".join(f"toUInt64({offset})" for _, offset in known)
    return f"transform(toUInt64(partition), [{partitions}], [{offsets}], toUInt64(0))"


def _raw_booked(database: Database, spans: Mapping[TopicPartition, Spans]) -> dict[Sender, tuple[int, int, int]]:
    found: dict[Sender, tuple[int, int, int]] = {}
    for event in EVENTS:
        rows = database.sql(
            "SELECT partition, ifNull(source, ''), boot, verdict, sum(events), min(offset_from), max(offset_to)"
            f" FROM books FINAL WHERE topic = '{event.topic}' AND offset_from >= {_fresh(spans, event.topic)}"
            " GROUP BY partition, ifNull(source, ''), boot, verdict"
        ).rows
        for partition, source, boot, verdict, events, first, end in rows:
            found[event.topic, int(partition), source, int(boot), int(verdict)] = (int(events), int(first), int(end))
    return found


def _raw(database: Database, spans: Mapping[TopicPartition, Spans]) -> dict[Sender, tuple[int, int, int]]:
    found: dict[Sender, tuple[int, int, int]] = {}
    for event in EVENTS:
        rows = database.sql(
            f"SELECT partition, if(startsWith(source, '{LOG_PREFIX}'), '', toString(source)) AS who,"
            " if(who = '', 0, boot) AS which, verdict, count(), min(offset), max(offset)"
            f" FROM {RAW[event.topic].name} FINAL WHERE offset >= {_fresh(spans, event.topic)}"
            " GROUP BY partition, who, which, verdict"
        ).rows
        for partition, source, boot, verdict, events, first, end in rows:
            key = (event.topic, int(partition), source, int(boot), VERDICT_WORDS.index(verdict))
            found[key] = (int(events), int(first), int(end) + 1)
    return found


def _compared(database: Database, topic: str, what: str, place: str, inner: str) -> Cells:
    """Both sums of every cell; ``place`` names a cell by ``part``, ``grouping`` and ``start``."""
    ((cells, differing, total),) = database.sql(
        f"SELECT count(), groupArrayIf({DIFFERING_MAX})((grouping, part, start, expected, got), expected != got),"
        " countIf(expected != got) FROM (SELECT grouping, part, start, sum(a) AS expected, sum(b) AS got"
        f" FROM ({inner}) GROUP BY grouping, part, start ORDER BY start, grouping, part)"
    ).rows
    named = [
        (place.format(grouping=grouping, part=part, start=start), int(expected), int(got))
        for grouping, part, start, expected, got in differing
    ]
    return Cells(topic, what, int(cells), named, int(total) - len(differing))


def _windows(database: Database, topic: str, since_ms: int) -> Cells:
    """Accepted raw events of every window and source partition against the partial rows of each grouping set."""
    sets = ", ".join(f"'{grouping.name}'" for grouping in sets_of(topic))
    since_ms = -(-since_ms // WINDOW_MS) * WINDOW_MS
    return _compared(
        database,
        topic,
        "windows",
        "partition {part}, grouping set {grouping}, window {start}",
        f"SELECT arrayJoin([{sets}]) AS grouping, part, start, a, toUInt64(0) AS b FROM"
        f" (SELECT toUInt32(partition) AS part, intDiv(at_ms, {WINDOW_MS}) * {WINDOW_MS} AS start, count() AS a"
        f" FROM {RAW[topic].name} FINAL WHERE verdict = 'accepted' AND at_ms >= {since_ms} GROUP BY part, start)"
        " UNION ALL SELECT toString(p.grouping) AS grouping, p.source_partition AS part, p.window_ms AS start,"
        f" toUInt64(0) AS a, sum(p.event_count) AS b FROM {PARTIALS[topic].name} AS p FINAL"
        f" WHERE p.window_ms >= {since_ms} GROUP BY p.grouping, p.source_partition, p.window_ms",
    )


def _rollup(database: Database, topic: str, level: str, width_ms: int, since_ms: int) -> Cells:
    """Events of every bucket: partial rows against the rollup."""
    since_ms = -(-since_ms // width_ms) * width_ms
    return _compared(
        database,
        topic,
        f"level {level}",
        f"level {level}, grouping set {{grouping}}, bucket {{start}}",
        f"SELECT toString(p.grouping) AS grouping, toUInt32(0) AS part, intDiv(p.window_ms, {width_ms}) * {width_ms}"
        f" AS start, sum(p.event_count) AS a, toUInt64(0) AS b FROM {PARTIALS[topic].name} AS p FINAL"
        f" WHERE p.window_ms >= {since_ms} GROUP BY p.grouping, start"
        " UNION ALL SELECT toString(r.grouping) AS grouping, toUInt32(0) AS part, r.window_ms AS start,"
        f" toUInt64(0) AS a, sum(r.event_count) AS b FROM {rollup_table(BY_TOPIC[topic], level)} AS r FINAL"
        f" WHERE r.window_ms >= {since_ms} GROUP BY r.grouping, r.window_ms",
    )
