"""How far this machine's clock is from the broker's, from acknowledgements: source topics have LogAppendTime.

The broker stamped a batch after it was sent and before it was acknowledged, so the difference of the clocks lies in an
interval as wide as that took. As in NTP's clock filter (RFC 5905, section 10), of the last eight the quickest counts;
and of its interval the value nearest to 0, so that a slow broker or network never looks like a clock that is off.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import NamedTuple

from runtime.clock import Clock
from runtime.counters import Counters
from runtime.runbook import Cause
from schemas.contract.headers import CLOCK_SKEW

_log = logging.getLogger(__name__)

OFF_MS = 1_000
"""A clock that is off by more is logged, and said in the headers of records."""
_SAMPLES = 8


class Sent(NamedTuple):
    """When a batch was sent: by the clock in question, and by one that only goes forward."""

    at_ms: int
    at_s: float


class _Sample(NamedTuple):
    took_ms: float
    low_ms: int
    high_ms: int


class ClockSkew:
    """Of the clock given; ``ms`` ahead of the broker's, below 0 behind it, None before the first acknowledgement."""

    def __init__(self, clock: Clock, counters: Counters) -> None:
        self._clock = clock
        self._counters = counters
        self._samples: deque[_Sample] = deque(maxlen=_SAMPLES)
        self._off = False
        self.ms: int | None = None

    def broker_ms(self) -> int:
        """The broker's time as far as it is known: before the first acknowledgement that of the clock."""
        return self._clock.now_ms() - (self.ms or 0)

    def sent(self) -> Sent:
        """Take the time just before a batch is sent."""
        return Sent(self._clock.now_ms(), self._clock.monotonic_s())

    def acknowledged(self, sent: Sent, appended_ms: int | None) -> None:
        """A batch was acknowledged now, with this append time; None: the broker gave none."""
        if appended_ms is None or appended_ms < 0:
            return
        took_ms = 1_000 * (self._clock.monotonic_s() - sent.at_s)
        low_ms = sent.at_ms - appended_ms - 1  # whole milliseconds: each is up to one more
        self._samples.append(_Sample(took_ms, low_ms, low_ms + int(took_ms) + 3))
        best = min(self._samples)
        self.ms = max(best.low_ms, min(best.high_ms, 0))
        self._counters.set("edge_clock_skew_ms", self.ms)
        self._report(self.ms)

    def _report(self, skew_ms: int) -> None:
        off = abs(skew_ms) > OFF_MS
        if off and not self._off:
            _log.warning("clock differs from the one of the brokers", extra={"skew_ms": skew_ms, "cause": Cause.CLOCK})
        elif self._off and not off:
            _log.info("clock agrees with the one of the brokers again", extra={"skew_ms": skew_ms})
        self._off = off

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """What records say of it; nothing while the clock is right or not known."""
        return ((CLOCK_SKEW, b"%d" % self.ms),) if self.ms is not None and self._off else ()
