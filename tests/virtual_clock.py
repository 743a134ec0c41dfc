"""A clock that tests turn by hand: ``runtime.clock.Clock``."""

from __future__ import annotations


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
