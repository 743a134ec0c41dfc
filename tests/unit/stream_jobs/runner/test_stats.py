"""Statistics of commits become counters of the process."""

from __future__ import annotations

import asyncio

import pytest

from runtime.counters import Counters
from runtime.runbook import Cause
from schemas.contract.record import Output
from schemas.contract.topics import ALERT_COMMANDS, WINDOW_FINALS
from schemas.limits import DEFAULT_LIMITS
from stream_jobs.finals.forward import ForwardStep
from stream_jobs.windows.step import WindowsStep
from tests.unit.stream_jobs.alerts.cases import at
from tests.unit.stream_jobs.alerts.log import Log, a_step
from tests.unit.stream_jobs.runner.memory_broker import Memory, Scene
from tests.unit.stream_jobs.windows.cases import PARTITIONS, a_record, a_sample

SAMPLES = "gpu.samples"


def test_a_commit_is_counted_once_and_what_is_folded_silently_never() -> None:
    """Counters grow with every commit, gauges are those of the last; the owner after it folds the same again."""
    scene, counters = Scene(WindowsStep(DEFAULT_LIMITS, PARTITIONS), SAMPLES), Counters()

    async def two_commits_and_a_takeover() -> None:
        owner = await scene.owner(counters=counters)
        for _ in range(2):
            await owner.feed([scene.log.add(a_record(SAMPLES, [a_sample()]))])
            await owner.commit()
        await (await scene.owner(counters=counters)).commit()

    asyncio.run(two_commits_and_a_takeover())

    assert counters.value("job_events", topic=SAMPLES, verdict="accepted") == 2
    assert counters.value("job_series", set="gpu", partition=0) == 1


def test_what_should_be_none_is_logged_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """Events that were rejected; accepted ones of the same commit make no line."""
    scene = Scene(WindowsStep(DEFAULT_LIMITS, PARTITIONS), SAMPLES)

    async def rejected() -> None:
        owner = await scene.owner(counters=Counters())
        good = a_record(SAMPLES, [a_sample()])
        await owner.feed([scene.log.add(good), scene.log.add(good._replace(value=b"{not ours"))])
        await owner.commit()

    asyncio.run(rejected())

    (line,) = caplog.records
    found = {name: line.__dict__[name] for name in ("cause", "counted", "topic", "verdict", "number")}
    assert found == {
        **{"cause": Cause.REJECTED, "counted": "job_events"},
        **{"topic": SAMPLES, "verdict": "rejected", "number": 1},
    }


def test_a_commit_that_fails_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are folded again by the next owner, who counts them."""
    scene, counters = Scene(WindowsStep(DEFAULT_LIMITS, PARTITIONS), SAMPLES), Counters()

    async def refuse(self: Memory, outputs: list[Output]) -> list[int]:
        raise OSError("no broker")

    async def failing() -> None:
        owner = await scene.owner(counters=counters)
        await owner.feed([scene.log.add(a_record(SAMPLES, [a_sample()]))])
        monkeypatch.setattr(Memory, "send", refuse)
        await owner.commit()

    with pytest.raises(OSError, match="no broker"):
        asyncio.run(failing())

    assert counters.value("job_events", topic=SAMPLES, verdict="accepted") == 0


def test_a_commit_with_nothing_to_write_sets_gauges() -> None:
    """A job that was restarted shows what it holds, though nothing comes."""
    scene, counters, log = Scene(a_step(), WINDOW_FINALS), Counters(), Log()
    log.gpu_event("xid", "g-10", at(3), code=79)

    async def restarted() -> bool:
        owner = await scene.owner()
        await owner.feed([scene.log.add(log.records[0])])
        await owner.commit()
        return await (await scene.owner(counters=counters)).commit()

    committed = asyncio.run(restarted())

    assert (committed, counters.value("alerts_open", severity="critical")) == (False, 1)


def test_commands_that_cannot_be_passed_on_are_counted() -> None:
    """By topic."""
    scene, counters = Scene(ForwardStep(DEFAULT_LIMITS), ALERT_COMMANDS), Counters()

    async def empty() -> None:
        owner = await scene.owner(counters=counters)
        await owner.feed([scene.log.add(a_record(SAMPLES, [a_sample()])._replace(value=b""))])
        await owner.commit()

    asyncio.run(empty())

    assert counters.value("finals_records_skipped", topic=ALERT_COMMANDS) == 1
