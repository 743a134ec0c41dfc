"""Collectors for tests: each does one thing well, or badly."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence

from producers.agent.life import CostMeter, Surroundings
from producers.agent.publishing import Parcel
from producers.agent.schedule import PaceRule
from producers.collector import Collected
from schemas.events.event_types import HOST_SAMPLES

PATIENCE_S = 20.0


class QuickClock:
    """Wall time moves by a millisecond at each call; monotonic time moves when set."""

    def __init__(self) -> None:
        self._ms = itertools.count(1_000_000)
        self.s = 0.0

    def now_ms(self) -> int:
        return next(self._ms)

    def monotonic_s(self) -> float:
        return self.s


class Plain:
    """Records each reading in ``read`` and the end in ``closed``; ``act`` is what a reading does."""

    name = "plain"
    period_ms = 1

    def __init__(self, act: Callable[[int], None] = lambda _number: None) -> None:
        self.act = act
        self.readings = 0
        self.read = threading.Semaphore(0)
        self.closed = threading.Event()

    def collect(self, at_ms: int) -> Sequence[Collected]:
        self.readings += 1
        self.act(self.readings)
        self.read.release()
        return [Collected(HOST_SAMPLES, [{"at_ms": at_ms, "host": "h", "origin": "measured"}])]

    def close(self) -> None:
        self.closed.set()


class Given:
    """Keeps parcels; ``wait`` until there are as many."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []
        self._came = threading.Semaphore(0)

    def __call__(self, parcel: Parcel) -> None:
        self.parcels.append(parcel)
        self._came.release()

    def wait(self, parcels: int) -> None:
        for _ in range(parcels):
            assert self._came.acquire(timeout=PATIENCE_S)


def surroundings(
    given: Given, clock: QuickClock | None = None, cpu_s: Callable[[], float] | None = None
) -> Surroundings:
    """Surroundings in which readings cost nothing by default."""
    return Surroundings(clock or QuickClock(), given, CostMeter(), PaceRule(), cpu_s or (lambda: 0.0))
