"""The alert job on a real broker: kill -9 in the middle of an incident changes nothing of what is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from fleetpulse.alerts import mark, mark_batch, newest, open_of, tell
from runtime.config import KafkaConfig
from schemas import alert_commands
from schemas.alert_commands import Command
from schemas.alerts import Alert, decode
from schemas.headers import NATIVE
from schemas.record import Output, Record
from schemas.topics import state_topic
from stream_jobs.alerts.step import output_of
from tests.integration.alerts_worker import UPSTREAMS
from tests.integration.host_rig import Worker
from tests.unit.stream_jobs.alerts_cases import at
from tests.unit.stream_jobs.alerts_log import Log, a_step

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300 + 30 * int(os.environ.get("FLEETPULSE_KILLS", "3")))]

WORKER = Path(__file__).with_name("alerts_worker.py")
KILLS = int(os.environ.get("FLEETPULSE_KILLS", "3"))
"""More with ``FLEETPULSE_KILLS=50``."""


def incident() -> list[Record]:
    """Three engines that come and go, a GPU that is lost, a mute: some transition in every tenth of the log."""
    log = Log()
    for window in range(70):
        queues = {f"e-{n}": 900 if (window + 5 * n) % 13 < 4 else 1 for n in range(3)}
        log.rows(0, window, queues, through=window + 1)
        if window == 20:
            log.command(Command("mute", "m-1", {"engine_id": "e-1"}, at(0), at(40)))
        if window % 25 == 7:
            log.gpu_event("gpu_lost", f"g-{window}", at(window) + 7)
        if window % 25 == 20:
            log.gpu_event("gpu_found", f"g-{window - 13}", at(window) + 7, "info")
        log.rows(1, window, {"e-9": 1}, through=window + 1)
    return log.records


@dataclass
class Rig:
    """Topics of one alert job, and its worker."""

    bootstrap: str
    folder: Path
    name: str = field(default_factory=lambda: f"a{os.urandom(5).hex()}")
    workers: list[Worker] = field(default_factory=list)

    @property
    def source(self) -> str:
        return f"{self.name}.finals"

    @property
    def out(self) -> str:
        return f"{self.name}.alerts"

    @property
    def topics(self) -> list[str]:
        return [self.source, self.out, state_topic("alerts", self.source)]

    async def worker(self) -> Worker:
        log = self.folder / f"alerts-{len(self.workers)}.log"
        command = [sys.executable, str(WORKER), "--bootstrap", self.bootstrap, "--deployment", self.name]
        command += ["--source", self.source, "--out", self.out]
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, cwd=self.folder
            )
        self.workers.append(Worker(process, time.monotonic(), log=log))
        return self.workers[-1]

    async def send(self, records: Sequence[Record]) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True)
        await producer.start()
        try:
            for record in records:
                await producer.send(self.source, record.value, partition=0, headers=list(record.headers))
        finally:
            await producer.stop()

    async def told(self, topic: str = "") -> list[Output]:
        """The records on the topic of alerts (or another), committed ones alone."""
        topic = topic or self.out
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, isolation_level="read_committed")
        await consumer.start()
        try:
            place = TopicPartition(topic, 0)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            end = (await consumer.end_offsets([place]))[place]
            found: list[Output] = []
            while await consumer.position(place) < end:
                for message in (await consumer.getmany(place, timeout_ms=200)).get(place, ()):
                    headers = tuple((name, value) for name, value in message.headers)
                    found.append(Output(topic, 0, message.key, message.value, headers))
            return found
        finally:
            await consumer.stop()

    async def settled(self, transitions: int) -> list[Output]:
        """The records, once there are so many."""
        async with asyncio.timeout(60):
            while True:
                told = await self.told()
                if len(told) >= transitions:
                    return told
                await asyncio.sleep(0.2)

    async def end(self) -> None:
        for worker in self.workers:
            if worker.process.returncode is None:
                worker.process.kill()
            with contextlib.suppress(Exception):
                await worker.process.communicate()


@pytest.fixture
async def job(kafka_bootstrap: str, tmp_path: Path) -> AsyncIterator[Rig]:
    """Fresh topics, removed at the end with every process."""
    made = Rig(kafka_bootstrap, tmp_path)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()
    try:
        answer = await admin.create_topics(
            [
                NewTopic(made.topics[0], 1, 1, topic_configs={"message.timestamp.type": "LogAppendTime"}),
                NewTopic(made.topics[1], 1, 1),
                NewTopic(made.topics[2], 1, 1, topic_configs={"cleanup.policy": "compact"}),
            ]
        )
        assert all(error[1] == 0 for error in answer.topic_errors), answer
        yield made
    finally:
        await made.end()
        await admin.delete_topics(made.topics)
        await admin.close()


def undisturbed(records: Sequence[Record]) -> list[Alert]:
    step = a_step(UPSTREAMS)
    state, changes = step.new("window.finals", 0), step.changes()
    step.fold(state, records, changes)
    return changes.alerts


async def test_kill_9_in_the_middle_of_an_incident_changes_nothing_of_what_is_told(job: Rig) -> None:
    """After all kills the history is that of one fold of the log: every transition once, in order, to the byte."""
    draw = random.Random(11)
    records = incident()
    expected = undisturbed(records)
    cuts = [len(records) * n // (KILLS + 1) for n in range(KILLS + 2)]
    for start, stop in pairwise(cuts[:-1]):
        worker = await job.worker()
        sending = asyncio.create_task(job.send(records[start:stop]))
        await worker.live()
        await asyncio.sleep(draw.uniform(0.0, 0.4))
        worker.send(signal.SIGKILL)
        await sending
    last = await job.worker()
    await job.send(records[cuts[-2] :])
    await last.live()

    told = await job.settled(len(expected))
    last.send(signal.SIGTERM)

    assert await last.ended() == 0
    assert len(expected) > 20
    assert told == [output_of(alert, job.out) for alert in expected]
    assert open_of(await newest(KafkaConfig(bootstrap=job.bootstrap), job.out)) == open_of(_newest(expected))


def _newest(alerts: Sequence[Alert]) -> list[Alert]:
    return [decode(value) for value in {a.fingerprint: output_of(a).value for a in alerts}.values()]


async def test_commands_and_marks_stand_on_their_topics_when_the_command_returns(job: Rig) -> None:
    """Acknowledged, with the headers by which their readers know them."""
    kafka = KafkaConfig(bootstrap=job.bootstrap)
    command = Command("mute", "m-1", {"host": "h-1"}, at(0), at(40))
    row = {"at_ms": at(1), "host": "h-1", "model": "m", "model_version": "v2", "kind": "marked", "origin": "measured"}
    batch = replace(mark_batch(row), topic=job.source)

    await tell(kafka, command, job.source)
    await mark(kafka, batch, {job.source: 1})

    told, marked = await job.told(job.source)
    assert alert_commands.decode(told.value) == command
    assert dict(told.headers)["schema"] == b"alert.commands/1"
    assert (marked.key, marked.value) == (batch.key, batch.value)
    assert dict(marked.headers) == {"schema": b"engine.events/1", "content-type": NATIVE.encode()}
