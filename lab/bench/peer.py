"""The yardstick: ClickHouse's own Kafka engine, with materialized views that keep the same grouping sets.

Per source topic one Kafka table reads it, one view per grouping set aggregates each block of messages into an
AggregatingMergeTree (``quantilesDD`` states for sketches), and, for the whole path, one more view keeps raw rows.
Tables and views follow from the field tables, as the job's do. A Kafka table reads as soon as it has one view, so
that views are made on a stand-in, which the Kafka table replaces: every view gets every block.

Two amounts of work can be given to it: *lean* is what an operator would write by hand (events, sum and quantilesDD
per sketch; count, sum, min, max per gauge; sum per difference), *same* is everything our own partial rows hold
(also min and max per sketch, last per gauge, merged bins of inter-token gaps, the latest time).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.bench import cpu
from lab.bench.feed import OnProgress, until_committed
from runtime.clickhouse_clients import connect
from runtime.config import Config, KafkaConfig
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import Derived, GroupingSet, derived_of, sets_of
from schemas.fields import Event, Field, Role
from schemas.limits import WINDOW_MS

DATABASE = "fleetpulse_bench"
ACCURACY = 0.0109
FLUSH_MS = 7_500
QUANTILES = (0.5, 0.9, 0.95, 0.99)
FORMATS = {"native": "Native", "columns": "JSONColumns", "ndjson": "JSONEachRow"}
_COLUMNS_FIRST = " SETTINGS prefer_column_name_to_alias = 1"
"""A gauge of its own may have the name that another's extreme gets (``pcie_width_max``)."""
_DD = f"quantilesDDState({ACCURACY}, {', '.join(map(str, QUANTILES))})"


@dataclass(frozen=True, slots=True)
class Options:
    """How the engine is set up. ``block_rows`` is ``kafka_max_block_size``: larger blocks group better."""

    work: str = "lean"
    raw: bool = False
    format: str = "native"
    block_rows: int = 524_288


def stem(topic: str) -> str:
    """The topic's name as part of table names."""
    return topic.replace(".", "_")


def kafka_table(topic: str) -> str:
    """The table that reads the topic."""
    return f"{stem(topic)}_queue"


def group_table(grouping: GroupingSet) -> str:
    """The table that keeps one grouping set."""
    return f"{stem(grouping.topic)}_by_{grouping.name}"


def raw_table(topic: str) -> str:
    """The table that keeps the events themselves."""
    return f"{stem(topic)}_raw"


def tables(topic: str, options: Options) -> list[str]:
    """Statements that make everything but the views; a stand-in is where the Kafka table will be."""
    event = BY_TOPIC[topic]
    queue = f"{DATABASE}.{kafka_table(topic)}"
    statements = [f"CREATE TABLE {queue} ({_columns(_read(event, options))}) ENGINE = Null"]
    statements += [
        f"CREATE TABLE {DATABASE}.{group_table(grouping)} ENGINE = AggregatingMergeTree ORDER BY ({_keys(grouping)})"
        f" SETTINGS allow_nullable_key = 1 EMPTY AS SELECT {_select(grouping, options)} FROM {queue}"
        f" GROUP BY {_keys(grouping)}{_COLUMNS_FIRST}"
        for grouping in sets_of(topic)
    ]
    if options.raw:
        statements.append(
            f"CREATE TABLE {DATABASE}.{raw_table(topic)} ({_columns(event.fields)}) ENGINE = MergeTree ORDER BY at_ms"
        )
    return statements


def views(topic: str, options: Options) -> list[str]:
    """Statements that make the views of the stand-in, which the Kafka table takes over by its name."""
    event = BY_TOPIC[topic]
    queue = f"{DATABASE}.{kafka_table(topic)}"
    selects = [
        (
            group_table(grouping),
            f"SELECT {_select(grouping, options)} FROM {queue} GROUP BY {_keys(grouping)}{_COLUMNS_FIRST}",
        )
        for grouping in sets_of(topic)
    ]
    if options.raw:
        names = ", ".join(f.name for f in event.fields)
        selects.append((raw_table(topic), f"SELECT {names} FROM {queue}"))
    return [
        f"CREATE MATERIALIZED VIEW {DATABASE}.{table}_view TO {DATABASE}.{table} AS {select}"
        for table, select in selects
    ]


def reader(topic: str, options: Options, kafka: KafkaConfig, group: str) -> str:
    """The statement that puts the Kafka table in the stand-in's place: reading begins."""
    event = BY_TOPIC[topic]
    settings = {
        "kafka_broker_list": kafka.bootstrap,
        "kafka_topic_list": f"{kafka.topic_prefix}{topic}",
        "kafka_group_name": group,
        "kafka_format": FORMATS[options.format],
        "kafka_num_consumers": 1,
        "kafka_max_block_size": options.block_rows,
        "kafka_poll_max_batch_size": options.block_rows,
        "kafka_flush_interval_ms": FLUSH_MS,
        "input_format_skip_unknown_fields": 1,
    }
    text = ", ".join(f"{name} = {value!r}" for name, value in settings.items())
    columns = _columns(_read(event, options))
    return f"CREATE OR REPLACE TABLE {DATABASE}.{kafka_table(topic)} ({columns}) ENGINE = Kafka SETTINGS {text}"


def _columns(fields: tuple[Field, ...]) -> str:
    return ", ".join(f"`{field.name}` {field.kind.value}" for field in fields)


def _read(event: Event, options: Options) -> tuple[Field, ...]:
    """The columns that the engine needs; others are skipped as cheaply as the format allows."""
    if options.raw:
        return event.fields
    used = {name for grouping in sets_of(event.topic) for name in grouping.dimensions}
    used |= {derived.field for derived in derived_of(event.topic)}
    bins = (Role.SKETCH_BINS,) if options.work == "same" else ()
    used |= {f.name for f in event.of(Role.TIME, Role.SKETCH, Role.GAUGE, Role.DIFFERENCE, *bins)}
    return tuple(f for f in event.fields if f.name in used)


def _keys(grouping: GroupingSet) -> str:
    return ", ".join(("window_ms", *grouping.dimensions))


def _select(grouping: GroupingSet, options: Options) -> str:
    parts = [f"intDiv(at_ms, {WINDOW_MS}) * {WINDOW_MS} AS window_ms"]
    derived = {d.name: d for d in derived_of(grouping.topic)}
    parts += [f"{_derived(derived[name])} AS {name}" if name in derived else name for name in grouping.dimensions]
    parts += [f"{text} AS {name}" for name, text in measures(BY_TOPIC[grouping.topic], options.work)]
    return ", ".join(parts)


def _derived(derived: Derived) -> str:
    cases = "".join(
        f"{derived.field} <= {bound}, '{word}', " for bound, word in zip(derived.bounds, derived.words, strict=False)
    )
    return f"if(isNull({derived.field}), NULL, multiIf({cases}'{derived.words[-1]}'))"


def measures(event: Event, work: str) -> list[tuple[str, str]]:
    """Name and expression of everything that is kept per window and series."""
    same = work == "same"
    found = [("event_count", "sumSimpleState(toUInt64(1))")]
    if same:
        found.append(("last_at_ms", "maxSimpleState(at_ms)"))
    for name in (field.name for field in event.of(Role.SKETCH)):
        found.append((f"{name}_sum", _sum(name)))
        found += _extremes(name) if same else []
        found.append((f"{name}_state", f"{_DD}({name})"))
    for name in (field.name for field in event.of(Role.GAUGE)):
        found += [(f"{name}_count", _count(name)), (f"{name}_sum", _sum(name)), *_extremes(name)]
        if same:
            found.append((f"{name}_last", f"argMaxState({name}, at_ms)"))
    found += [(f"{field.name}_sum", _sum(field.name)) for field in event.of(Role.DIFFERENCE)]
    if same:
        found += [(field.name, f"sumMapSimpleState({field.name})") for field in event.of(Role.SKETCH_BINS)]
    return found


def _sum(name: str) -> str:
    return f"sumSimpleState({name})"


def _count(name: str) -> str:
    return f"sumSimpleState(toUInt64(isNotNull({name})))"


def _extremes(name: str) -> list[tuple[str, str]]:
    return [(f"{name}_min", f"minSimpleState({name})"), (f"{name}_max", f"maxSimpleState({name})")]


_WITHIN_S = 600.0
Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class PeerRun:
    """CPU and wall clock of one reading."""

    options: Options
    cpu_s: float
    wall_s: float
    idle_cpu_share: float
    """CPU-seconds per second of the server just before, with nothing to read: already taken off ``cpu_s``."""


class Peer:
    """The engine of one server. Everything it makes is in a database of its own, removed by ``close``."""

    def __init__(self, config: Config, server_pid: int, topics: tuple[str, ...]) -> None:
        self._client = connect(config.clickhouse, database="default")
        self._kafka = config.kafka
        self._pid = server_pid
        self._topics = topics

    def run(
        self, options: Options, ends: Offsets, *, core: int, on_progress: OnProgress = lambda _done, _all: None
    ) -> PeerRun:
        """Read everything once, bound to ``core``. The results stay in the tables until the next run."""
        group = self.prepare(options)
        for grouping in (one for topic in self._topics for one in sets_of(topic)):
            self._client.command(f"SYSTEM STOP MERGES {DATABASE}.{group_table(grouping)}")
        try:
            with cpu.pinned(self._pid, core):
                return self._read(options, group, ends, on_progress)
        finally:
            self.stop_reading()

    def prepare(self, options: Options) -> str:
        """Make all tables and views, empty; nothing reads yet; the engine's group."""
        self.close()
        self._client.command(f"CREATE DATABASE {DATABASE}")
        for topic in self._topics:
            for statement in (*tables(topic, options), *views(topic, options)):
                self._client.command(statement)
        return f"bench-peer-{time.time_ns()}"

    def start_reading(self, options: Options, group: str) -> None:
        """Have the engine read as a member of the group."""
        for topic in self._topics:
            self._client.command(reader(topic, options, self._kafka, group))

    def landed(self) -> dict[str, int]:
        """Events by table: raw tables as ``TOPIC raw``, others by their grouping set."""
        found: dict[str, int] = {}
        for topic in self._topics:
            found[f"{topic} raw"] = self._number(f"SELECT count() FROM {DATABASE}.{raw_table(topic)}")
            for grouping in sets_of(topic):
                table = f"{DATABASE}.{group_table(grouping)}"
                found[grouping.name] = self._number(f"SELECT sum(event_count) FROM {table}")
        return found

    def _number(self, question: str) -> int:
        return int(self.query(question)[0][0])

    def _read(self, options: Options, group: str, ends: Offsets, on_progress: OnProgress) -> PeerRun:
        idle = self._idle_share()
        before_s, begun_s = cpu.cpu_s(self._pid), time.monotonic()
        self.start_reading(options, group)
        asyncio.run(until_committed(self._kafka, group, ends, _WITHIN_S, on_progress, lambda: True))
        wall_s = time.monotonic() - begun_s
        return PeerRun(options, cpu.cpu_s(self._pid) - before_s - idle * wall_s, wall_s, idle)

    def _idle_share(self) -> float:
        before_s = cpu.cpu_s(self._pid)
        time.sleep(2.0)
        return (cpu.cpu_s(self._pid) - before_s) / 2.0

    def stop_reading(self) -> None:
        """Remove what reads; the results stay."""
        for topic in self._topics:
            tables = [*(group_table(grouping) for grouping in sets_of(topic)), raw_table(topic)]
            for table in tables:
                self._client.command(f"DROP VIEW IF EXISTS {DATABASE}.{table}_view SYNC")
            self._client.command(f"DROP TABLE IF EXISTS {DATABASE}.{kafka_table(topic)} SYNC")

    def insert(self, table: str, ddl: str, blocks: Sequence[bytes]) -> None:
        """Make a table, empty, and put Native blocks into it."""
        self._client.command(f"DROP TABLE IF EXISTS {table} SYNC")
        self._client.command(ddl)
        for block in blocks:
            self._client.raw_insert(table, insert_block=block, fmt="Native")

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Rows of a query on what was kept."""
        return [tuple(row) for row in self._client.query(text).result_rows]

    def close(self) -> None:
        """Remove the database."""
        self._client.command(f"DROP DATABASE IF EXISTS {DATABASE} SYNC")
