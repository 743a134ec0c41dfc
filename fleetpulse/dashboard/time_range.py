"""Which stretch of time is looked at, as people write it in a link, and how finely it is shown. No clock in here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS

SPAN_MIN_MS = 10_000
SPAN_MAX_MS = 400 * DAY_MS
"""Rollups are kept for so long; a longer range would be empty at its beginning."""
POINTS_MAX = 240
"""More points than this over the width of a chart cannot be distinguished."""
PRESETS = ("15m", "1h", "6h", "24h", "7d", "30d")
DEFAULT = "1h"

_UNIT_MS = {"s": 1_000, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_LAST = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_MOMENT_MAX_MS = 253_402_128_000_000
"""A day before the last of the year 9999: no zone shows it as the year 10000, which calendars do not have."""
_STEPS_MS = tuple(1_000 * seconds for seconds in (10, 20, 30)) + tuple(
    MINUTE_MS * minutes for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 7_200)
)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """[from_ms, to_ms), UTC."""

    from_ms: int
    to_ms: int

    @property
    def span_ms(self) -> int:
        """How long it is."""
        return self.to_ms - self.from_ms

    def end(self, span_ms: int) -> TimeRange:
        """Its last so long."""
        return TimeRange(max(self.from_ms, self.to_ms - span_ms), self.to_ms)

    def until(self, at_ms: int) -> TimeRange:
        """What of it is before ``at_ms``; nothing where it begins later."""
        return TimeRange(self.from_ms, max(self.from_ms, min(self.to_ms, at_ms)))

    def since(self, at_ms: int | None) -> TimeRange:
        """What of it is not before the minute of ``at_ms``: bills are of whole minutes. At least its last window, all
        of it for None."""
        if at_ms is None or at_ms <= self.from_ms:
            return self
        minute_ms = at_ms // MINUTE_MS * MINUTE_MS
        return TimeRange(max(self.from_ms, min(minute_ms, self.to_ms - SPAN_MIN_MS)), self.to_ms)

    def counted_s(self, at_ms: int, width_ms: int, row_ms: int = SPAN_MIN_MS) -> float:
        """Seconds of the rows of ``row_ms``, windows of 10 s or others, that begin both in a point of a chart and in
        the range: what its counts are of, less than the whole width at the ends. At least one row."""
        first, over = max(self.from_ms, at_ms), min(self.to_ms, at_ms + width_ms)
        rows = -(-over // row_ms) - -(-first // row_ms)
        return max(1, rows) * row_ms / 1_000

    @property
    def minutes(self) -> TimeRange:
        """Both ends up to whole minutes, as view ``gpu_coverage`` takes a range: it moves on once a minute."""
        return TimeRange(*(-(-at_ms // MINUTE_MS) * MINUTE_MS for at_ms in (self.from_ms, self.to_ms)))

    @property
    def bucket_ms(self) -> int:
        """Width of a point of a chart: a round step that gives at most ``POINTS_MAX`` points."""
        return next((step for step in _STEPS_MS if step * POINTS_MAX >= self.span_ms), _STEPS_MS[-1])


@dataclass(frozen=True, slots=True)
class RangeSpec:
    """A range as a link names it: the last so long (``last`` such as ``1h``), or fixed ends."""

    last: str | None = DEFAULT
    from_ms: int = 0
    to_ms: int = 0

    def at(self, now_ms: int) -> TimeRange:
        """The range at this moment. The end of a moving one is rounded up to a window of 10 s."""
        if self.last is None:
            return TimeRange(self.from_ms, self.to_ms)
        to_ms = window_over_ms(now_ms)
        return TimeRange(to_ms - last_ms(self.last), to_ms)


def window_over_ms(now_ms: int) -> int:
    """Where the window of 10 s ends that this moment is in: what is queried up to there has one answer in all of it."""
    return -(-now_ms // SPAN_MIN_MS) * SPAN_MIN_MS


def last_ms(text: str) -> int:
    """Milliseconds of ``15m``, ``2h`` or ``7d``; raises ``ValueError`` for anything else and beyond the bounds."""
    found = _LAST.fullmatch(text)
    if found is None:
        raise ValueError("must be a whole number with a unit, such as 15m, 2h or 7d")
    span_ms = int(found[1]) * _UNIT_MS[found[2]]
    if not SPAN_MIN_MS <= span_ms <= SPAN_MAX_MS:
        raise ValueError("must be between 10s and 400d")
    return span_ms


def moment_ms(text: str) -> int:
    """Milliseconds of a moment: digits are milliseconds, anything else an ISO 8601 time (UTC unless it says another).

    Raises ``ValueError``.
    """
    if text.isascii() and text.isdigit() and len(text) <= 15:
        at_ms = int(text)
    else:
        moment = datetime.fromisoformat(text[:40])
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        at_ms = round(moment.timestamp() * 1_000)
    return _checked(at_ms)


def fixed(from_ms: int, to_ms: int) -> RangeSpec:
    """A range with fixed ends; raises ``ValueError`` when they are the wrong way round or too far apart."""
    if to_ms <= from_ms:
        raise ValueError("must end after it begins")
    if to_ms - from_ms > SPAN_MAX_MS:
        raise ValueError("must not be longer than 400d")
    return RangeSpec(None, from_ms, _checked(max(to_ms, from_ms + SPAN_MIN_MS)))


def _checked(at_ms: int) -> int:
    if not 0 <= at_ms <= _MOMENT_MAX_MS:
        raise ValueError("must lie between the years 1970 and 9999")
    return at_ms


def iso(at_ms: int) -> str:
    """A moment as links and people read it: ``2026-01-31T12:00:00Z``, with milliseconds only where there are some."""
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds" if at_ms % 1_000 else "seconds").replace("+00:00", "Z")
