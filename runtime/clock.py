"""Time as an argument: what shells pass to pure cores, and what tests and back-tests turn by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for stamps, monotonic time for durations. Never compare one with the other."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC; may jump when the machine's clock is set."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
