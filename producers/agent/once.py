"""One round of every collector, for people: nothing is published, nothing is kept."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from producers.agent.runner import Plan
from producers.collector import Collected, Waiter
from runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Round:
    """What one collector gave, or why it gave nothing."""

    name: str
    collected: Sequence[Collected]
    why: str | None = None


def one_round(plans: Sequence[Plan], clock: Clock, gap_s: float) -> list[Round]:
    """A round of each, side by side, in the order of the plans.

    Each reads twice, ``gap_s`` apart, and the second reading counts: differences need one before.
    """
    done: dict[str, Round] = {}

    def work(plan: Plan) -> None:
        try:
            done[plan.name] = Round(plan.name, _read(plan, clock, gap_s))
        except Exception as error:
            done[plan.name] = Round(plan.name, (), f"{type(error).__name__}: {error}")

    threads = [(plan, threading.Thread(target=work, args=(plan,), daemon=True)) for plan in plans]
    for _, thread in threads:
        thread.start()
    begun_s = time.monotonic()
    for plan, thread in threads:
        thread.join(max(0.0, begun_s + gap_s + 2 * plan.limit_ms / 1_000 - time.monotonic()))
    late = {plan.name: Round(plan.name, (), f"hung for more than {plan.limit_ms} ms") for plan in plans}
    return [done.get(plan.name, late[plan.name]) for plan in plans]


def _read(plan: Plan, clock: Clock, gap_s: float) -> Sequence[Collected]:
    collector = plan.make()
    try:
        if isinstance(collector, Waiter):
            return collector.wait(gap_s)
        collector.collect(clock.now_ms())
        time.sleep(gap_s)
        return collector.collect(clock.now_ms())
    finally:
        with contextlib.suppress(Exception):  # it is thrown away, whatever closing it says
            collector.close()
