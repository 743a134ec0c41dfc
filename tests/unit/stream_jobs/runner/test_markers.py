"""Holes in the offsets of a source that somebody writes in transactions: markers are no gaps, lost records are."""

from __future__ import annotations

import asyncio
import json

import pytest

from schemas.contract.record import Record
from schemas.errors import ContractError, PartitionError
from tests.simulator.counting import OUT_TOPIC, CountingStep
from tests.unit.stream_jobs.runner.memory_broker import Scene


def one() -> Record:
    return Record("source", 0, 0, 0, None, b"k=1", ())


def counted(scene: Scene) -> int:
    return sum(json.loads(record.value or b"")["accepted"] for record in scene.memory.log(OUT_TOPIC).records)


async def _with_markers(scene: Scene) -> None:
    owner = await scene.owner()
    for _ in range(3):
        await owner.feed([scene.log.add(one()), scene.log.add(one())])
        scene.log.end += 1  # the marker that ends the transaction
    first = scene.log.add(one())
    scene.log.end += 2
    await owner.feed([first, scene.log.add(one())])
    await scene.pass_by(owner, 3)
    scene.log.end += 1
    await scene.pass_by(owner, 20)
    await owner.stop()

    again = await scene.owner()
    scene.log.end += 1
    await again.feed([scene.log.add(one())])
    await scene.pass_by(again, 5)


def test_markers_between_records_are_no_gaps() -> None:
    """Live, at the end of an idle partition, and for the next owner; every record counts once."""
    scene = Scene(CountingStep())

    asyncio.run(_with_markers(scene))

    assert counted(scene) == 9


def test_an_idle_partition_that_ends_with_a_marker_is_read_to_its_end() -> None:
    """Else its watermark would stand still for as long as nothing comes."""
    scene = Scene(CountingStep())

    async def idle() -> list[bool]:
        owner = await scene.owner()
        await owner.feed([scene.log.add(one())])
        scene.log.end += 1
        await scene.pass_by(owner, 10)
        return [json.loads(record.value or b"")["idle"] for record in scene.memory.log(OUT_TOPIC).records]

    assert any(asyncio.run(idle()))


def test_a_marker_at_the_end_is_no_lag() -> None:
    """Nothing waits behind it; a record that comes then does."""
    scene = Scene(CountingStep())

    async def done_to() -> list[int]:
        owner = await scene.owner()
        await owner.feed([scene.log.add(one())])
        await owner.commit()
        found = [scene.log.end - owner.done_to]
        scene.log.end += 2
        found.append(scene.log.end - owner.done_to)
        await scene.pass_by(owner, 10)
        found.append(scene.log.end - owner.done_to)
        scene.log.add(one())
        return [*found, scene.log.end - owner.done_to]

    assert asyncio.run(done_to()) == [0, 2, 0, 1]


@pytest.mark.parametrize("lost", ["a record was left out", "retention took it"])
def test_a_record_that_is_missing_is_a_gap(lost: str) -> None:
    """Whether the client skipped it, or nobody can read it any more."""
    scene = Scene(CountingStep())

    async def fed() -> None:
        owner = await scene.owner()
        for _ in range(2):
            scene.log.add(one())
        last = scene.log.add(one())
        if lost == "retention took it":
            scene.log.begin, scene.log.records = 2, scene.log.records[2:]
        await owner.feed([last])

    with pytest.raises(ContractError, match="expected offset 0, got 1 records from 2 to 2"):
        asyncio.run(fed())


def test_a_cut_log_is_not_taken_for_markers() -> None:
    """An idle partition whose unread records retention took: neither committed as read, nor its watermark moved by the
    clock. What was folded before is committed with a snapshot."""
    scene = Scene(CountingStep())

    async def idle() -> None:
        owner = await scene.owner()
        await owner.feed([scene.log.add(one())])
        for _ in range(2):
            scene.log.add(one())
        scene.log.begin, scene.log.records = 3, []
        await scene.pass_by(owner, 10)

    with pytest.raises(PartitionError, match="the log begins at 3, but is needed from 1"):
        asyncio.run(idle())

    assert scene.memory.offset is not None
    assert scene.memory.offset.offset == 1
    assert not any(json.loads(record.value or b"")["idle"] for record in scene.memory.log(OUT_TOPIC).records)
    assert scene.snapshots[-1] == 1


def test_what_was_folded_before_a_gap_is_kept() -> None:
    """So that a reset needs nothing of the log that was lost."""
    scene = Scene(CountingStep())

    async def fed() -> None:
        owner = await scene.owner()
        await owner.feed([scene.log.add(one())])
        await owner.commit()
        await owner.feed([scene.log.add(one()), scene.log.add(one())])
        scene.log.add(one())
        last = scene.log.add(one())
        scene.log.begin, scene.log.records = 4, [last]
        await owner.feed([last])

    with pytest.raises(PartitionError, match="retention deleted those between"):
        asyncio.run(fed())

    assert counted(scene) == 3
    assert scene.snapshots == [1, 3]
