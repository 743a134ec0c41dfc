"""Telemetry that comes late: now and then what a host sends is delayed, for seconds, minutes or hours. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lab.simulator.wide import Wide, select
from schemas.limits import MINUTE_MS, SECOND_MS

HELD_SHARE = 0.01
"""Of all batches of requests, GPU readings and processes of a host."""
TOPICS = ("llm.requests", "gpu.samples", "gpu.processes")


@dataclass(frozen=True, slots=True)
class Delay:
    """How long a delayed batch waits, evenly between two bounds, and how many in a thousand wait so."""

    per_mille: int
    low_ms: int
    high_ms: int


DELAYS = (
    Delay(600, 3 * SECOND_MS, MINUTE_MS),
    Delay(300, MINUTE_MS, 14 * MINUTE_MS),
    Delay(80, 16 * MINUTE_MS, 24 * MINUTE_MS),
    Delay(20, 30 * MINUTE_MS, 120 * MINUTE_MS),
)
"""Within the window's lateness; before a minute is final; while a final minute is hot; after that."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """How much of what hosts send comes late, and how late. ``delays`` add up to a thousand."""

    share: float = HELD_SHARE
    delays: tuple[Delay, ...] = DELAYS


USUAL = Lateness()


@dataclass(slots=True)
class Delayed:
    """Holds batches back and lets them go. ``delayed`` counts those that came late so far."""

    random: np.random.Generator
    lateness: Lateness = USUAL
    delayed: int = 0
    _waiting: list[tuple[int, Wide]] = field(default_factory=list)

    def pass_on(self, wides: Sequence[Wide], now_ms: int) -> list[Wide]:
        """What gets through now: what is due of what was delayed, then of these batches those that are not delayed."""
        due = [wide for at_ms, wide in self._waiting if at_ms <= now_ms]
        self._waiting = [(at_ms, wide) for at_ms, wide in self._waiting if at_ms > now_ms]
        return due + [kept for wide in wides if (kept := self._kept(wide, now_ms)).rows]

    def rest(self) -> list[Wide]:
        """All that still waits, at the end."""
        waiting, self._waiting = self._waiting, []
        return [wide for _, wide in waiting]

    def _kept(self, wide: Wide, now_ms: int) -> Wide:
        hosts = len(wide.ends)
        if wide.topic not in TOPICS or hosts == 0:
            return wide
        late = self.random.random(hosts) < self.lateness.share
        if not late.any():
            return wide
        rows = np.repeat(late, np.diff(wide.ends, prepend=0))
        delayed = select(wide, rows)
        if delayed.rows:
            self.delayed += 1
            self._waiting.append((now_ms + self._delay_ms(), delayed))
        return select(wide, ~rows)

    def _delay_ms(self) -> int:
        delays = self.lateness.delays
        delay = delays[int(self.random.choice(len(delays), p=[one.per_mille / 1_000 for one in delays]))]
        return int(self.random.integers(delay.low_ms, delay.high_ms))
