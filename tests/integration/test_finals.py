"""The finals job beside the windows job on a real broker, killed at any moment: windows whole, events once."""

from __future__ import annotations

import asyncio
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka import TopicPartition

from fleetpulse.services.jobs_and_sink import partitions_of
from fleetpulse.services.processes import Command, Processes
from runtime.config import Config
from runtime.kafka_clients import open_consumer, open_producer
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
from tests.conftest import Servers
from tests.integration.installation import installed
from tests.merged_rows import key_of, merge_rows
from tests.unit.stream_jobs.windows.cases import a_record

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

KILLS = 3
SECONDS = 11
UPSTREAMS = 4
EVENTS = 12
WITHIN_S = 300.0
"""For whatever is waited for, on a machine that has other work."""


@dataclass(slots=True)
class Run:
    """What was seen: both logs as they stand."""

    config: Config
    kills: int = 0
    partials: list[Record] = field(default_factory=list)
    told: list[Record] = field(default_factory=list)


@pytest.fixture(scope="module")
def run(stack: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A fleet was simulated, the finals job was killed, everything was told."""
    data_dir = tmp_path_factory.mktemp("finals")
    with installed(stack, data_dir) as made:
        found = Run(made.config)
        with Processes(data_dir / "log") as processes:
            for job in ("windows", "finals"):
                processes.start(Command(job, ("jobs", job, "--shell", "bare"), made.environment))
            simulate = ("simulate", "--gpus", "32", "--load", "poisson", "--rate", "4", "--seconds", str(SECONDS))
            processes.start(Command("simulate", simulate, made.environment, restart=False))
            kill_while_it_runs(found, processes)
            asyncio.run(watch(found, processes))
        yield found


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
    """Wait until all windows are told; then send events and commands, and wait until they are passed on."""

    async def until(what: Callable[[], Awaitable[bool]]) -> None:
        until_s = time.monotonic() + WITHIN_S
        while not await what():
            assert time.monotonic() < until_s, processes.tail("finals") + processes.tail("windows")
            processes.tend()
            await asyncio.sleep(0.5)

    async def ended() -> bool:
        return processes.exit_code("simulate") is not None and await all_told(found)

    async def passed_on() -> bool:
        found.told = await read(found.config, WINDOW_FINALS)
        events, commands = passed(found)
        return len(events) >= EVENTS and bool(commands)

    await until(ended)
    await send_events(found)
    await until(passed_on)
    found.partials = await read(found.config, WINDOW_PARTIALS)  # behind the finals: all that they were made of


async def read(config: Config, topic: str) -> list[Record]:
    """All committed records of a topic, by partition."""
    async with open_consumer(config.kafka) as consumer:
        places = [TopicPartition(topic, number) for number in range(partitions_of(config)[topic])]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends, records = await consumer.end_offsets(places), list[Record]()
        while any([await consumer.position(place) < ends[place] for place in places]):
            for messages in (await consumer.getmany(timeout_ms=100)).values():
                records += [record_of(message) for message in messages]
        return sorted(records, key=lambda record: record[1:3])


async def all_told(found: Run) -> bool:
    """Every upstream has told all windows that have rows."""
    found.partials, found.told = await read(found.config, WINDOW_PARTIALS), await read(found.config, WINDOW_FINALS)
    ends = [
        row["window_ms"] + WINDOW_MS for topic in ("llm.requests", "gpu.samples") for row in partial_rows(found, topic)
    ]
    throughs = Counter({head.upstream: head.through_ms for head, _ in finals_of(found.told) if head.through_ms})
    return len(throughs) == UPSTREAMS and bool(ends) and min(throughs.values()) >= max(ends)


async def send_events(found: Run) -> None:
    """A command, GPU events, and one of them again."""
    source = secrets.token_hex(16)
    async with open_producer(found.config.kafka) as producer:
        await producer.send_and_wait(ALERT_COMMANDS, b'{"schema":"test"}')
        for seq in [*range(EVENTS - 1), 0, EVENTS - 1]:
            at_ms = int(time.time() * 1_000)
            event = {"at_ms": at_ms, "host": "h", "gpu_uuid": f"G{seq}", "kind": "xid", "severity": "info"}
            record = a_record(
                "gpu.events", [{**event, "origin": "measured"}], 0, None, Identity(source, 1, seq, (1, 0))
            )
            await producer.send_and_wait("gpu.events", record.value, headers=list(record.headers), partition=0)


def passed(found: Run) -> tuple[list[str], list[bytes | None]]:
    """GPUs of the events that were sent here, and the commands, in the order in which they were passed on."""
    events, commands = list[str](), list[bytes | None]()
    for record in found.told:
        head = finals.decode(record.headers, "window.finals")
        if isinstance(head, PassedOnHeaders) and head.schema == "gpu.events/1":
            fields = GPU_EVENTS.fields
            events += [row["gpu_uuid"] for row in rows_of(fields, native.decode(record.value or b"", fields))]
        elif head.schema == finals.COMMANDS_SCHEMA:
            commands.append(record.value)
    return [uuid for uuid in events if len(uuid) < 5], commands


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
    """In their order, what was sent again left out."""
    events, commands = passed(run)

    assert events == [f"G{number}" for number in range(EVENTS)]
    assert commands == [b'{"schema":"test"}']


def test_finals_come_with_the_last_watermark(run: Run) -> None:
    """What is told to be through is so by some record, whoever was killed before it was told."""
    for upstream in range(UPSTREAMS):
        due = throughs(run, upstream)
        told = [head.through_ms for head, _ in finals_of(run.told) if head.upstream == upstream and head.through_ms]
        assert told
        assert set(told) <= set(due)


def throughs(run: Run, upstream: int) -> list[int]:
    """Ends of windows that the records let pass, one after the other."""
    step = FinalsStep(DEFAULT_LIMITS, partitions_of(run.config))
    state, changes, found = step.new(WINDOW_PARTIALS, upstream), step.changes(), list[int]()
    for record in run.partials:
        if record.partition == upstream:
            step.fold(state, [record], changes)
            if step.due(state, changes):
                found.append(state.progress.through_ms)
            changes = step.changes()
    return found
