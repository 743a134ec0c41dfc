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


class VirtualClock:
    """A clock that moves only when it is set."""

    __slots__ = ("_elapsed_ms", "_now_ms")

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._elapsed_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._elapsed_ms / 1_000

    def advance(self, by_ms: int) -> None:
        """Let ``by_ms`` pass (0 or more)."""
        if by_ms < 0:
            raise ValueError(f"time does not go back: by_ms = {by_ms}")
        self._now_ms += by_ms
        self._elapsed_ms += by_ms

    def set(self, now_ms: int) -> None:
        """Set the wall clock, forwards or back, as an administrator would; monotonic time does not move."""
        self._now_ms = now_ms
