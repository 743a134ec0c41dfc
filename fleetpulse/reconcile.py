"""Reconcile: add the books up from the producers' own counts to every table and rollup.

produced = accepted + late + future + rejected, per source, boot and topic; the books' offsets follow one another from
the start of each source partition to its end; raw, partial, rejected and rollup tables hold exactly what the books say.
Any difference is a defect of fleetpulse, and its line says where to look.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from fleetpulse.database import Database
from runtime.config import ClickHouseConfig, KafkaConfig
from schemas.ddl import LEVELS, raw_table, rollup_table
from schemas.errors import UnavailableError
from schemas.events import EVENTS
from schemas.grouping import sets_of
from schemas.tables import PARTIALS
from schemas.topics import SOURCE_TOPICS
from schemas.verdicts import Verdict

LOOK_EVERY_S = 1.0
DIFFERENCES_SHOWN_MAX = 30
_COUNTED = (Verdict.ACCEPTED, Verdict.LATE, Verdict.FUTURE, Verdict.REJECTED)
_LANDED = (Verdict.ACCEPTED, Verdict.LATE, Verdict.FUTURE)


@dataclass(frozen=True, slots=True)
class Difference:
    """Two numbers that should be equal. ``check`` says which books, ``place`` where in them."""

    check: str
    place: str
    expected: int
    got: int

    def __str__(self) -> str:
        return f"{self.check}: {self.place}: expected {self.expected:,}, found {self.got:,}"


@dataclass(frozen=True, slots=True)
class TopicBooks:
    """The books of one source topic. ``unidentified`` events came without identity: outside the guarantee."""

    topic: str
    produced: int
    shed: int
    accepted: int
    late: int
    future: int
    rejected: int
    duplicate: int
    unidentified: int


@dataclass(frozen=True, slots=True)
class Report:
    """``exact`` only when something was compared and nothing differs."""

    topics: tuple[TopicBooks, ...]
    checks: int
    differences: tuple[Difference, ...]

    @property
    def exact(self) -> bool:
        """Whether all books agree."""
        return self.checks > 0 and not self.differences

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "exact": self.exact,
            "checks": self.checks,
            "topics": [asdict(topic) for topic in self.topics],
            "differences": [asdict(one) for one in self.differences],
        }

    def text(self) -> str:
        """For people."""
        head = ("topic", "produced", "accepted", "late", "future", "rejected", "re-sent", "shed", "no identity")
        rows = [
            (b.topic, b.produced, b.accepted, b.late, b.future, b.rejected, b.duplicate, b.shed, b.unidentified)
            for b in self.topics
        ]
        lines = [_line(head), *(_line(row) for row in rows)]
        lines.append(f"{self.checks} comparisons, {len(self.differences)} differences")
        lines += [str(one) for one in self.differences[:DIFFERENCES_SHOWN_MAX]]
        return "\n".join(lines)


def _line(cells: Sequence[object]) -> str:
    shown = [f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells]
    return shown[0].ljust(16) + "".join(cell.rjust(13) for cell in shown[1:])


Log = Mapping[tuple[str, int], tuple[int, int]]
"""First and end offset of every source partition."""


def reconcile(
    kafka: KafkaConfig,
    clickhouse: ClickHouseConfig,
    *,
    wait_s: float = 0.0,
    raw: bool = True,
    while_waiting: Callable[[], object] | None = None,
) -> Report:
    """The report; with ``wait_s`` it looks again until all is exact or the time is over."""
    until_s = time.monotonic() + wait_s
    while True:
        log = asyncio.run(_log_offsets(kafka))
        database = Database(clickhouse)
        try:
            report = compare(log, _read(database, raw=raw), raw=raw)
        finally:
            database.close()
        if report.exact or time.monotonic() >= until_s:
            return report
        if while_waiting is not None:
            while_waiting()
        time.sleep(LOOK_EVERY_S)


async def _log_offsets(kafka: KafkaConfig) -> dict[tuple[str, int], tuple[int, int]]:
    consumer = AIOKafkaConsumer(**kafka.client_settings(), enable_auto_commit=False)
    try:
        await consumer.start()
        try:
            await consumer.topics()
            found = []
            for topic in SOURCE_TOPICS:
                await consumer._client.add_topic(topic.name)
                partitions = consumer._client.cluster.partitions_for_topic(topic.name) or set()
                found += [TopicPartition(topic.name, partition) for partition in sorted(partitions)]
            first = await consumer.beginning_offsets(found)
            end = await consumer.end_offsets(found)
        finally:
            await consumer.stop()
    except KafkaError as error:
        raise UnavailableError(f"Kafka at {kafka.bootstrap} does not tell its offsets: {error!r}") from error
    return {(tp.topic, tp.partition): (first[tp], end[tp]) for tp in found}


@dataclass(frozen=True, slots=True)
class Tables:
    """What the tables hold, summed. Keys: see the queries."""

    produced: Sequence[Mapping[str, Any]]
    booked: Sequence[Mapping[str, Any]]
    commits: Sequence[Mapping[str, Any]]
    raw: Mapping[tuple[str, int], int]
    partials: Mapping[tuple[str, str], int]
    rollups: Mapping[tuple[str, str, str, int], tuple[int, int]]
    rejected: Mapping[str, int]


_PRODUCED = """
SELECT source, boot, topic, max(events) AS events, max(records) AS records, max(shed_events) AS shed
FROM producer_books GROUP BY source, boot, topic
"""
_BOOKED = """
SELECT ifNull(source, '') AS source, boot, topic, verdict, sum(events) AS events
FROM books FINAL GROUP BY source, boot, topic, verdict
"""
_COMMITS = """
SELECT DISTINCT topic, partition, offset_from, offset_to FROM books FINAL ORDER BY topic, partition, offset_from
"""


def _read(database: Database, *, raw: bool) -> Tables:
    rejected = database.sql("SELECT topic, sum(events) AS events FROM rejected FINAL GROUP BY topic").records()
    return Tables(
        database.sql(_PRODUCED).records(),
        database.sql(_BOOKED).records(),
        database.sql(_COMMITS).records(),
        _read_raw(database) if raw else {},
        _read_partials(database),
        _read_rollups(database),
        {row["topic"]: int(row["events"]) for row in rejected},
    )


def _read_raw(database: Database) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for event in EVENTS:
        rows = database.sql(f"SELECT verdict, count() AS events FROM {raw_table(event)} FINAL GROUP BY verdict")
        found |= {(event.topic, int(verdict)): int(events) for verdict, events in rows.rows}
    return found


def _read_partials(database: Database) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for topic, table in PARTIALS.items():
        rows = database.sql(f"SELECT grouping, sum(event_count) FROM {table.name} FINAL GROUP BY grouping").rows
        found |= {(topic, grouping): int(events) for grouping, events in rows}
    return found


def _read_rollups(database: Database) -> dict[tuple[str, str, str, int], tuple[int, int]]:
    """(events in partials, events in the rollup) by topic, level, grouping set and bucket."""
    found: dict[tuple[str, str, str, int], tuple[int, int]] = {}
    for topic, table in PARTIALS.items():
        for level, width in LEVELS.items():
            rows = database.sql(
                "SELECT grouping, bucket, sum(fine), sum(coarse) FROM ("
                f"SELECT grouping, intDiv(window_ms, {width}) * {width} AS bucket, sum(event_count) AS fine, 0 AS coarse"
                f" FROM {table.name} FINAL GROUP BY grouping, bucket UNION ALL "
                f"SELECT grouping, window_ms AS bucket, 0 AS fine, sum(event_count) AS coarse"
                f" FROM {rollup_table(topic, level)} FINAL GROUP BY grouping, bucket) GROUP BY grouping, bucket"
            ).rows
            found |= {(topic, level, g, int(bucket)): (int(fine), int(coarse)) for g, bucket, fine, coarse in rows}
    return found


def compare(log: Log, tables: Tables, *, raw: bool = True) -> Report:
    """All comparisons; pure."""
    pairs = [*_sources(tables), *_offsets(log, tables), *_tables(tables, raw=raw), *_rollup_pairs(tables)]
    differences = tuple(pair for pair in pairs if pair.expected != pair.got)
    return Report(tuple(_topic_books(tables)), len(pairs), differences)


def _sources(tables: Tables) -> Iterable[Difference]:
    booked: dict[tuple[str, int, str], int] = {}
    for row in tables.booked:
        if row["source"] and int(row["verdict"]) in _COUNTED:
            key = (row["source"], int(row["boot"]), row["topic"])
            booked[key] = booked.get(key, 0) + int(row["events"])
    produced = {(row["source"], int(row["boot"]), row["topic"]): int(row["events"]) for row in tables.produced}
    for key in sorted(produced.keys() | booked.keys()):
        source, boot, topic = key
        place = f"topic {topic}, source {source}, boot {boot}"
        yield Difference("produced against the job's books", place, produced.get(key, 0), booked.get(key, 0))


def _offsets(log: Log, tables: Tables) -> Iterable[Difference]:
    commits: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in tables.commits:
        commits.setdefault((row["topic"], int(row["partition"])), []).append(
            (int(row["offset_from"]), int(row["offset_to"]))
        )
    for (topic, partition), (first, end) in sorted(log.items()):
        place = f"topic {topic}, partition {partition}"
        spans = commits.get((topic, partition), [])
        at = min(first, spans[0][0]) if spans else first
        for begin, to in spans:
            yield Difference("offsets of the job's books", f"{place}, commit to {to}", at, begin)
            at = to
        yield Difference("offsets of the job's books", f"{place}, end of the log", end, at)


def _verdicts(tables: Tables, topic: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for row in tables.booked:
        if row["topic"] == topic:
            found[int(row["verdict"])] = found.get(int(row["verdict"]), 0) + int(row["events"])
    return found


def _tables(tables: Tables, *, raw: bool) -> Iterable[Difference]:
    for event in EVENTS:
        topic, verdicts = event.topic, _verdicts(tables, event.topic)
        accepted = verdicts.get(Verdict.ACCEPTED, 0)
        for grouping in sets_of(topic):
            got = tables.partials.get((topic, grouping.name), 0)
            yield Difference(
                "books against partial rows", f"topic {topic}, grouping set {grouping.name}", accepted, got
            )
        rejected = verdicts.get(Verdict.REJECTED, 0)
        yield Difference("books against rejected rows", f"topic {topic}", rejected, tables.rejected.get(topic, 0))
        if raw:
            for verdict in _LANDED:
                place = f"topic {topic}, {verdict.name.lower()}"
                yield Difference(
                    "books against raw rows", place, verdicts.get(verdict, 0), tables.raw.get((topic, verdict), 0)
                )


def _rollup_pairs(tables: Tables) -> Iterable[Difference]:
    for (topic, level, grouping, bucket), (fine, coarse) in sorted(tables.rollups.items()):
        place = f"topic {topic}, level {level}, grouping set {grouping}, bucket {bucket}"
        yield Difference("partial rows against the rollup", place, fine, coarse)


def _topic_books(tables: Tables) -> Iterable[TopicBooks]:
    for event in EVENTS:
        verdicts = _verdicts(tables, event.topic)
        produced = [row for row in tables.produced if row["topic"] == event.topic]
        unknown = sum(int(row["events"]) for row in tables.booked if row["topic"] == event.topic and not row["source"])
        yield TopicBooks(
            event.topic,
            sum(int(row["events"]) for row in produced),
            sum(int(row["shed"]) for row in produced),
            *(verdicts.get(verdict, 0) for verdict in (*_COUNTED, Verdict.DUPLICATE)),
            unknown,
        )
