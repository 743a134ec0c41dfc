"""How far out a statistic of a series was before, and how far it would come once in ``rare_days`` by chance.

Of each statistic and side the ``KEPT`` greatest block maxima are kept (peaks over a threshold, which is the least of
them: Davison and Smith, "Models for exceedances over high thresholds", 1990). What exceeds that threshold does so by
``excess`` on average, and ``KEPT`` blocks of the time seen did: with an exponential tail a value is exceeded once in
``rare_days`` that lies ``excess * ln(KEPT * rare_days / days)`` above it. A tail that is lighter than that costs some
sensitivity, one that recurs at about the same height (a job that runs every hour) has an excess near zero.

A block that ends is *pending* for another one before it counts: what rises slowly would else raise its own limit hour
by hour, and never be above it. Nothing counts while the series fires, and what fired counts as at most half as much
again as the limit: the next of its size is news no more, and a greater one is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from schemas.limits import DAY_MS, HOUR_MS
from stream_jobs.insight.frame import Floats, Mask, Whole
from stream_jobs.insight.slotted import Column

KEPT = 8
MARGIN = 1.2
"""Times the mean excess, which is known from ``KEPT - 1`` values only."""
ABOVE_GREATEST = 1.15
"""And at least so many times the greatest seen."""
FADED_EVERY_MS = 6 * HOUR_MS
FADED = 0.9985
"""What was kept counts for a little less every six hours: half of it after four months."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Statistics of one detector, each twice: above and below. ``blocks_ms``: how long the block of each is."""

    blocks_ms: npt.NDArray[np.int64]
    more: Floats
    """Of each: standard deviations of the series on top of the greatest seen."""
    step: Floats
    """Of each: what may be added to the limit, beyond half of it, in one go."""

    @property
    def count(self) -> int:
        """How many sides there are."""
        return len(self.blocks_ms)


def columns(sides: int) -> tuple[Column, ...]:
    """State per slot: 44 bytes a side."""
    return (
        Column("top", "f4", 0, (sides, KEPT)),
        Column("limit", "f4", np.inf, (sides,)),
        Column("peak", "f4", 0, (sides,)),
        Column("pending", "f4", 0, (sides,)),
    )


@njit(cache=True, nogil=True, _nrt=False)
def peak_after(peak: float, least: float, limit: float, step: float, statistic: float, judged: bool) -> float:
    """The greatest of the running block with one more value; ``least`` that is kept, 0 while not enough is."""
    most = 1.5 * limit + step if judged and least > 0 else inf
    return max(peak, min(statistic, most))


class Tails:
    """Works on the columns of a ``Slotted``; ``rare_days``: how seldom chance may exceed a limit."""

    def __init__(self, sides: Sides, rare_days: float) -> None:
        self._sides = sides
        self._rare_days = rare_days

    def end(self, from_ms: int, to_ms: int) -> bool:
        """Whether any block ends between two moments."""
        return bool((from_ms // self._sides.blocks_ms != to_ms // self._sides.blocks_ms).any())

    def end_blocks(
        self, state: dict[str, npt.NDArray[Any]], slots: Whole, sigma: Floats, counts: Mask, days: Floats, from_ms: int,
        to_ms: int,
    ) -> None:  # fmt: skip
        """Blocks that end between two moments: the pending ones count where ``counts`` (rows, sides), the ones that end
        become pending."""
        ends = np.flatnonzero(from_ms // self._sides.blocks_ms != to_ms // self._sides.blocks_ms)
        if not len(ends):
            return
        pending, peak = state["pending"][slots], state["peak"][slots]
        taken = np.zeros(pending.shape, np.bool_)
        taken[:, ends] = (pending > state["top"][slots, :, -1])[:, ends] & counts[:, ends]
        rows, sides = np.nonzero(taken)
        if len(rows):
            top = state["top"][slots[rows], sides]
            top[:, -1] = pending[rows, sides]
            state["top"][slots[rows], sides] = -np.sort(-top, axis=1)
            self._set(state, slots[rows], sides, sigma[rows], days[rows])
        waits = ~counts[:, ends]
        pending[:, ends] = np.where(waits, np.maximum(pending[:, ends], peak[:, ends]), peak[:, ends])
        peak[:, ends] = 0
        state["pending"][slots], state["peak"][slots] = pending, peak

    def fade(self, state: dict[str, npt.NDArray[Any]], slots: Whole, sigma: Floats, days: Floats) -> None:
        """What was kept counts for a little less, and more days have passed: the limits as they are now."""
        state["top"][slots] *= np.float32(FADED)
        rows, sides = (each.ravel() for each in np.indices((len(slots), self._sides.count)))
        self._set(state, slots[rows], sides, sigma[rows], days[rows])

    def start_over(self, state: dict[str, npt.NDArray[Any]], slots: Whole) -> None:
        """Nothing is known of these series any more."""
        state["top"][slots] = 0
        state["limit"][slots] = np.inf
        state["peak"][slots] = 0
        state["pending"][slots] = 0

    def _set(self, state: dict[str, npt.NDArray[Any]], slots: Whole, sides: Whole, sigma: Floats, days: Floats) -> None:
        top = state["top"][slots, sides].astype(np.float64)
        least = top[:, -1]
        excess = (top[:, :-1] - least[:, None]).mean(axis=1)
        rare = least + MARGIN * excess * np.log(KEPT * self._rare_days / np.maximum(days, 0.5))
        state["limit"][slots, sides] = np.maximum(rare, ABOVE_GREATEST * top[:, 0] + self._sides.more[sides] * sigma)


def days_between(from_ms: Whole, to_ms: int) -> Floats:
    """Days from each moment to one."""
    return (to_ms - from_ms) / DAY_MS
