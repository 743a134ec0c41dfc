"""Idle partitions: one more snapshot, so that nobody needs what retention deletes."""

from __future__ import annotations

import asyncio

import pytest

from schemas.contract.record import Record
from schemas.limits import DEFAULT_LIMITS
from stream_jobs.finals.forward import ForwardStep
from stream_jobs.windows.step import WindowsStep
from tests.unit.stream_jobs.runner.memory_broker import BEGAN_MS, Scene
from tests.unit.stream_jobs.windows.cases import PARTITIONS, a_record, a_request

EVENT = {"at_ms": BEGAN_MS, "host": "h1", "gpu_uuid": "g1", "kind": "xid", "severity": "critical", "origin": "measured"}


def gpu_event() -> Record:
    return a_record("gpu.events", [EVENT], appended_ms=BEGAN_MS)


def request() -> Record:
    return a_record("llm.requests", [a_request(BEGAN_MS)], appended_ms=BEGAN_MS)


async def _outlives(scene: Scene, record: Record) -> None:
    owner = await scene.owner()
    for _ in range(3):
        await owner.feed([scene.log.add(record)])
        await scene.pass_by(owner, 2)
    await scene.pass_by(owner, 60)
    assert scene.snapshots[-1] == 3
    scene.log.begin, scene.log.records = 3, []

    await owner.stop()

    assert (await scene.owner()).position == 3


def test_a_job_starts_again_when_retention_took_all_that_it_had_read() -> None:
    """Also where idle commits write nothing, as of events that are passed on; the windows job tells the time anyway."""
    asyncio.run(_outlives(Scene(ForwardStep(DEFAULT_LIMITS), "gpu.events"), gpu_event()))
    asyncio.run(_outlives(Scene(WindowsStep(DEFAULT_LIMITS, PARTITIONS), "llm.requests"), request()))


def test_an_idle_partition_without_outputs_commits_its_snapshot_once() -> None:
    """Neither before it is due, nor at every tick."""
    scene = Scene(ForwardStep(DEFAULT_LIMITS), "gpu.events")

    async def told() -> list[int]:
        owner = await scene.owner()
        commits = [await scene.pass_by(owner, 20)]
        for _ in range(2):
            await owner.feed([scene.log.add(gpu_event())])
            commits.append(await scene.pass_by(owner, 2))
        return [*commits, await scene.pass_by(owner, 10), await scene.pass_by(owner, 10_000)]

    commits = asyncio.run(told())

    assert commits == [0, 1, 1, 0, 1]
    assert scene.snapshots == [1, 2]


@pytest.mark.parametrize("markers", [0, 1, 2])
def test_markers_at_the_end_may_be_deleted_too(markers: int) -> None:
    """A log that a job writes ends in a marker: the snapshot stands behind it."""
    scene = Scene(ForwardStep(DEFAULT_LIMITS), "gpu.events", gapless=False)

    async def told() -> int:
        owner = await scene.owner()
        await owner.feed([scene.log.add(gpu_event())])
        scene.log.end += markers
        await scene.pass_by(owner, 60)
        scene.log.begin, scene.log.records = scene.log.end, []
        return (await scene.owner()).position

    assert asyncio.run(told()) == 1 + markers
    assert scene.snapshots == ([1] if markers == 0 else [1, 1 + markers])


def test_a_partition_that_is_quiet_for_days_keeps_its_transactional_id() -> None:
    """A transaction every six hours, of a step that writes nothing by itself; brokers forget ids after a week."""
    scene = Scene(ForwardStep(DEFAULT_LIMITS), "gpu.events")

    async def told() -> list[int]:
        owner = await scene.owner()
        await owner.feed([scene.log.add(gpu_event())])
        commits = [await scene.pass_by(owner, 60)]
        for _ in range(5):
            for hours in (5, 1):
                scene.clock.now_s += hours * 3_600
                commits.append(await scene.pass_by(owner, 10))
        return commits

    assert asyncio.run(told()) == [1, *[0, 1] * 5]
    assert scene.memory.offset is not None
    assert scene.memory.offset.offset == 1
