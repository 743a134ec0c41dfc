"""Reconcile: add the books up from the producers' own counts to every table and rollup.

produced = accepted + late + future + rejected, per source, boot and topic; the books' offsets follow one another from
the start of each source partition to its end; raw, partial, rejected and rollup tables hold exactly what the books say,
and every window of the partial rows exactly the raw events of its ten seconds. Any difference is a defect of
fleetpulse, and its line says where to look: topic, partition, source, offsets or window.

Producers may run meanwhile. Compared is a cut: the producers' lines as they stood when it began, and commits of the
job that had landed. What belongs to the cut differs until all of it has landed, so it is looked at again; what comes
later takes no part (of a sender, events whose sequence number its line does not cover; buckets of rollups that are
being written). Where the cut cannot be made (no raw rows, producers of 0.1.0), all agree only once nothing is produced.

Offsets that a reset of the windows job left out (``fleetpulse jobs reset``) stand in its books as missing. What raw
rows still have of them is taken off what was produced. Offsets of which no row is kept may have held as many events
as a record has room for: a sum that lacks no more is *declared*, and listed, but no difference.

Rows expire. What can be cut along offsets or windows is compared from where every table still has everything; where a
sum may lack expired rows, a difference is reported as *unchecked*, never as wrong.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, astuple, dataclass
from typing import Any

from aiokafka import TopicPartition

from fleetpulse.reconcile.holes import Hole
from fleetpulse.reconcile.tables import Cells, Cut, Tables, read_ends, read_produced, read_tables
from fleetpulse.sql.database import Database
from runtime.bounded_fetch import bound_fetches
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.contract_record import check_deployment
from runtime.kafka_clients import open_consumer
from runtime.topic_prefix import on_wire, topics_known
from schemas.contract.topics import SOURCE_TOPICS
from schemas.contract.verdicts import Verdict
from schemas.events.event_types import EVENTS
from schemas.events.grouping import sets_of
from schemas.limits import DEFAULT_LIMITS, Limits

LOOK_EVERY_S = 1.0
DIFFERENCES_SHOWN_MAX = 30
NOTHING = "Nothing was ever produced here: logs, books and tables are empty, so there was nothing to compare."
GROWING = "{:,} source partitions grew meanwhile: compared is what was produced before it began."
ON_ITS_WAY = "What differs may still be on its way: compare again with a longer --wait; what differs then is wrong."
NO_CUT = (
    "Without raw rows there is no cut through running producers:"
    " stop agents, proxies and simulators before you compare."
)
OPEN = "{:,} buckets of rollups are still being written: they were left out"
_COUNTED = (Verdict.ACCEPTED, Verdict.LATE, Verdict.FUTURE, Verdict.REJECTED)
_LANDED = (Verdict.ACCEPTED, Verdict.LATE, Verdict.FUTURE)
_KNOWN = frozenset(map(int, Verdict))

PRODUCED = "produced against the job's books"
OFFSETS = "offsets of the job's books"
VERDICTS = "verdicts of the job's books that this release does not know"
PARTIAL_ROWS = "books against partial rows"
REJECTED_ROWS = "books against rejected rows"
RAW_ROWS = "books against raw rows"
WINDOWS = "raw rows against partial rows"
ROLLUP_ROWS = "partial rows against the rollup"


@dataclass(frozen=True, slots=True)
class Difference:
    """Two numbers that should be equal. ``check`` says which books, ``place`` where in them. ``expired`` is True where
    rows that a sum needs may be past their time to live."""

    check: str
    place: str
    expected: int
    got: int
    expired: bool = False

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
    """``exact`` only when something was compared and nothing differs. ``unchecked`` sums may lack expired rows.
    ``growing`` is how many source partitions took records while it was compared; ``open_buckets`` of rollups were left
    out because they are still being written; ``cut`` False: there are no raw rows to cut through what a sender sent.
    ``holes`` are what resets left out; ``missing`` events of theirs are in no window, of which raw rows know."""

    topics: tuple[TopicBooks, ...]
    checks: int
    differences: tuple[Difference, ...]
    unchecked: int = 0
    growing: int = 0
    open_buckets: int = 0
    cut: bool = True
    holes: tuple[Hole, ...] = ()
    missing: int = 0
    declared: tuple[Difference, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether all books agree."""
        return self.checks > 0 and not self.differences

    @property
    def produced(self) -> int:
        """Events in the producers' books."""
        return sum(topic.produced for topic in self.topics)

    @property
    def behind(self) -> bool:
        """Whether the job's books do not reach as far as producers and logs do."""
        return any(one.check in (PRODUCED, OFFSETS) and one.got < one.expected for one in self.differences)

    @property
    def empty(self) -> bool:
        """Whether all books agree because there is nothing in any of them."""
        counted = (count for topic in self.topics for count in astuple(topic)[1:])
        return self.exact and not self.unchecked and not any(counted)

    def as_dict(self) -> dict[str, Any]:
        found = {"exact": self.exact, "empty": self.empty, "produced": self.produced, **asdict(self)}
        return found | {"holes": [hole._asdict() for hole in self.holes]}

    def text(self) -> str:
        if self.empty:
            return NOTHING
        head = ("topic", "produced", "accepted", "late", "future", "rejected", "re-sent", "shed", "no identity")
        rows = [
            (b.topic, b.produced, b.accepted, b.late, b.future, b.rejected, b.duplicate, b.shed, b.unidentified)
            for b in self.topics
        ]
        lines = [_line(head), *(_line(row) for row in rows)]
        lines.append(f"{self.checks:,} comparisons, {len(self.differences)} differences")
        lines += [f"declared missing by {hole}" for hole in self.holes]
        if self.missing:
            lines.append(f"{self.missing:,} events of these are in raw tables alone")
        lines += [f"of what is declared missing: {one}" for one in self.declared[:DIFFERENCES_SHOWN_MAX]]
        if self.unchecked:
            lines.append(f"{self.unchecked:,} more could not be made: rows they need have expired")
        if self.open_buckets:
            lines.append(OPEN.format(self.open_buckets))
        if self.growing:
            lines.append(GROWING.format(self.growing) if self.cut else NO_CUT)
        if self.growing and self.cut and not self.exact:
            lines.append(ON_ITS_WAY)
        lines += [str(one) for one in self.differences[:DIFFERENCES_SHOWN_MAX]]
        return "\n".join(lines)


def _line(cells: Sequence[object]) -> str:
    shown = [f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells]
    return shown[0].ljust(16) + "".join(cell.rjust(13) for cell in shown[1:])


Log = Mapping[TopicPartition, tuple[int, int]]
"""First and end offset of every source partition (topic, partition)."""


def reconcile(
    kafka: KafkaConfig,
    clickhouse: ClickHouseConfig,
    *,
    wait_s: float = 0.0,
    raw: bool = True,
    while_waiting: Callable[[], object] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """The report; with ``wait_s`` it looks again until all is exact or the time is over. ``raw`` False: there are no
    raw tables to check."""
    bound_fetches(limits)
    until_s = time.monotonic() + wait_s

    def is_over() -> bool:
        """Or wait until the next look."""
        if time.monotonic() >= until_s:
            return True
        if while_waiting is not None:
            while_waiting()
        time.sleep(LOOK_EVERY_S)
        return False

    asyncio.run(check_deployment(kafka))
    begun = asyncio.run(_log_offsets(kafka))
    with closing(Database(clickhouse, consistent=True)) as database:
        lines = read_produced(database)
        ends = read_ends(database)
        while True:
            while _short_of(ends, begun) and not is_over():
                ends = read_ends(database)
            growing = grown(begun, asyncio.run(_log_offsets(kafka)))
            cut = Cut(lines, ends, growing > 0)
            tables = read_tables(database, cut, SystemClock().now_ms(), limits, raw=raw)
            report = compare(begun, tables, growing, limits)
            if report.exact or is_over():
                return report
            lines = read_produced(database, lines if raw else ())
            ends = read_ends(database) if report.behind else ends


def _short_of(ends: Mapping[tuple[str, int], int], log: Log) -> bool:
    """Whether the commits that have landed do not reach the end of the log."""
    return any(ends.get(place, first) < end for place, (first, end) in log.items())


async def _log_offsets(kafka: KafkaConfig) -> dict[tuple[str, int], tuple[int, int]]:
    settings = {"failed": "does not return its offsets", "isolation_level": "read_uncommitted"}
    async with open_consumer(kafka, **settings) as consumer:
        await consumer.topics()
        found = []
        for topic in SOURCE_TOPICS:
            await topics_known(consumer).add_topic(on_wire(consumer, topic.name))
            partitions = consumer.partitions_for_topic(topic.name) or set()
            found += [TopicPartition(topic.name, partition) for partition in sorted(partitions)]
        first = await consumer.beginning_offsets(found)
        end = await consumer.end_offsets(found)
    return {(tp.topic, tp.partition): (first[tp], end[tp]) for tp in found}


def grown(before: Log, after: Log) -> int:
    """How many partitions have records behind those they had before."""
    return sum(end > before.get(place, (0, 0))[1] for place, (_, end) in after.items())


def compare(log: Log, tables: Tables, growing: int = 0, limits: Limits = DEFAULT_LIMITS) -> Report:
    """All comparisons; pure. ``growing`` source partitions took records since ``log`` was read."""
    pairs = [*_sources(tables), *_offsets(log, tables, growing > 0), *_tables(tables)]
    if tables.raw is not None:
        pairs += _raw_pairs(tables, tables.raw)
    cells = [*_cells(WINDOWS, tables.windows), *_cells(ROLLUP_ROWS, tables.rollups)]
    differing = [pair for pair in pairs if pair.expected != pair.got]
    unchecked = [pair for pair in differing if pair.expired]
    declared = _declared(tables, [pair for pair in differing if not pair.expired], limits)
    differences = (*(pair for pair in differing if not pair.expired and pair not in declared), *cells)
    checks = len(pairs) - len(unchecked) + sum(found.compared for found in (*tables.windows, *tables.rollups))
    books, cut = tuple(_topic_books(tables)), tables.raw is not None
    holes, missing = tuple(tables.holes), sum(tables.missing.values())
    open_buckets = tables.open_buckets
    return Report(
        books, checks, differences, len(unchecked), growing, open_buckets, cut, holes, missing, tuple(declared)
    )


def _declared(tables: Tables, differing: Sequence[Difference], limits: Limits) -> list[Difference]:
    """Sums of senders that lack no more events than there was room for in offsets of which nothing is kept."""
    found: list[Difference] = []
    for topic, room in sorted(tables.gone.items()):
        place = f"topic {topic}, source "
        short = [d for d in differing if d.check == PRODUCED and d.place.startswith(place) and d.got < d.expected]
        if sum(one.expected - one.got for one in short) <= room * limits.batch_events_max:
            found += short
    return found


def _sources(tables: Tables) -> Iterable[Difference]:
    booked: dict[tuple[str, int, str], int] = {}
    spans: dict[tuple[str, int, str], list[str]] = {}
    expired: dict[tuple[str, int, str], bool] = {}
    for row in tables.booked:
        if row["source"] and int(row["verdict"]) in _COUNTED:
            key = (row["source"], int(row["boot"]), row["topic"])
            booked[key] = booked.get(key, 0) + int(row["events"])
            spans.setdefault(key, []).append(f"{row['partition']}:{row['offset_first']}-{row['offset_end']}")
            expired[key] = expired.get(key, False) or int(row["oldest_ms"]) < tables.since_ms
    produced = {(row["source"], int(row["boot"]), row["topic"]): row for row in tables.produced}
    for key in sorted(produced.keys() | booked.keys()):
        source, boot, topic = key
        place = f"topic {topic}, source {source}, boot {boot}"
        if key in spans:
            place += f", partition:offsets {' '.join(sorted(set(spans[key])))}"
        line = produced.get(key)
        old = int(line["first_at_ms"]) < tables.since_ms if line else expired.get(key, False)
        expected = (int(line["events"]) if line else 0) + tables.behind.get(key, 0) - tables.missing.get(key, 0)
        yield Difference(PRODUCED, place, expected, booked.get(key, 0), old)


def _offsets(log: Log, tables: Tables, growing: bool) -> Iterable[Difference]:
    for place, (first, end) in sorted(log.items()):
        text = f"topic {place[0]}, partition {place[1]}"
        spans = tables.spans.get(place)
        if spans is None:
            yield Difference(OFFSETS, f"{text}, the whole log from offset {first}", end, first)
            continue
        yield Difference(OFFSETS, f"{text}, start of the log", min(first, spans.first), spans.first)
        for before, begin in spans.breaks:
            yield Difference(OFFSETS, f"{text}, behind the commit that ends at offset {before}", before, begin)
        reached = min(end, spans.end) if growing else spans.end
        yield Difference(OFFSETS, f"{text}, end of the log", end, reached)


def _verdicts(tables: Tables, topic: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for row in tables.booked:
        if row["topic"] == topic:
            found[int(row["verdict"])] = found.get(int(row["verdict"]), 0) + int(row["events"])
    return found


def _tables(tables: Tables) -> Iterable[Difference]:
    accepted: dict[TopicPartition, int] = {}
    rejected: dict[TopicPartition, int] = {}
    for row in tables.booked:
        place = (row["topic"], int(row["partition"]))
        verdict, events = int(row["verdict"]), int(row["events"])
        counts = {int(Verdict.ACCEPTED): accepted, int(Verdict.REJECTED): rejected}.get(verdict)
        if counts is not None:
            counts[place] = counts.get(place, 0) + events
        elif verdict not in _KNOWN:
            text = f"topic {place[0]}, partition {place[1]}, source {row['source']}, verdict {verdict}"
            yield Difference(VERDICTS, text, 0, events)
    for topic in (event.topic for event in EVENTS):
        partitions = {p for t, p in (*tables.spans, *tables.rejected) if t == topic}
        partitions |= {partition for t, partition, _ in tables.partials if t == topic}
        for partition in sorted(partitions):
            spans = tables.spans.get((topic, partition))
            old = spans is not None and spans.oldest_ms < tables.since_ms
            where = f"topic {topic}, partition {partition}" + (f", offsets {spans.first}-{spans.end}" if spans else "")
            for grouping in sets_of(topic):
                got = tables.partials.get((topic, partition, grouping.name), 0)
                expected = accepted.get((topic, partition), 0)
                yield Difference(PARTIAL_ROWS, f"{where}, grouping set {grouping.name}", expected, got, old)
            booked = rejected.get((topic, partition), 0)
            yield Difference(REJECTED_ROWS, where, booked, tables.rejected.get((topic, partition), 0), old)


def _raw_pairs(
    tables: Tables, raw: Mapping[tuple[str, int, str, int, int], tuple[int, int, int]]
) -> Iterable[Difference]:
    booked = {key: found for key, found in tables.raw_booked.items() if key[4] in _LANDED and found[0]}
    for key in sorted(booked.keys() | raw.keys()):
        topic, partition, source, boot, verdict = key
        expected, first, end = booked.get(key, (0, 0, 0))
        got, raw_first, raw_end = raw.get(key, (0, 0, 0))
        low, high = (
            (min(first, raw_first), max(end, raw_end)) if expected and got else (first or raw_first, end or raw_end)
        )
        who = f"source {source}, boot {boot}" if source else "no identity"
        place = f"topic {topic}, partition {partition}, {who}, offsets {low}-{high}, {Verdict(verdict).name.lower()}"
        yield Difference(RAW_ROWS, place, expected, got)


def _cells(check: str, found: Sequence[Cells]) -> Iterable[Difference]:
    for cells in found:
        for place, expected, got in cells.differing:
            yield Difference(check, f"topic {cells.topic}, {place}", expected, got)
        if cells.more:
            yield Difference(check, f"topic {cells.topic}, {cells.what}: so many more that differ", 0, cells.more)


def _topic_books(tables: Tables) -> Iterable[TopicBooks]:
    for event in EVENTS:
        verdicts = _verdicts(tables, event.topic)
        produced = [row for row in tables.produced if row["topic"] == event.topic]
        unknown = sum(int(row["events"]) for row in tables.booked if row["topic"] == event.topic and not row["source"])
        counts = [verdicts.get(verdict, 0) for verdict in (*_COUNTED, Verdict.DUPLICATE)]
        accepted, late, future, rejected, duplicate = counts
        shed = sum(int(row["shed"]) for row in produced)
        total = sum(int(row["events"]) for row in produced)
        yield TopicBooks(event.topic, total, shed, accepted, late, future, rejected, duplicate, unknown)
