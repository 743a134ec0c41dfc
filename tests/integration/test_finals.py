"""The finals job beside the windows job on a real broker, killed at any moment: windows whole, events once."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import signal
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from fleetpulse import stack as local
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.services.jobs_and_sink import partitions_of
from fleetpulse.services.processes import Command, Processes
from runtime.config import Config
from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract.headers import Identity
from schemas.contract.record import Record
from schemas.contract.topics import ALERT_COMMANDS, WINDOW_FINALS, WINDOW_PARTIALS
from schemas.events.event_types import GPU_EVENTS
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS
from schemas.rows import finals
from schemas.rows.finals import FinalsHeaders, PassedOnHeaders
from schemas.rows.tables import PARTIALS
from stream_jobs.finals.step import FinalsStep
from stream_jobs.runner.kafka_ports import record_of
from tests.merged_rows import key_of, merge_rows
from tests.unit.stream_jobs.windows.cases import a_record

_log = logging.getLogger(__name__)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

KILLS = 3
SECONDS = 11
UPSTREAMS = 4
EVENTS = 12
CLOSED_WITHIN_S = 60.0


@dataclass(slots=True)
class Run:
    """What was seen: both logs as they stand, when each event was seen, and when it was sent."""

    config: Config
    kills: int = 0
    partials: list[Record] = field(default_factory=list)
    told: list[Record] = field(default_factory=list)
    passed_on_ms: list[float] = field(default_factory=list)
    """From the append of a GPU event to its record of ``window.finals``, of those that a waiting reader saw."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A fleet was simulated, the finals job was killed, everything was told."""
    data_dir = tmp_path_factory.mktemp("finals")
    environment = {"FLEETPULSE_DATA_DIR": str(data_dir)}
    try:
        found = Run(bring_up(data_dir, lambda _text: None))
        with Processes(data_dir / "log") as processes:
            for job in ("windows", "finals"):
                processes.start(Command(job, ("jobs", job, "--shell", "bare"), environment))
            simulate = ("simulate", "--gpus", "32", "--load", "poisson", "--rate", "4", "--seconds", str(SECONDS))
            processes.start(Command("simulate", simulate, environment, restart=False))
            kill_while_it_runs(found, processes)
            asyncio.run(watch(found, processes))
        yield found
    finally:
        local.down(data_dir)


def kill_while_it_runs(found: Run, processes: Processes) -> None:
    """SIGKILL the finals job again and again, at moments of every kind."""
    draw = random.Random(5)
    for _ in range(KILLS):
        time.sleep(draw.uniform(1.6, 3.0))
        processes.tend()
        found.kills += processes.signal("finals", signal.SIGKILL)
        time.sleep(0.2)
        processes.tend()


async def watch(found: Run, processes: Processes) -> None:
    """Wait until all windows are told; then send events and commands and see them come."""
    until_s = time.monotonic() + CLOSED_WITHIN_S
    while processes.exit_code("simulate") is None or not await all_told(found):
        assert time.monotonic() < until_s, processes.tail("finals") + processes.tail("windows")
        processes.tend()
        await asyncio.sleep(0.5)
    await send_events(found)
    found.told = await read(found.config, WINDOW_FINALS)


async def read(config: Config, topic: str) -> list[Record]:
    """All committed records of a topic, by partition."""
    consumer = AIOKafkaConsumer(
        **config.kafka.client_settings(), isolation_level="read_committed", enable_auto_commit=False
    )
    await consumer.start()
    try:
        places = [TopicPartition(topic, number) for number in range(partitions_of(config)[topic])]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends, records = await consumer.end_offsets(places), []
        while any([await consumer.position(place) < ends[place] for place in places]):
            for messages in (await consumer.getmany(timeout_ms=100)).values():
                records += [record_of(message) for message in messages]
        return sorted(records, key=lambda record: record[1:3])
    finally:
        await consumer.stop()


async def all_told(found: Run) -> bool:
    """Every upstream has told all windows that have rows."""
    found.partials, found.told = await read(found.config, WINDOW_PARTIALS), await read(found.config, WINDOW_FINALS)
    ends = [
        row["window_ms"] + WINDOW_MS for topic in ("llm.requests", "gpu.samples") for row in partial_rows(found, topic)
    ]
    throughs = Counter({head.upstream: head.through_ms for head, _ in finals_of(found.told) if head.through_ms})
    return len(throughs) == UPSTREAMS and bool(ends) and min(throughs.values()) >= max(ends)


async def send_events(found: Run) -> None:
    """GPU events, a re-send of one, and a command; note when a reader saw them."""
    settings, source = found.config.kafka.client_settings(), secrets.token_hex(16)
    consumer = AIOKafkaConsumer(
        WINDOW_FINALS, **settings, isolation_level="read_committed", auto_offset_reset="latest", fetch_max_wait_ms=20
    )
    async with consumer, AIOKafkaProducer(**settings) as producer:
        await consumer.seek_to_end()
        await consumer.position(TopicPartition(WINDOW_FINALS, 0))
        await producer.send_and_wait(ALERT_COMMANDS, b'{"schema":"test"}')
        for seq in [*range(EVENTS), 0]:
            at_ms = int(time.time() * 1_000)
            event = {"at_ms": at_ms, "host": "h", "gpu_uuid": f"G{seq}", "kind": "xid", "severity": "info"}
            record = a_record(
                "gpu.events", [{**event, "origin": "measured"}], 0, None, Identity(source, 1, seq, (1, 0))
            )
            await producer.send_and_wait("gpu.events", record.value, headers=list(record.headers))
            await asyncio.sleep(0.1)
            for messages in (await consumer.getmany(timeout_ms=300)).values():
                note(found, [record_of(message) for message in messages])
    found.partials = await read(found.config, WINDOW_PARTIALS)


def note(found: Run, records: Sequence[Record]) -> None:
    for record in records:
        head = finals.decode(record.headers, "window.finals")
        if isinstance(head, PassedOnHeaders) and head.schema == "gpu.events/1":
            found.passed_on_ms.append(record.timestamp_ms - head.at_ms)


def finals_of(records: Sequence[Record]) -> list[tuple[FinalsHeaders, bytes]]:
    """Headers and value of finals and progress."""
    heads = [(finals.decode(record.headers, "window.finals"), record.value or b"") for record in records]
    return [(head, value) for head, value in heads if isinstance(head, FinalsHeaders)]


def partial_rows(found: Run, topic: str, upstream: int | None = None) -> list[dict[str, Any]]:
    """The partial rows of a topic."""
    table = PARTIALS[topic]
    return [
        row
        for record in found.partials
        if record.value and dict(record.headers)["schema"].decode() == table.schema
        if upstream is None or record.partition == upstream
        for row in rows_of(table.fields, native.decode(record.value, table.fields))
    ]


def last_rows(told: list[tuple[FinalsHeaders, bytes]], topic: str) -> dict[Any, dict[str, Any]]:
    """Of every upstream, window and series the row with the greatest revision."""
    table, last = PARTIALS[topic], {}
    for head, value in sorted(told, key=lambda one: one[0].revision):
        if head.schema == finals.finals_schema(topic):
            for row in rows_of(table.fields, native.decode(value, table.fields)):
                last[head.upstream, key_of(table, row)] = row
    return last


def test_finals_are_the_merged_partials_of_every_window(run: Run) -> None:
    """Whatever was killed: each row equals plain merging of what the windows job wrote."""
    told = finals_of(run.told)
    assert run.kills > 0
    for topic in ("llm.requests", "gpu.samples", "host.samples", "engine.samples"):
        wanted = {
            (upstream, key): row
            for upstream in range(UPSTREAMS)
            for key, row in merge_rows(PARTIALS[topic], partial_rows(run, topic, upstream)).items()
        }
        found = last_rows(told, topic)
        assert wanted.keys() - found.keys() == set()
        assert found == wanted
    assert len(last_rows(told, "gpu.samples")) >= 32
    assert len(last_rows(told, "llm.requests")) >= 32


def test_nothing_is_told_twice_and_progress_never_falls(run: Run) -> None:
    """A window, series and revision is in the log once; ``through`` of an upstream rises."""
    told, throughs = Counter[Any](), [0] * UPSTREAMS
    for head, value in finals_of(run.told):
        if head.schema in finals.TOPIC_BY_SCHEMA:
            table = finals.TABLE_BY_SCHEMA[head.schema]
            for row in rows_of(table.fields, native.decode(value, table.fields)):
                told[head.upstream, head.revision, head.schema, key_of(table, row)] += 1
        if head.through_ms:
            assert head.through_ms > throughs[head.upstream] or head.rows
            throughs[head.upstream] = max(throughs[head.upstream], head.through_ms)

    assert set(told.values()) == {1}


def test_events_are_passed_on_once_and_commands_too(run: Run) -> None:
    """At once, re-sends left out."""
    events: list[str] = []
    commands = []
    for record in run.told:
        head = finals.decode(record.headers, "window.finals")
        if isinstance(head, PassedOnHeaders) and head.schema == "gpu.events/1":
            fields = GPU_EVENTS.fields
            events += [row["gpu_uuid"] for row in rows_of(fields, native.decode(record.value or b"", fields))]
        elif head.schema == finals.COMMANDS_SCHEMA:
            commands.append(record.value)

    assert [uuid for uuid in events if len(uuid) < 5] == [f"G{number}" for number in range(EVENTS)]
    assert commands == [b'{"schema":"test"}']
    assert len(run.passed_on_ms) >= EVENTS - 1


def test_finals_come_soon_after_the_last_watermark(run: Run) -> None:
    """Within a second of the record that lets a window pass, unless the job was down then; events within a second."""
    delays_ms = [delay for upstream in range(UPSTREAMS) for delay in delays(run, upstream)]
    _log.info("last watermark to final: %s ms", sorted(delays_ms))
    _log.info("append of a GPU event to window.finals: %s ms", sorted(run.passed_on_ms))

    assert min(delays_ms) < 1_000
    assert statistics.median(run.passed_on_ms) < 1_000


def delays(run: Run, upstream: int) -> list[int]:
    """From the record that let a window pass to the one that told it, each as its writer stamped it, in ms."""
    told_ms: dict[int, int] = {}
    for record in run.told:
        head = finals.decode(record.headers, "window.finals")
        if isinstance(head, FinalsHeaders) and head.upstream == upstream and head.through_ms:
            told_ms.setdefault(head.through_ms, record.timestamp_ms)
    step, found = FinalsStep(DEFAULT_LIMITS, partitions_of(run.config)), []
    state, changes = step.new(WINDOW_PARTIALS, upstream), step.changes()
    for record in run.partials:
        if record.partition == upstream:
            step.fold(state, [record], changes)
            if step.due(state, changes) and state.progress.through_ms in told_ms:
                found.append(told_ms[state.progress.through_ms] - record.timestamp_ms)
            changes = step.changes()
    return found
