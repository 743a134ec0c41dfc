"""The alert job on a real broker: kill -9 in the middle of an incident changes nothing of what is told."""

from __future__ import annotations

import random
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fleetpulse.alerts.view import mark, mark_batch, newest, open_of, publish
from runtime.config import KafkaConfig
from schemas.contract import alert_commands
from schemas.contract.alert_commands import Command
from schemas.contract.alerts import Alert, decode
from schemas.contract.headers import NATIVE
from schemas.contract.record import Output, Record
from stream_jobs.alerts.step import output_of
from tests.integration.alerts_worker import UPSTREAMS
from tests.integration.job_rig import KILLS, JobRig, job_rig
from tests.unit.stream_jobs.alerts.cases import at
from tests.unit.stream_jobs.alerts.log import Log, a_step

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300 + 30 * KILLS)]


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


@pytest.fixture
async def job(kafka_bootstrap: str, tmp_path: Path) -> AsyncIterator[JobRig]:
    async with job_rig("alerts", kafka_bootstrap, tmp_path, {"message.timestamp.type": "LogAppendTime"}) as made:
        yield made


def undisturbed(records: Sequence[Record]) -> list[Alert]:
    step = a_step(UPSTREAMS)
    state, changes = step.new("window.finals", 0), step.changes()
    step.fold(state, records, changes)
    return changes.alerts


async def test_kill_9_in_the_middle_of_an_incident_changes_nothing_of_what_is_told(job: JobRig) -> None:
    """After all kills the history is that of one fold of the log: every transition once, in order, to the byte."""
    draw = random.Random(11)
    records = incident()
    expected = undisturbed(records)
    last = await job.send_while_killed(records, draw)
    told = await job.settled(lambda told: len(told) >= len(expected))
    last.send(signal.SIGTERM)

    assert await last.ended() == 0
    assert len(expected) > 20
    assert list(map(as_output, told)) == [output_of(alert, job.out) for alert in expected]
    assert open_of(await newest(KafkaConfig(bootstrap=job.bootstrap), job.out)) == open_of(_newest(expected))


def as_output(told: Record) -> Output:
    return Output(told.topic, told.partition, told.key, told.value, told.headers)


def _newest(alerts: Sequence[Alert]) -> list[Alert]:
    return [decode(value) for value in {a.fingerprint: output_of(a).value for a in alerts}.values()]


async def test_commands_and_marks_stand_on_their_topics_when_the_command_returns(job: JobRig) -> None:
    """Acknowledged, with the headers by which their readers know them."""
    kafka = KafkaConfig(bootstrap=job.bootstrap)
    command = Command("mute", "m-1", {"host": "h-1"}, at(0), at(40))
    row = {"at_ms": at(1), "host": "h-1", "model": "m", "model_version": "v2", "kind": "marked", "origin": "measured"}
    batch = replace(mark_batch(row), topic=job.source)

    await publish(kafka, command, job.source)
    await mark(kafka, batch, {job.source: 1})

    told, marked = await job.told(job.source)
    assert alert_commands.decode(told.value) == command
    assert dict(told.headers)["schema"] == b"alert.commands/1"
    assert (marked.key, marked.value) == (batch.key, batch.value)
    assert dict(marked.headers) == {"schema": b"engine.events/1", "content-type": NATIVE.encode()}
