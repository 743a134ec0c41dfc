"""How soon a partition commits what a step wants told at once."""

from __future__ import annotations

import asyncio

import pytest

from schemas.limits import DEFAULT_LIMITS
from stream_jobs.finals.forward import Forwarding, ForwardStep, Waiting
from stream_jobs.runner.policy import PROMPT_POLICY
from tests.unit.stream_jobs.runner.memory_broker import Scene
from tests.unit.stream_jobs.runner.test_idle import gpu_event


class Large(ForwardStep):
    """Its state is of so many bytes, and goes with every commit that tells something."""

    snapshot_with_outputs = True

    def __init__(self, size: int) -> None:
        super().__init__(DEFAULT_LIMITS)
        self._size = size

    def dump(self, state: Forwarding) -> list[bytes]:
        return [bytes(self._size)]


class Patient(ForwardStep):
    """Never asks for a commit."""

    def due(self, state: Forwarding, changes: Waiting) -> bool:
        return False


def test_who_took_over_commits_what_it_folds_first_at_once_and_then_by_the_interval() -> None:
    """An owner who dies before the interval has passed, again and again, gets on all the same."""
    scene = Scene(Patient(DEFAULT_LIMITS), "gpu.events")
    assert PROMPT_POLICY.interval_ms == 5_000

    async def wanted() -> list[bool]:
        found = []
        for _ in range(3):
            scene.log.add(gpu_event())
            owner = await scene.owner()
            found.append(owner.wants_commit())
            await owner.commit()
        for later_s in (0.0, 4.9, 0.2):
            scene.clock.now_s += later_s
            await owner.feed([scene.log.add(gpu_event())])
            found.append(owner.wants_commit())
        return found

    assert asyncio.run(wanted()) == [True, True, True, False, False, True]


@pytest.mark.parametrize(("mebibytes", "waits_s"), [(0, 0.05), (4, 0.125), (8, 0.25)])
def test_what_is_urgent_goes_at_once_but_for_what_the_last_commit_cost(mebibytes: int, waits_s: float) -> None:
    """The first event never waits; those that follow gather for as long as their snapshot takes at 32 MiB a second."""
    assert PROMPT_POLICY.commit_bytes_per_s == 32 << 20
    scene = Scene(Large(mebibytes << 20), "gpu.events")

    async def told() -> list[bool]:
        owner, wanted = await scene.owner(), []
        scene.clock.now_s += 0.06
        await owner.feed([scene.log.add(gpu_event())])
        wanted.append(owner.wants_commit())
        await owner.commit()
        await owner.feed([scene.log.add(gpu_event())])
        for later_s in (waits_s - 0.01, 0.02):
            scene.clock.now_s += later_s
            wanted.append(owner.wants_commit())
        return wanted

    assert asyncio.run(told()) == [True, False, True]
