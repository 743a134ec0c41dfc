"""A takeover makes progress, however far the snapshot lies behind the committed offset."""

from __future__ import annotations

import asyncio
import gc
import json
import random

import pytest

from schemas.contract.record import Output
from stream_jobs.runner.policy import CommitPolicy
from tests.simulator.counting import OUT_TOPIC
from tests.simulator.loop import VirtualLoop
from tests.simulator.schedule import SOURCE, Rules, World

RECORDS = 1_500
"""Of each partition. Reading them takes the simulated cluster four times the limit."""
POLICY = CommitPolicy(
    acquire_limit_ms=500,
    interval_ms=500,
    fetch_linger_ms=0,
    fetch_wait_ms=20,
    snapshot_interval_ms=10**9,
    snapshot_records=10**9,
)
LIVES_MS = 4 * (POLICY.acquire_limit_ms + 4_000)
"""In this time four owners would have died of a limit on the whole, and been started again."""


class Behind(World):
    """A worker that wrote a snapshot at its first commit alone dies, and another takes over."""

    shell = "bare"

    def _shell(self) -> str:
        return self.shell

    def _policy(self) -> CommitPolicy:
        return POLICY

    async def run(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.server.now_ms = lambda: int(loop.time() * 1_000)
        self.faults.rate = self.faults.slow_rate = 0.0
        self._make()
        del self.workers[1:]
        background = [loop.create_task(self._markers()), loop.create_task(self._supervise())]
        try:
            self._append(RECORDS)
            await self._until_committed(RECORDS, 600_000)
            self.workers[0].kill()
            gc.collect()  # what was killed is thrown away in every run, not where the collector happens to come
            self._append(10)
            await self._until_committed(RECORDS + 10, LIVES_MS)
            self.outcome.ends.update(repr(error) for worker in self.workers for error in worker.ended_by)
        finally:
            for task in background:
                task.cancel()
            for worker in self.workers:
                worker.kill()

    def _append(self, records: int) -> None:
        for place in self.places:
            for _ in range(records):
                self.server.append(place, Output(SOURCE, place.partition, None, b"k=1", ()))

    async def _until_committed(self, offset: int, within_ms: int) -> None:
        ends_s = self.loop.time() + within_ms / 1_000
        while self.loop.time() < ends_s:
            await asyncio.sleep(0.5)
            found = [one.offset for one in self.server.group_offsets.values()]
            if found == [offset] * len(self.places) and not self.server.markers():
                return
        self.outcome.violations.append(f"committed {found} instead of {offset}")


@pytest.mark.parametrize("shell", ["bare", "threaded"])
def test_what_is_folded_again_has_no_limit_on_the_whole(shell: str) -> None:
    """The partition is live at once, and its offset moves in the first life; every record counts once."""
    draw = random.Random(1)
    loop = VirtualLoop(draw, 5_000_000)
    world = Behind(1, draw, Rules())
    world.shell = shell
    try:
        loop.run_until_complete(world.run(loop))
    finally:
        loop.dispose()

    told = [json.loads(record.value or b"") for record in world._told(world.outputs[0])]
    assert world.outcome.violations == []
    assert not world.outcome.ends
    assert world.outputs[0].topic == OUT_TOPIC
    assert sum(each["sums"].get("k", 0) for each in told) == 2 * (RECORDS + 10)
