"""Sink: consumes Kafka and inserts into ClickHouse, at least once.

Order per batch: insert, wait for the acknowledgement, mark dirty rollup buckets, commit offsets. Two consumer groups in
one process: derived topics (read committed) and, unless switched off, the source topics for the raw tables. While
ClickHouse is unavailable a group stops fetching after one buffered batch and retries with jittered back-off; nothing is
dropped. A crash between insert and commit inserts rows again; they deduplicate by row identity.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from runtime.assignment import Assignment
from runtime.bounded_fetch import bound_fetches
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.contract_record import read_log_ids
from runtime.health import Readiness
from runtime.kafka_clients import explained, follow, make_consumer, slips_raised, start_or_close, stop_client
from runtime.retried import BACKOFF, retried, sleep
from runtime.runbook import Cause, cause_of, named
from runtime.tracing import Tracer
from schemas.contract.record import Record
from schemas.contract.topics import BOOKS_TOPIC, COSTS_TOPIC, REJECTED_TOPIC, SOURCE_TOPICS, WINDOW_PARTIALS
from schemas.ddl.merging import LEVELS
from schemas.errors import ConfigError, FleetpulseError
from schemas.limits import DEFAULT_LIMITS, Limits
from sinks.commits import check_log, commit, commit_markers, count_missing, demand_log_ids
from sinks.database import DatabaseClock, SinkDatabase
from sinks.drain import Drain, unless
from sinks.landing import JSON_TABLES, Landing, land_derived, land_raw, together
from sinks.rollup import NONE, Notebook, RollupSettings, Share, share_of
from sinks.rollup_passes import run_passes
from sinks.sink_counters import count_landed, count_planned, count_read, insert_counted, lag_followed, set_lag
from sinks.spans import end_landed

_log = logging.getLogger(__name__)
_FETCH_MS = 100
_FETCH_BYTES_MIN = 256 * 1024
_FETCHES = 5
"""The broker responds when it has this much for every second between two inserts, or so often between them: fewer and
larger fetches cost both sides less."""
_REPLICA = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_DERIVED = (WINDOW_PARTIALS, BOOKS_TOPIC, REJECTED_TOPIC, *JSON_TABLES, COSTS_TOPIC)
_RAW = tuple(topic.name for topic in SOURCE_TOPICS)


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """``flush_ms``: time between two inserts of aggregates; ``raw_flush_ms``: of raw events, where nobody waits for the
    last second and an insert of three seconds costs the server half as much a row as three of one.

    A batch also ends at ``records_max`` or ``bytes_max`` (of values); of each group one batch is gathered while the one
    before is stored.
    """

    flush_ms: int = 1_000
    raw_flush_ms: int = 3_000
    records_max: int = 20_000
    bytes_max: int = 48 * 1024 * 1024
    raw: bool = True
    """Also keep raw events."""
    roll: bool = True
    """Also keep rollups up to date: those of the partitions that it owns, where several sinks do."""
    replica: str = ""
    """Name of a copy of the database that has consumer groups of its own; empty: the database itself."""
    rollups: RollupSettings = field(default_factory=RollupSettings)
    drain_s: float = 30.0
    """So long a statement is waited for once the sink is stopping; supervisors wait 40 s."""

    def __post_init__(self) -> None:
        for name in ("flush_ms", "raw_flush_ms", "records_max", "bytes_max"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"sink.{name}", getattr(self, name), "must be above 0")
        if self.replica and not _REPLICA.fullmatch(self.replica):
            raise ConfigError("--replica", self.replica, "must be a name of a-z, 0-9, - and _, up to 32 characters")


@dataclass(slots=True)
class Progress:
    """What the sink did so far; ``expired`` rows came past their time to live. ``share``: the rollups it computes."""

    rows: int = 0
    inserts: int = 0
    expired: int = 0
    share: Share = NONE
    abandoned: bool = False
    """Stopped while a thread waits for ClickHouse."""
    readiness: Readiness = field(default_factory=lambda: Readiness(groups="the sink is starting"))

    @property
    def waiting_for(self) -> str | None:
        """What holds the sink up, from any thread; None while its groups have joined and all is well."""
        return self.readiness.why()


@dataclass(slots=True)
class _Group:
    """One consumer group: what it reads and how records become inserts. ``plan`` may ask the database for its clock."""

    name: str
    topics: tuple[str, ...]
    flush_ms: int
    plan: Callable[[Sequence[Record]], Landing]
    database: SinkDatabase
    notebook: Notebook
    progress: Progress
    log_ids: Mapping[str, str]
    """As read at the start; ``read_log_ids`` reads them again."""
    read_log_ids: Callable[[], Awaitable[Mapping[str, str]]]
    tracer: Tracer | None = None
    gathered_s: float = 0.0
    landed: dict[TopicPartition, int] = field(default_factory=dict)
    """Offset up to which this process committed, by partition."""
    assignment: Assignment = field(default_factory=Assignment)
    read: dict[TopicPartition, int] = field(default_factory=dict)
    """Offset up to which its consumer read, by partition."""
    lags: set[TopicPartition] = field(default_factory=set)
    """Partitions whose consumer lag was set."""
    failures: int = 0
    """To read, since it last joined."""

    def not_joined(self, why: str, cause: Cause | None = None) -> None:
        """Nothing is read, because of this."""
        self.progress.readiness.hold(self.name, f"{self.name} {why}", cause)

    def joined(self) -> None:
        """The group has partitions, or knows that it gets none."""
        self.failures = 0
        self.progress.readiness.release(self.name)


@dataclass(slots=True)
class _Batch:
    """Records and the offsets behind them, by partition. ``changes``: those of the assignment before they came."""

    changes: int
    records: list[Record] = field(default_factory=list)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)


async def run_sink(
    kafka: KafkaConfig,
    clickhouse: ClickHouseConfig,
    settings: SinkSettings,
    stop: asyncio.Event,
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    tracer: Tracer | None = None,
) -> None:
    """Run until ``stop``; raises for what a retry cannot fix (a record that is not ours, a missing topic)."""
    bound_fetches(limits)
    progress = progress or Progress()
    log_ids = await retried("Kafka", lambda: read_log_ids(kafka), stop, progress.readiness)
    if log_ids is None:
        return
    groups = _groups(kafka, clickhouse, settings, log_ids, limits, progress)
    for group in groups:
        group.tracer = tracer
        group.not_joined("joins its group")
    progress.readiness.release("groups")
    try:
        async with asyncio.TaskGroup() as tasks:
            works = [_run_group(kafka, group, settings, stop) for group in groups]
            works.append(follow(kafka, stop, progress.readiness))
            if settings.roll:
                works.append(_run_rollups(clickhouse, settings, limits, stop, progress))
            for work in works:
                tasks.create_task(_else_stopping(work, stop))
    except ExceptionGroup as errors:
        ours = errors.subgroup(FleetpulseError)
        if ours is None:
            raise
        raise _first(ours) from None  # one sentence for a person, not a tree of tracebacks


async def _else_stopping(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Where it raises, all others stop, too: they wait for ClickHouse no longer than at any stop."""
    try:
        with slips_raised():  # a task group would take one for a task that was to end
            await work
    except BaseException:
        stop.set()
        raise


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _groups(
    kafka: KafkaConfig,
    clickhouse: ClickHouseConfig,
    settings: SinkSettings,
    log_ids: dict[str, str],
    limits: Limits,
    progress: Progress,
) -> list[_Group]:
    """That of derived topics, and that of raw events where they are kept; each has a connection of its own."""

    def derived(clock: DatabaseClock, records: Sequence[Record]) -> Landing:
        return land_derived(records, log_ids, clock.now_ms(), limits)

    def raw(clock: DatabaseClock, records: Sequence[Record]) -> Landing:
        now_ms = clock.now_ms()
        topics = sorted({record.topic for record in records})
        return together([land_raw(t, [r for r in records if r.topic == t], log_ids, now_ms, limits) for t in topics])

    made_of = [("sink", _DERIVED, settings.flush_ms, derived)]
    made_of += [("raw", _RAW, settings.raw_flush_ms, raw)] if settings.raw else []
    groups = []
    for of, topics, flush_ms, plan in made_of:
        database = SinkDatabase(clickhouse)
        name = group_name(kafka.namespace, of, settings.replica)
        notebook, again = Notebook(database), partial(read_log_ids, kafka)
        by_its_clock = partial(plan, DatabaseClock(database.now_ms))
        groups.append(_Group(name, topics, flush_ms, by_its_clock, database, notebook, progress, log_ids, again))
    return groups


def group_name(namespace: str, of: str, replica: str = "") -> str:
    """Consumer group of a sink; that of a copy has its name."""
    return "-".join(filter(None, (namespace, of, replica)))


def _consumer(kafka: KafkaConfig, group: _Group) -> Any:
    consumer = make_consumer(
        kafka,
        group=group.name,
        max_partition_fetch_bytes=8 * 1024 * 1024,
        fetch_min_bytes=max(_FETCH_BYTES_MIN * group.flush_ms // 1_000, 1),
        fetch_max_wait_ms=max(group.flush_ms // _FETCHES, 1),
    )
    consumer.subscribe(group.topics, listener=group.assignment)
    return consumer


async def _run_group(kafka: KafkaConfig, group: _Group, settings: SinkSettings, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            consumer = _consumer(kafka, group)
        except ConfigError as error:  # a file that could be read at the start; it may be put back
            await _reconnect(kafka, group, error, stop)
            continue
        try:
            with slips_raised():
                if not await unless(stop, start_or_close(consumer)):  # without coordinator it joins for ever
                    continue
                group.joined()
                _log.info("sink group reads", extra={"group": group.name, "topics": ",".join(group.topics)})
                await _land_all(consumer, group, settings, stop)
        except (KafkaError, OSError) as error:
            await _reconnect(kafka, group, error, stop)
        finally:
            await stop_client(consumer.stop)
    group.database.close()


async def _reconnect(kafka: KafkaConfig, group: _Group, error: Exception, stop: asyncio.Event) -> None:
    """Say why, and pause before the next attempt."""
    why = await explained(kafka, error)
    _log.warning(
        "sink group failed, reconnecting; resumes from the committed offset",
        extra={"group": group.name, "why": str(why), "cause": cause_of(why)},
    )
    group.failures += 1
    group.not_joined(f"reconnecting: {named(why)}", cause_of(why))
    await sleep(BACKOFF.pause_s(group.failures, random.random()), stop)


async def _land_all(consumer: Any, group: _Group, settings: SinkSettings, stop: asyncio.Event) -> None:
    """Gather batches and land them in order, gathering one while the one before is stored, until ``stop``. After one
    that was not stored no other may be committed."""
    landing: asyncio.Task[bool] | None = None
    drain = Drain(stop, settings.drain_s)
    group.read.clear()  # it goes on where the group committed
    try:
        while not stop.is_set():
            batch = await _gather(consumer, group, settings, stop)
            if batch is None:
                return
            if landing is not None:
                async with lag_followed(consumer, group.lags):  # while ClickHouse is away
                    stored = await landing
                if not stored:
                    return
            landing = asyncio.create_task(_land(consumer, group, batch, drain)) if batch.records else None
            if landing is None:
                await commit_markers(consumer, group.landed)
    except FleetpulseError:  # which ends the sink
        stop.set()
        raise
    finally:
        try:
            if landing is not None:
                await landing
        finally:
            group.progress.abandoned |= drain.abandoned


async def _land(consumer: Any, group: _Group, batch: _Batch, drain: Drain) -> bool:
    """Land one batch and commit; False when it was not stored. Nothing is committed that was not stored."""
    what, readiness = f"ClickHouse ({group.name})", group.progress.readiness
    worked = group.progress.inserts > 0
    plan = partial(drain.in_thread, partial(group.plan, batch.records))
    landing = await retried(what, plan, drain.stop, readiness, worked=worked)
    if landing is None:
        return False  # stopping: what was read will be read again
    count_planned(landing)
    store = partial(drain.in_thread, partial(_store, group, landing))
    stored = await retried(what, store, drain.stop, readiness, worked=worked)
    if stored is None:
        return False
    count_landed(landing)
    if group.tracer is not None:
        end_landed(group.tracer, group.name, batch.records, landing, SystemClock().now_ms())
    group.progress.rows += sum(insert.rows for insert in landing.inserts)
    group.progress.inserts += len(landing.inserts)
    if landing.expired:
        group.progress.expired += sum(landing.expired.values())
        _log.warning("rows older than their TTL; not inserted", extra={"rows": str(dict(landing.expired))})
    await commit(consumer, group.landed, batch.offsets, lambda: group.assignment.changes == batch.changes)
    return True


async def _gather(consumer: Any, group: _Group, settings: SinkSettings, stop: asyncio.Event) -> _Batch | None:
    """None when ``stop`` came before it was known whether records are of the logs whose ids this process has: they are
    read again after the restart."""

    async def log_ids() -> Mapping[str, str] | None:
        readiness = group.progress.readiness
        return await retried(f"Kafka ({group.name})", group.read_log_ids, stop, readiness, worked=True)

    loop = asyncio.get_running_loop()
    until_s = max(loop.time() + _FETCH_MS / 1_000, group.gathered_s + group.flush_ms / 1_000)
    batch, size = _Batch(group.assignment.changes), 0
    records = batch.records
    while loop.time() < until_s and len(records) < settings.records_max and size < settings.bytes_max:
        if stop.is_set() and not records:
            break
        if not records:
            batch.changes = group.assignment.changes
        left = settings.records_max - len(records)
        brought = await consumer.getmany(timeout_ms=_FETCH_MS, max_records=left)
        if not await demand_log_ids(consumer, group.log_ids, log_ids, brought.keys() - group.read.keys()):
            return None
        for partition, fetched in brought.items():
            await check_log(consumer, group.landed, partition, fetched[0].offset)
            await count_missing(consumer, group.read, partition, fetched[0].offset)
            batch.offsets[partition] = group.read[partition] = fetched[-1].offset + 1
            for r in fetched:
                size += len(r.value or b"")
                records.append(Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers)))
        if stop.is_set():
            break
    if WINDOW_PARTIALS in group.topics:
        group.progress.share = share_of(consumer)
    group.gathered_s = loop.time()
    count_read(records)
    await set_lag(consumer, group.lags)
    return batch


def _store(group: _Group, landing: Landing) -> bool:
    insert_counted(group.database.insert, landing.inserts)
    group.notebook.note(LEVELS[0], landing.dirty)
    return True


async def _run_rollups(
    clickhouse: ClickHouseConfig, settings: SinkSettings, limits: Limits, stop: asyncio.Event, progress: Progress
) -> None:
    drain = Drain(stop, settings.drain_s)
    try:
        await run_passes(clickhouse, settings.rollups, limits, lambda: progress.share, drain, progress.readiness)
    finally:
        progress.abandoned |= drain.abandoned
