"""The simulated fleet in real time: step by step, published when the step's last moment has come.

A step is computed in a thread while its own second still passes, written to the truth, and sent as soon as its end has
come. When sending cannot keep up, steps wait; none is left out, and ``Report.behind_ms`` says how far behind it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from lab.simulator.fleet import RECORD_ROWS_MAX, STEP_MS, Fleet, Step
from lab.simulator.plan import FleetPlan, large_plan
from lab.simulator.truth_file import TruthWriter
from lab.simulator.wide import Wide
from lab.simulator.wide_native import WideEncoder
from producers.batch import Batch
from runtime.clock import Clock
from schemas.contract.headers import NATIVE
from schemas.events.event_types import BY_TOPIC


class Publishes(Protocol):
    """What the fleet needs of a publisher: take one record's events; returns when they are spooled."""

    async def put(self, topic: str, key: bytes, batch: Batch, *, wait: bool = False) -> bool: ...


@dataclass(slots=True)
class Report:
    """What was sent so far; ``behind_ms`` is how long after its end the last step was wholly sent."""

    steps: int = 0
    records: int = 0
    events: dict[str, int] = field(default_factory=dict)
    from_ms: int = 0
    to_ms: int = 0
    behind_ms: int = 0


def warm_up() -> None:
    """Load the compiled parts (on the first start ever: compile them, some 15 s), so that the first step is punctual.

    Call it before ``next_begin_ms``; ``simulate`` does so where it is given no begin.
    """
    encoder = WideEncoder()
    for step in Fleet(large_plan(1), 0).steps(0, 2 * STEP_MS):
        for wide in step.wides:
            encoder.encode(wide, RECORD_ROWS_MAX)


def next_begin_ms(clock: Clock) -> int:
    """The next whole step from now on."""
    return -(-clock.now_ms() // STEP_MS) * STEP_MS


async def simulate(
    plan: FleetPlan,
    seed: int,
    publisher: Publishes,
    clock: Clock,
    stop: asyncio.Event,
    *,
    begin_ms: int | None = None,
    seconds: float | None = None,
    truth: TruthWriter | None = None,
    report: Report | None = None,
) -> Report:
    """Run the fleet from ``begin_ms`` (None: ``next_begin_ms``) for ``seconds`` (None: until ``stop``).

    Returns what was sent. A step that has begun to be sent is sent whole, also after ``stop``.
    """
    report = report or Report()
    if begin_ms is None:
        await asyncio.to_thread(warm_up)
        begin_ms = next_begin_ms(clock)
    end_ms = begin_ms + int(seconds * 1_000) if seconds is not None else 2**53
    report.from_ms = report.to_ms = begin_ms
    prepared = _prepare(Fleet(plan, seed).steps(begin_ms, end_ms))
    while (ready := await asyncio.to_thread(next, prepared, None)) is not None:
        if not await _sleep_until(ready.step.to_ms, clock, stop):
            break
        if truth is not None:
            await asyncio.to_thread(truth.append, ready.step)
        await _send(ready, publisher, report)
        report.behind_ms = max(0, clock.now_ms() - ready.step.to_ms)
    return report


@dataclass(frozen=True, slots=True)
class _Ready:
    """A step and its records, encoded, in the order of sending."""

    step: Step
    batches: list[Batch]


def _prepare(steps: Iterator[Step]) -> Iterator[_Ready]:
    encoder = WideEncoder()
    for step in steps:
        yield _Ready(step, [batch for wide in step.wides for batch in _batches(encoder, wide, step.hosts)])


def _batches(encoder: WideEncoder, wide: Wide, hosts: tuple[str, ...]) -> Iterator[Batch]:
    schema = BY_TOPIC[wide.topic].schema
    for value in encoder.encode(wide, RECORD_ROWS_MAX):
        yield Batch(wide.topic, schema, NATIVE, hosts[value.host].encode(), value.rows, value.value)


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


async def _send(ready: _Ready, publisher: Publishes, report: Report) -> None:
    for batch in ready.batches:
        await publisher.put(batch.topic, batch.key, batch, wait=True)
        report.records += 1
        report.events[batch.topic] = report.events.get(batch.topic, 0) + batch.count
    report.steps += 1
    report.to_ms = ready.step.to_ms
