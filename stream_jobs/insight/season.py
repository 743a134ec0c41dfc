"""What a series is like at this hour of the week: its mean level in each of the 168 hours, over the last weeks.

An hour enters when it is over, as the mean of its windows; the last ``WEEKS_KEPT`` count. A
series gets its 168 places when its first hour is over, so that a flood of short-lived series gets none. They are
whole numbers of 16 bits (336 bytes): steps of 1/4096 around the level of that first hour, of its size where the scale
is not logarithmic. What lies further than 8 such sizes away is cut off there; as the season only ever excuses a value,
that costs an excuse and no more. Hours are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.limits import HOUR_MS
from stream_jobs.insight.frame import Floats, Whole
from stream_jobs.insight.slotted import Column

HOURS = 168
WEEKS_KEPT = 4
NO_ROW = -1
STEPS = 4_096

_NEVER = np.iinfo(np.int16).min
_FAR = np.iinfo(np.int16).max

COLUMNS = (
    Column("season_row", "i4", NO_ROW),
    Column("season_from", "i4"),
    Column("season_ref", "f8"),
    Column("season_step", "f8"),
    Column("hour", "i8"),
    Column("hour_sum", "f8"),
    Column("hour_samples", "i4"),
    Column("season_level", "f8"),
    Column("season_variance", "f8"),
    Column("season_steady", "f8"),
    Column("season_samples", "i4"),
)
"""Beside the pool, per slot: which row of it, since which hour, its middle and step, the hour that runs, and the
baseline of what the season leaves over."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a pool: their numbers, the hours (since the epoch) they began, middles and steps."""

    numbers: Whole
    began: Whole
    middles: Floats
    steps: Floats


class Pool:
    """Rows of 168 hours, given out lowest first. ``places`` is (rows, 168), in steps from the middle of the row."""

    def __init__(self) -> None:
        self.places: npt.NDArray[np.int16] = np.zeros((0, HOURS), np.int16)

    def take(self, count: int, used: Whole) -> Whole:
        """Rows that are free: ``used`` are the ones that are not."""
        free = np.ones(max(len(self.places), len(used) + count), np.bool_)
        free[used] = False
        rows = np.flatnonzero(free)[:count]
        self._grow(int(rows[-1]) + 1 if count else 0)
        return rows

    def clear(self, rows: Whole) -> None:
        """Empty these rows."""
        self.places[rows] = _NEVER

    def enter(self, rows: Rows, hours: Whole, means: Floats) -> None:
        """Hours that are over (numbered since the epoch), one per row."""
        weeks = np.clip((hours - rows.began) // HOURS + 1, 1, WEEKS_KEPT)
        old = self.places[rows.numbers, hours % HOURS].astype(np.float64)
        found = np.clip((means - rows.middles) / rows.steps, -_FAR, _FAR)
        moved = np.where(old == _NEVER, found, old + (found - old) / weeks)
        self.places[rows.numbers, hours % HOURS] = np.round(moved).astype(np.int16)

    def band(self, rows: Rows, at_ms: int, weeks_min: int) -> tuple[Floats, Floats]:
        """Least and greatest level that the season expects at ``at_ms``; NaN for rows younger than ``weeks_min`` and
        for hours never seen.

        One is the mean of this hour, the other lies on the line between the middles of this hour and the nearer of
        its neighbours: what rises steadily follows the line, what jumps at the full hour follows the mean.
        """
        hour, share = at_ms // HOUR_MS, (at_ms % HOUR_MS) / HOUR_MS - 0.5
        near = hour + (1 if share >= 0 else -1)
        old = hour - rows.began >= weeks_min * HOURS
        here = np.where(old, self._level(rows, hour), np.nan)
        there = self._level(rows, near)
        line = here + abs(share) * (np.where(np.isnan(there), here, there) - here)
        return np.minimum(here, line), np.maximum(here, line)

    def _level(self, rows: Rows, hour: int) -> Floats:
        places = self.places[rows.numbers, hour % HOURS]
        return np.where(places == _NEVER, np.nan, rows.middles + rows.steps * places)

    def _grow(self, rows: int) -> None:
        if rows > len(self.places):
            more = max(rows, len(self.places) * 9 // 8) - len(self.places)
            self.places = np.concatenate([self.places, np.full((more, HOURS), _NEVER, np.int16)])
