"""The simulated fleet in real time: step by step, published when the step's last moment has come.

A step is computed while its own second still passes (in a thread, so that sending goes on), written to the truth, and
sent as soon as its end has come: no event is newer than the moment it is sent. When sending cannot keep up, steps
wait; none is left out, and ``Report.behind_ms`` says how far the fleet trails the clock.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from producers.fleet.fleet import STEP_MS, Fleet, Step
from producers.fleet.plan import FleetPlan
from producers.fleet.truth_file import TruthWriter
from runtime.clock import Clock
from schemas.block import Block


class Publishes(Protocol):
    """What the fleet needs of a publisher: take one record's events; returns when they are spooled."""

    async def put(self, topic: str, key: bytes, batch: Block, *, wait: bool = False) -> bool: ...


@dataclass(slots=True)
class Report:
    """What was sent so far; ``behind_ms`` is how long after its end the last step was wholly sent."""

    steps: int = 0
    records: int = 0
    events: dict[str, int] = field(default_factory=dict)
    from_ms: int = 0
    to_ms: int = 0
    behind_ms: int = 0


async def simulate(
    plan: FleetPlan,
    seed: int,
    publisher: Publishes,
    clock: Clock,
    stop: asyncio.Event,
    *,
    seconds: float | None = None,
    truth: TruthWriter | None = None,
    report: Report | None = None,
) -> Report:
    """Run the fleet from now on, for ``seconds`` (None: until ``stop``), and return what was sent.

    A step that has begun to be sent is sent whole, also after ``stop``.
    """
    report = report or Report()
    begin_ms = -(-clock.now_ms() // STEP_MS) * STEP_MS
    end_ms = begin_ms + int(seconds * 1_000) if seconds is not None else 2**53
    report.from_ms = report.to_ms = begin_ms
    steps = Fleet(plan, seed).steps(begin_ms, end_ms)
    while (step := await asyncio.to_thread(next, steps, None)) is not None:
        if not await _sleep_until(step.to_ms, clock, stop):
            break
        if truth is not None:
            await asyncio.to_thread(truth.append, step)
        await _send(step, publisher, report)
        report.behind_ms = max(0, clock.now_ms() - step.to_ms)
    return report


async def _sleep_until(at_ms: int, clock: Clock, stop: asyncio.Event) -> bool:
    """True when the time has come, False when ``stop`` was set before."""
    while not stop.is_set():
        left_ms = at_ms - clock.now_ms()
        if left_ms <= 0:
            return True
        try:
            await asyncio.wait_for(stop.wait(), left_ms / 1_000)
        except TimeoutError:
            continue
    return False


async def _send(step: Step, publisher: Publishes, report: Report) -> None:
    for emission in step.emissions():
        await publisher.put(emission.topic, emission.key, emission.block, wait=True)
        report.records += 1
        report.events[emission.topic] = report.events.get(emission.topic, 0) + emission.block.rows
    report.steps += 1
    report.to_ms = step.to_ms
