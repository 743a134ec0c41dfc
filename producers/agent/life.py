"""One life of a collector: a daemon thread that makes it, waits for ticks, reads, and hands over the rows.

The thread publishes its state in plain attributes; the runner polls them and never interrupts it. A hung life is
abandoned: its later readings are dropped, and its thread ends when the call returns.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from producers.agent.publishing import Parcel, packed
from producers.agent.schedule import Pace, PaceRule, next_tick_ms, paced
from producers.collector import Collected, Collector, SpendsElsewhere, Waiter
from runtime.clock import Clock

_log = logging.getLogger(__name__)

Give = Callable[[Parcel], None]
Make = Callable[[], Collector | Waiter]
WAIT_S = 5.0
"""Longest time in one call of a waiter."""
BEHIND_MS = 15
"""Behind the tick, when what begins on it and works in threads of its own is usually done: who reads then finds the
interpreter in the caches."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Dependencies of every life. ``cpu_s`` returns the calling thread's processor time."""

    clock: Clock
    give: Give
    meter: CostMeter
    pace_rule: PaceRule
    cpu_s: Callable[[], float] = time.thread_time
    seen: Callable[[Sequence[Collected]], None] = lambda _collected: None
    """Is shown every reading, in the thread that read it."""


class _Stop:
    """Set once, waited for by one thread: a lock that is held until then. Waiting for it every second costs a small
    part of waiting for a ``threading.Event``."""

    def __init__(self) -> None:
        self.is_set = False
        self._lock = threading.Lock()
        self._setting = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """From any thread, as often as wanted."""
        with self._setting:
            if not self.is_set:
                self.is_set = True
                self._lock.release()

    def wait(self, within_s: float) -> bool:
        """Whether it is set, by then."""
        if not self.is_set and self._lock.acquire(timeout=within_s):
            self._lock.release()
        return self.is_set


class Life:
    """Starts at once. ``readings`` counts the good ones; ``error`` is why it ended, None while it lives or stopped.
    ``waiting``: for something to happen; it notices the end only when it does, or the wait is over."""

    def __init__(self, name: str, make: Make, around: Surroundings) -> None:
        self.name = name
        self.readings = 0
        self.cost_us: int | None = None
        self.interval_ms: int | None = None
        self.error: BaseException | None = None
        self.abandoned = False
        self.waiting = False
        self._make = make
        self._around = around
        self._busy_since_s: float | None = around.clock.monotonic_s()
        self._stop = _Stop()
        self._thread = threading.Thread(target=self._run, name=f"collector-{name}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether its thread still runs."""
        return self._thread.is_alive()

    def busy_s(self, now_s: float) -> float:
        """Seconds since the call it is in began; 0 while it waits for its tick."""
        since_s = self._busy_since_s
        return 0.0 if since_s is None else now_s - since_s

    def stop(self) -> None:
        """Ask it to end after what it is doing."""
        self._stop.set()

    def abandon(self) -> None:
        """Give it up: whatever it still reads is thrown away."""
        self.abandoned = True
        self._stop.set()

    def join(self, within_s: float) -> None:
        """Wait for the end of its thread, no longer than that."""
        self._thread.join(within_s)

    def _run(self) -> None:
        collector: Collector | Waiter | None = None
        try:
            collector = self._make()
            if isinstance(collector, Waiter):
                self._watch(collector)
            else:
                self._rounds(collector)
        except Exception as error:
            self.error = error
        finally:
            if collector is not None:
                with contextlib.suppress(Exception):  # it is thrown away, whatever closing it says
                    collector.close()
            self._busy_since_s = None

    def _rounds(self, collector: Collector) -> None:
        pace = Pace(collector.period_ms)
        elsewhere = collector if isinstance(collector, SpendsElsewhere) else None
        behind_ms = BEHIND_MS if elsewhere is None else 0
        while self._tick_comes(pace.interval_ms, behind_ms):
            cost_us = self._spend(lambda: collector.collect(self._around.clock.now_ms()), elsewhere)
            if collector.period_ms != pace.period_ms:  # a collector that found nothing to read may rest longer
                pace = Pace(collector.period_ms)
            faster = pace
            # The first reading finds out what there is to read: its cost says nothing of those to come.
            pace = paced(self._around.pace_rule, pace, cost_us) if self.readings > 1 else pace
            if pace.interval_ms != faster.interval_ms:
                facts = {"collector": self.name, "interval_ms": pace.interval_ms, "cost_us": cost_us}
                _log.warning("collector interval changed with its cost", extra=facts)

    def _tick_comes(self, interval_ms: int, behind_ms: int) -> bool:
        """Wait for the next tick; False when stopped before."""
        clock = self._around.clock
        self._busy_since_s, self.interval_ms = None, interval_ms
        tick_ms = next_tick_ms(clock.now_ms() - behind_ms, interval_ms) + behind_ms
        while (left_ms := tick_ms - clock.now_ms()) > 0:
            if left_ms > interval_ms:  # the clock was set back
                tick_ms = next_tick_ms(clock.now_ms() - behind_ms, interval_ms) + behind_ms
                continue
            if self._stop.wait(left_ms / 1_000):
                return False
        return not self._stop.is_set

    def _watch(self, waiter: Waiter) -> None:
        def wait() -> Sequence[Collected]:
            self.waiting = True
            try:
                return waiter.wait(WAIT_S)
            finally:
                self.waiting = False

        while not self._stop.is_set:
            self._spend(wait, None)

    def _spend(self, collect: Callable[[], Sequence[Collected]], elsewhere: SpendsElsewhere | None) -> int:
        """Collect once and hand it over; the processor time it took, in microseconds."""
        around = self._around
        self._busy_since_s = around.clock.monotonic_s()
        begun_s = around.cpu_s()
        collected = collect()
        parcel = packed(collected)
        spent_s = around.cpu_s() - begun_s + (elsewhere.cpu_s() if elsewhere else 0.0)
        cost_us = round(spent_s * 1_000_000)
        if not self.abandoned:
            around.meter.add(cost_us)
            if parcel.batches or parcel.unfit:
                around.give(parcel)
                around.seen(collected)
            self.cost_us = cost_us
            self.readings += 1
        return cost_us


class CostMeter:
    """Adds up from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._us: int | None = None

    def add(self, us: int) -> None:
        """Count one reading's processor time."""
        with self._lock:
            self._us = (self._us or 0) + us

    def take(self) -> int | None:
        """What was added since the last call; None when nothing was."""
        with self._lock:
            us, self._us = self._us, None
        return us
