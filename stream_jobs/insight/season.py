"""What a series is like at this hour of the week: its mean level in each of the 168 hours, over the last weeks.

An hour enters when it is over, as the mean of its windows that trained the baseline; the last ``WEEKS_KEPT`` count. A
series gets its 168 places (float32, and a count each: 840 bytes) when its first hour is over, so that a flood of
short-lived series gets none. Hours are UTC.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemas.limits import HOUR_MS
from stream_jobs.insight.frame import Floats, Whole
from stream_jobs.insight.slotted import Column

HOURS = 168
WEEKS_KEPT = 4
NO_ROW = -1

COLUMNS = (
    Column("season_row", "i4", NO_ROW),
    Column("hour", "i8"),
    Column("hour_sum", "f8"),
    Column("hour_samples", "i4"),
    Column("season_level", "f8"),
    Column("season_variance", "f8"),
    Column("season_samples", "i4"),
)
"""Beside the pool, per slot: which row of it, the hour that runs, and the baseline of what the season leaves over."""


class Pool:
    """Rows of 168 hours, given out lowest first. ``means`` and ``visits`` are (rows, 168)."""

    def __init__(self) -> None:
        self.means: npt.NDArray[np.float32] = np.zeros((0, HOURS), np.float32)
        self.visits: npt.NDArray[np.uint8] = np.zeros((0, HOURS), np.uint8)

    def take(self, count: int, used: Whole) -> Whole:
        """Rows that are free: ``used`` are the ones that are not."""
        free = np.ones(max(len(self.means), len(used) + count), np.bool_)
        free[used] = False
        rows = np.flatnonzero(free)[:count]
        self._grow(int(rows[-1]) + 1 if count else 0)
        return rows

    def clear(self, rows: Whole) -> None:
        """Empty these rows."""
        self.means[rows] = 0
        self.visits[rows] = 0

    def enter(self, rows: Whole, hours: Whole, means: Floats) -> None:
        """Hours that are over (numbered since the epoch), one per row."""
        places = hours % HOURS
        seen = self.visits[rows, places].astype(np.int64)
        weight = 1.0 / np.minimum(seen + 1, WEEKS_KEPT)
        old = self.means[rows, places].astype(np.float64)
        self.means[rows, places] = (old + weight * (means - old)).astype(np.float32)
        self.visits[rows, places] = np.minimum(seen + 1, 255).astype(np.uint8)

    def band(self, rows: Whole, at_ms: int, weeks_min: int) -> tuple[Floats, Floats]:
        """Least and greatest level that the season expects at ``at_ms``; NaN for rows with too few weeks of this hour.

        One is the mean of this hour, the other lies on the line between the middles of this hour and the nearer of
        its neighbours: what rises steadily follows the line, what jumps at the full hour follows the mean.
        """
        hour, share = at_ms // HOUR_MS, (at_ms % HOUR_MS) / HOUR_MS - 0.5
        near = hour + (1 if share >= 0 else -1)
        here = self._mean(rows, hour, weeks_min)
        there = self._mean(rows, near, weeks_min)
        line = here + abs(share) * (np.where(np.isnan(there), here, there) - here)
        return np.minimum(here, line), np.maximum(here, line)

    def _mean(self, rows: Whole, hour: int, weeks_min: int) -> Floats:
        place = hour % HOURS
        means = self.means[rows, place].astype(np.float64)
        return np.where(self.visits[rows, place] >= weeks_min, means, np.nan)

    def _grow(self, rows: int) -> None:
        if rows > len(self.means):
            more = max(rows, len(self.means) * 5 // 4) - len(self.means)
            self.means = np.concatenate([self.means, np.zeros((more, HOURS), np.float32)])
            self.visits = np.concatenate([self.visits, np.zeros((more, HOURS), np.uint8)])
