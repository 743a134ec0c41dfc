"""Runner: keeps one collector running, one life at a time, with back-off between failures.

A collector that raises is closed and made again. One that exceeds its time limit is abandoned with its thread and made
again. With ``hung_max`` hung threads the collector stays off, logs that, and starts again when one of them returns.
Nothing here blocks: ``tend`` is called once a second with the time.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from producers.agent.life import Life, Make, Surroundings
from producers.agent.schedule import HEALTHY_READINGS, RESTART
from producers.collector import Collected, Waiter
from runtime.clock import Clock
from runtime.counters import COUNTERS, Counters

_log = logging.getLogger(__name__)

State = Literal["starting", "running", "resting", "off", "stopped"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A collector to run. ``limit_ms``: the longest a call may take; ``hung_max``: threads that may hang at a time."""

    name: str
    make: Make
    limit_ms: int
    hung_max: int = 3


@dataclass(frozen=True, slots=True)
class Report:
    """State of a collector. ``why``: the last failure; None when there was none."""

    name: str
    state: State
    why: str | None
    readings: int
    restarts: int
    hung_threads: int
    interval_ms: int | None
    cost_us: int | None


class Runner:
    """Keeps one plan going. All methods belong to one thread."""

    def __init__(
        self,
        plan: Plan,
        around: Surroundings,
        *,
        chance: Callable[[], float] = random.random,
        counters: Counters = COUNTERS,
    ) -> None:
        self._plan = plan
        self._around = around
        self._chance = chance
        self._counters = counters
        self._life: Life | None = None
        self._hung: list[Life] = []
        self._failures = 0
        self._restarts = 0
        self._readings = 0
        self._start_at_s = 0.0
        self._why: str | None = None
        self._stopped = False
        self._off_logged = False

    def tend(self, now_s: float) -> None:
        """Take note of what became of the life, and begin the next one when it is time. ``now_s`` is monotonic."""
        self._hung = [life for life in self._hung if life.alive]
        life = self._life
        if life is not None and life.readings >= HEALTHY_READINGS:
            self._failures = 0
        if life is not None and not life.alive:
            self._ended(life, now_s)
        elif life is not None and life.busy_s(now_s) * 1_000 > self._plan.limit_ms:
            self._give_up(life, now_s)
        if self._life is None and not self._stopped and now_s >= self._start_at_s:
            self._begin()

    def stop(self) -> None:
        """Ask the life to end; nothing is begun any more. One that waits for something to happen is given up."""
        self._stopped = True
        if self._life is not None and self._life.waiting:
            self._life.abandon()
        elif self._life is not None:
            self._life.stop()

    def join(self, within_s: float) -> bool:
        """Wait for the life's end; False when it takes longer."""
        if self._life is not None and not self._life.abandoned:
            self._life.join(within_s)
            return not self._life.alive
        return True

    def report(self) -> Report:
        """Its state now."""
        life = self._life
        return Report(
            name=self._plan.name,
            state=self._state(),
            why=self._why,
            readings=self._readings + (life.readings if life else 0),
            restarts=self._restarts,
            hung_threads=len(self._hung),
            interval_ms=life.interval_ms if life else None,
            cost_us=life.cost_us if life else None,
        )

    def _state(self) -> State:
        if self._stopped:
            return "stopped"
        if self._life is not None:
            return "running" if self._life.readings else "starting"
        return "off" if len(self._hung) >= self._plan.hung_max else "resting"

    def _begin(self) -> None:
        if len(self._hung) >= self._plan.hung_max:
            if not self._off_logged:
                self._off_logged = True
                facts = {"collector": self._plan.name, "hung_threads": len(self._hung)}
                _log.error("collector is off: too many hung threads; it restarts when one of them returns", extra=facts)
            return
        self._off_logged = False
        self._life = Life(self._plan.name, self._plan.make, self._around)

    def _ended(self, life: Life, now_s: float) -> None:
        if life.error is None:
            self._forget(life)
            return
        why = f"{type(life.error).__name__}: {life.error}"
        facts = {"collector": self._plan.name}
        _log.warning("collector failed, restarting after back-off", extra=facts, exc_info=life.error)
        self._failed(life, why, type(life.error).__name__, now_s)

    def _give_up(self, life: Life, now_s: float) -> None:
        life.abandon()
        self._hung.append(life)
        facts = {"collector": self._plan.name, "limit_ms": self._plan.limit_ms, "hung_threads": len(self._hung)}
        _log.error("collector hung: thread abandoned", extra=facts)
        self._failed(life, f"hung for more than {self._plan.limit_ms} ms", "hung", now_s)

    def _failed(self, life: Life, why: str, error: str, now_s: float) -> None:
        self._counters.add("errors", where=f"collector-{self._plan.name}", error=error)
        self._failures += 1
        self._restarts += 1
        self._why = why
        self._start_at_s = now_s + RESTART.pause_s(self._failures, self._chance())
        self._forget(life)

    def _forget(self, life: Life) -> None:
        self._readings += life.readings
        self._life = None


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
