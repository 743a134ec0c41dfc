"""What the tables say, summed by the database: nothing here grows with the number of events or windows.

Every sum ends at a cut, so that it is exact beside running producers: for the tables the end of a commit in each source
partition, for a producer the line of its books at one moment and the sequence number that line ends before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetpulse.reconcile.holes import OF_WINDOWS, Hole, gone_offsets, missing_events, read_holes, within
from fleetpulse.sql.database import Database
from schemas.contract.verdicts import MISSING
from schemas.ddl.merging import LEVELS, Level, rollup_table
from schemas.ddl.stored import LOG_PREFIX, RAW, VERDICT_WORDS
from schemas.ddl.tables import NOTES
from schemas.events.event_types import BY_TOPIC, EVENTS
from schemas.events.grouping import sets_of
from schemas.limits import DAY_MS, HOUR_MS, WINDOW_MS, Limits
from schemas.rows.tables import GROUPED, PARTIALS, SEQ_ALL

DIFFERING_MAX = 50
"""So many differing cells of a table are named; the others are counted."""
_EVER_MS = 2**62
_NEVER = 2**64 - 1

TopicPartition = tuple[str, int]
"""(source topic, partition)."""
Sender = tuple[str, int, str, int, int]
"""(topic, partition, source, boot, verdict); source "" and boot 0: no identity."""


Line = Mapping[str, Any]
"""A producer's line of books: source, boot, topic, events, shed, first_at_ms, seq_to (0: made or landed by 0.1.0, not
known)."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Up to where is compared: the producers' lines of one moment, and the offset where a commit of each source
    partition ended. ``growing``: events come meanwhile, so that buckets of rollups with a note are still written."""

    produced: Sequence[Line]
    ends: Mapping[TopicPartition, int]
    growing: bool = False


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
    """What the tables hold up to the cut. Sums that begin before ``since_ms`` may lack expired rows. ``raw`` None: not
    to be checked; its values are (events, first offset, last offset). ``behind``: events of (source, boot, topic) that
    the tables hold and the producer's line does not yet. ``open_buckets`` of rollups are being written. ``holes`` were
    left out by resets; ``missing``: events of (source, boot, topic) in those of the windows job, as raw rows have
    them; ``gone``: offsets in them by topic of which no row is kept."""

    since_ms: int
    produced: Sequence[Line]
    booked: Sequence[Mapping[str, Any]]
    spans: Mapping[TopicPartition, Spans]
    partials: Mapping[tuple[str, int, str], int]
    rejected: Mapping[TopicPartition, int]
    raw_booked: Mapping[Sender, tuple[int, int, int]]
    raw: Mapping[Sender, tuple[int, int, int]] | None
    windows: Sequence[Cells]
    rollups: Sequence[Cells]
    behind: Mapping[tuple[str, int, str], int] = field(default_factory=dict)
    open_buckets: int = 0
    holes: Sequence[Hole] = ()
    missing: Mapping[tuple[str, int, str], int] = field(default_factory=dict)
    gone: Mapping[str, int] = field(default_factory=dict)


_PRODUCED = """
SELECT source, boot, topic, max(events) AS events, max(shed_events) AS shed, min(first_at_ms) AS first_at_ms,
    if(max(seq_events) = max(producer_books.events), ifNull(max(producer_books.seq_to), 0), 0) AS seq_to
FROM producer_books GROUP BY source, boot, topic
"""
_BOOKED = f"""
SELECT ifNull(source, '') AS source, boot, topic, partition, verdict, sum(events) AS events,
    min(offset_from) AS offset_first, max(offset_to) AS offset_end, min(committed_ms) AS oldest_ms
FROM books FINAL WHERE topic = {{topic:String}} AND offset_to <= %s AND verdict != {MISSING}
GROUP BY source, boot, topic, partition, verdict
"""
_ENDS = f"SELECT topic, partition, max(offset_to) FROM books WHERE {OF_WINDOWS} GROUP BY topic, partition"
_BEHIND = """
SELECT r.source, r.boot, sum(r.events)
FROM
(
    SELECT toString(source) AS source, toUInt64(boot) AS boot, toUInt64(seq) AS seq, toUInt64(1) AS events
    FROM %s FINAL WHERE offset < %s AND NOT (%s)
    UNION ALL
    SELECT toString(ifNull(source, '')), ifNull(boot, 0), ifNull(seq, 0), events
    FROM rejected FINAL WHERE topic = {topic:String} AND offset < %s
) AS r
INNER JOIN lines AS l ON l.source = r.source AND l.boot = r.boot
WHERE r.seq >= l.seq_to
GROUP BY r.source, r.boot
"""
OPEN_BUCKETS = f"""
SELECT topic, level, window_ms
FROM
(
    SELECT topic, level, window_ms, max(noted) AS number, max(done) AS dealt_with
    FROM {NOTES} GROUP BY topic, level, window_ms, writer
)
WHERE number > dealt_with
"""
"""Buckets of rollups that are noted as changed and not computed since: topic, level and start [ms]."""
_SPANS = f"""
SELECT topic, partition, min(offset_from), max(offset_to),
    groupArrayIf(100)((before, offset_from), before != offset_from), min(committed),
    countIf(committed >= {{since:Int64}}), minIf(offset_from, committed >= {{since:Int64}})
FROM
(
    SELECT topic, partition, offset_from, offset_to, committed,
        lagInFrame(offset_to, 1, offset_from)
            OVER (PARTITION BY topic, partition ORDER BY offset_from, offset_to) AS before
    FROM
    (
        SELECT topic, partition, offset_from, offset_to, min(committed_ms) AS committed
        FROM books FINAL WHERE topic = {{topic:String}} AND offset_to <= %s AND {OF_WINDOWS}
        GROUP BY topic, partition, offset_from, offset_to
    )
)
GROUP BY topic, partition
"""


def read_produced(database: Database, known: Sequence[Line] = ()) -> list[Line]:
    """The producers' lines: those ``known`` as they are, so that all are of one moment, and those that came since."""
    held = {(line["source"], line["boot"], line["topic"]): line for line in known if line["seq_to"]}
    now = database.sql(_PRODUCED).records()
    return [held.get((line["source"], line["boot"], line["topic"]), line) for line in now]


def read_ends(database: Database) -> dict[TopicPartition, int]:
    """Where the last commit that has landed ended, of every source partition."""
    return {(topic, int(partition)): int(end) for topic, partition, end in database.sql(_ENDS).rows}


def read_tables(database: Database, cut: Cut, now_ms: int, limits: Limits, *, raw: bool) -> Tables:
    """Ask for everything. A day and more is kept away from each time to live: rows wait in the log before they land."""
    raw_since_ms = now_ms - limits.raw_ttl_ms + limits.source_retention_ms + HOUR_MS
    since_ms = now_ms - limits.partials_ttl_ms + limits.source_retention_ms + DAY_MS
    spans = _spans(database, cut, raw_since_ms)
    rollups, open_buckets = _rollups(database, cut, since_ms, now_ms)
    holes = read_holes(database)
    return Tables(
        since_ms,
        cut.produced,
        _booked(database, cut),
        spans,
        _partials(database, cut),
        _rejected(database, cut),
        _raw_booked(database, spans, cut) if raw else {},
        _raw(database, spans, cut, holes) if raw else None,
        [_windows(database, event.topic, cut, raw_since_ms, holes) for event in GROUPED] if raw else [],
        rollups,
        _behind(database, cut, holes) if raw else {},
        open_buckets,
        holes,
        missing_events(database, cut.produced, holes) if raw else {},
        gone_offsets(database, holes, raw=raw),
    )


def _booked(database: Database, cut: Cut) -> list[Line]:
    found: list[Line] = []
    for event in EVENTS:
        found += database.sql(_BOOKED % _end(cut, event.topic), {"topic": event.topic}).records()
    return found


def _spans(database: Database, cut: Cut, raw_since_ms: int) -> dict[TopicPartition, Spans]:
    found: dict[TopicPartition, Spans] = {}
    for event in EVENTS:
        parameters = {"topic": event.topic, "since": raw_since_ms}
        for topic, partition, first, end, breaks, oldest, some, fresh in database.sql(
            _SPANS % _end(cut, event.topic), parameters
        ).rows:
            gaps = [(int(before), int(begin)) for before, begin in breaks]
            whole = int(fresh) if some else _NEVER
            found[topic, int(partition)] = Spans(int(first), int(end), gaps, int(oldest), whole)
    return found


def _partials(database: Database, cut: Cut) -> dict[tuple[str, int, str], int]:
    found: dict[tuple[str, int, str], int] = {}
    for event in GROUPED:
        rows = database.sql(
            f"SELECT source_partition, grouping, sum(event_count) FROM {PARTIALS[event.topic].name} FINAL"
            f" WHERE source_offset_to <= {_end(cut, event.topic, 'source_partition')}"
            " GROUP BY source_partition, grouping"
        ).rows
        found |= {(event.topic, int(partition), grouping): int(events) for partition, grouping, events in rows}
    return found


def _rejected(database: Database, cut: Cut) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for event in EVENTS:
        rows = database.sql(
            "SELECT partition, sum(events) FROM rejected FINAL"
            f" WHERE topic = '{event.topic}' AND offset < {_end(cut, event.topic)} GROUP BY partition"
        ).rows
        found |= {(event.topic, int(partition)): int(events) for partition, events in rows}
    return found


def _behind(database: Database, cut: Cut, holes: Sequence[Hole]) -> dict[tuple[str, int, str], int]:
    """Events of senders whose line ends before what the tables hold of them."""
    found: dict[tuple[str, int, str], int] = {}
    for event in EVENTS:
        lines = [line for line in cut.produced if line["topic"] == event.topic and 0 < line["seq_to"] < SEQ_ALL]
        if not lines:
            continue
        end = _end(cut, event.topic)
        rows = database.beside(
            _BEHIND % (RAW[event.topic].name, end, within(holes, event.topic), end),
            {"topic": event.topic},
            "lines",
            {"source": "String", "boot": "UInt64", "seq_to": "UInt64"},
            [(line["source"], line["boot"], line["seq_to"]) for line in lines],
        ).rows
        found |= {(source, int(boot), event.topic): int(events) for source, boot, events in rows}
    return found


def _rollups(database: Database, cut: Cut, since_ms: int, now_ms: int) -> tuple[list[Cells], int]:
    """Cells of every level. While events come, buckets that have not ended or have a note are being written: they are
    left out, and those with a note counted."""
    noted = database.sql(OPEN_BUCKETS).rows if cut.growing else ()
    found, open_buckets = [], 0
    for event in GROUPED:
        for number, level in enumerate(LEVELS):
            finer = {one.name for one in LEVELS[: number + 1]}
            of_level = [window_ms for topic, of, window_ms in noted if topic == event.topic and of in finer]
            written = sorted({level.bucket_of(int(window_ms)) for window_ms in of_level})
            open_buckets += len(written)
            first_ms = -(-since_ms // level.bucket_ms) * level.bucket_ms
            span = (first_ms, level.bucket_of(now_ms) if cut.growing else _EVER_MS)
            found.append(_rollup(database, event.topic, level, span, written))
    return found, open_buckets


def _end(cut: Cut, topic: str, partition: str = "partition") -> str:
    """An expression of ``partition``: the offset before which rows are compared."""
    return _of_partition({p: end for (name, p), end in cut.ends.items() if name == topic}, partition)


def _of_partition(offsets: Mapping[int, int], partition: str = "partition") -> str:
    """An expression of a partition's column: its offset, 0 of those that are not named."""
    if not offsets:
        return "toUInt64(0)"
    partitions = ", ".join(f"toUInt64({one})" for one in sorted(offsets))
    values = ", ".join(f"toUInt64({offsets[one]})" for one in sorted(offsets))
    return f"transform(toUInt64({partition}), [{partitions}], [{values}], toUInt64(0))"


def _fresh(spans: Mapping[TopicPartition, Spans], topic: str) -> str:
    """An expression of ``partition``: the offset from which on raw rows are complete."""
    return _of_partition({partition: one.fresh for (name, partition), one in spans.items() if name == topic})


def _raw_booked(
    database: Database, spans: Mapping[TopicPartition, Spans], cut: Cut
) -> dict[Sender, tuple[int, int, int]]:
    found: dict[Sender, tuple[int, int, int]] = {}
    for event in EVENTS:
        rows = database.sql(
            "SELECT partition, ifNull(source, ''), boot, verdict, sum(events), min(offset_from), max(offset_to)"
            f" FROM books FINAL WHERE topic = '{event.topic}' AND offset_from >= {_fresh(spans, event.topic)}"
            f" AND offset_to <= {_end(cut, event.topic)}"
            " GROUP BY partition, ifNull(source, ''), boot, verdict"
        ).rows
        for partition, source, boot, verdict, events, first, end in rows:
            found[event.topic, int(partition), source, int(boot), int(verdict)] = (int(events), int(first), int(end))
    return found


def _raw(
    database: Database, spans: Mapping[TopicPartition, Spans], cut: Cut, holes: Sequence[Hole]
) -> dict[Sender, tuple[int, int, int]]:
    found: dict[Sender, tuple[int, int, int]] = {}
    for event in EVENTS:
        rows = database.sql(
            f"SELECT partition, if(startsWith(source, '{LOG_PREFIX}'), '', toString(source)) AS who,"
            " if(who = '', 0, boot) AS which, verdict, count(), min(offset), max(offset)"
            f" FROM {RAW[event.topic].name} FINAL WHERE offset >= {_fresh(spans, event.topic)}"
            f" AND offset < {_end(cut, event.topic)} AND NOT ({within(holes, event.topic)})"
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


def _windows(database: Database, topic: str, cut: Cut, since_ms: int, holes: Sequence[Hole]) -> Cells:
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
        f" FROM {RAW[topic].name} FINAL WHERE verdict = 'accepted' AND at_ms >= {since_ms}"
        f" AND offset < {_end(cut, topic)} AND NOT ({within(holes, topic)}) GROUP BY part, start)"
        " UNION ALL SELECT toString(p.grouping) AS grouping, p.source_partition AS part, p.window_ms AS start,"
        f" toUInt64(0) AS a, sum(p.event_count) AS b FROM {PARTIALS[topic].name} AS p FINAL"
        f" WHERE p.window_ms >= {since_ms} AND p.source_offset_to <= {_end(cut, topic, 'p.source_partition')}"
        " GROUP BY p.grouping, p.source_partition, p.window_ms",
    )


def _rollup(database: Database, topic: str, level: Level, span: tuple[int, int], written: Sequence[int]) -> Cells:
    """Events of each bucket that begins in ``span`` [ms] but those being ``written``: partials against the rollup."""
    since_ms, until_ms = span
    width_ms = level.bucket_ms
    within = f"window_ms >= {since_ms} AND window_ms < {until_ms}"
    without = f" AND start NOT IN ({', '.join(map(str, written))})" if written else ""
    return _compared(
        database,
        topic,
        f"level {level.name}",
        f"level {level.name}, grouping set {{grouping}}, bucket {{start}}",
        f"SELECT toString(p.grouping) AS grouping, toUInt32(0) AS part, intDiv(p.window_ms, {width_ms}) * {width_ms}"
        f" AS start, sum(p.event_count) AS a, toUInt64(0) AS b FROM {PARTIALS[topic].name} AS p FINAL"
        f" WHERE {within}{without} GROUP BY p.grouping, start"
        " UNION ALL SELECT toString(r.grouping) AS grouping, toUInt32(0) AS part, r.window_ms AS start,"
        f" toUInt64(0) AS a, sum(r.event_count) AS b FROM {rollup_table(BY_TOPIC[topic], level.name)} AS r FINAL"
        f" WHERE {within}{without} GROUP BY r.grouping, r.window_ms",
    )
