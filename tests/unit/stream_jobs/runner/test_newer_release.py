"""What a newer release wrote is not rejected: its reader ends and waits for the upgrade."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from schemas.contract.record import Record
from schemas.errors import NewerReleaseError
from tests.simulator.counting import OUT_TOPIC, POISON, Changes, CountingStep, State, encode
from tests.unit.stream_jobs.runner.memory_broker import BEGAN_MS, Scene


class Older(CountingStep):
    """Knows some of the records alone."""

    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        if any(record.key == b"newer" for record in records):
            raise NewerReleaseError("written by a newer release")
        super().fold(state, records, changes)


def a_record(seq: int, key: bytes | None = None, value: bytes | None = None) -> Record:
    text, headers = encode("k", 1, "edge", 0, seq, (0, 0))
    return Record("source", 0, seq, BEGAN_MS - 500, key, value or text, headers)


@pytest.mark.parametrize("error", [NewerReleaseError("run the newer one"), MemoryError()], ids=["newer", "memory"])
def test_a_snapshot_that_needs_another_process_ends_this_one(error: Exception) -> None:
    """It is not damaged: a reset would throw it away."""
    scene = Scene(CountingStep())
    scene.log.add(a_record(0))

    class Unable(CountingStep):
        def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State:
            raise error

    async def committed() -> None:
        await (await scene.owner()).commit()

    asyncio.run(committed())

    with pytest.raises(type(error)):
        asyncio.run(scene.owner(Unable()))


@pytest.mark.parametrize("first", [None, POISON], ids=["alone", "while a record before it is isolated"])
def test_the_owner_ends_and_the_next_release_goes_on(first: bytes | None) -> None:
    """Nothing of the record is committed or rejected; whoever can read it finds it where it stands."""
    scene = Scene(Older())
    for record in (a_record(0, value=first), a_record(1, key=b"newer"), a_record(2)):
        scene.log.add(record)

    async def upgraded() -> None:
        await (await scene.owner(CountingStep())).commit()

    with pytest.raises(NewerReleaseError):
        asyncio.run(scene.owner())
    asyncio.run(upgraded())

    outputs = [json.loads(record.value or b"") for record in scene.memory.log(OUT_TOPIC).records]
    assert sum(output["accepted"] for output in outputs) == 2 + (first is None)
    assert sum(output["rejected"] for output in outputs) == (first is not None)
