"""The wall clock of a worker, never ahead of the brokers' as far as these are known.

An idle partition's watermark moves by its owner's clock. A worker whose clock is ahead would close windows of all
others before their events have come, and readers keep the greatest watermark for ever. The brokers' clock is at least
the append time of the newest record fetched, and the time that has passed since.

Not bounded is a worker that has fetched none since it began: nothing else tells the brokers' time. What jobs write has
their own time, and so have its acknowledgements; a record that was there before may be days old, and a clock bounded by
it would hold up the windows of all others for as long.
"""

from __future__ import annotations

from runtime.clock import Clock


class BrokerClock:
    """``clock`` bounded by what was seen; as it is before any record was. A ``Clock`` itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms: float | None = None

    def seen(self, appended_ms: int) -> None:
        """A record with this LogAppendTime was fetched."""
        offset_ms = self._clock.monotonic_s() * 1_000 - appended_ms
        self._offset_ms = offset_ms if self._offset_ms is None else min(self._offset_ms, offset_ms)

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        now_ms = self._clock.now_ms()
        if self._offset_ms is None:
            return now_ms
        return min(now_ms, int(self._clock.monotonic_s() * 1_000 - self._offset_ms))

    def monotonic_s(self) -> float:
        """Seconds of a clock that only goes forward."""
        return self._clock.monotonic_s()
