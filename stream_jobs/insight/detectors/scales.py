"""On what scale a series is judged: where a step means the same at every level.

The logarithm where all values are positive: 10 % more is one step anywhere. The square root where there are zeros, or
small whole numbers; of counts with 3/8 added, which evens out the spread of a Poisson variable (Anscombe, "The
transformation of Poisson, binomial and negative-binomial data", 1948). As they are where there are negative ones. A
series shows which it is by its first ``WARM_UP`` values. Zeros that come later are a fall at first, a tenth of the
least value ever; once they are more than one in a hundred the series has them.

Works on the columns of a ``Slotted``.
"""

from __future__ import annotations

from math import exp, isfinite, log, log1p, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from stream_jobs.insight.frame import Floats, Whole
from stream_jobs.insight.slotted import Column

WARM_UP = 36
UNPLACED, LINEAR, ROOT, LOG = -1, 0, 1, 2
NAMES = {"auto": UNPLACED, "linear": LINEAR, "root": ROOT, "log": LOG}
COLUMNS = (
    Column("scale", "i1", UNPLACED),
    Column("seen", "i4"),
    Column("zeros", "i4"),
    Column("negative", "?"),
    Column("fractional", "?"),
    Column("least", "f8", np.inf),
)
_FEW = 20
"""Whole numbers below this are counts even where none is zero yet."""

_SHIFT = 0.375

State = dict[str, npt.NDArray[Any]]


def place(state: State, slots: Whole) -> None:
    """Choose for these series by what was seen."""
    counts = ~state["fractional"][slots] & (state["least"][slots] < _FEW)
    positive = np.where((state["zeros"][slots] > 0) | counts, ROOT, LOG)
    state["scale"][slots] = np.where(state["negative"][slots], LINEAR, positive)


@njit(cache=True, nogil=True)
def placed(scale: int, least: float, fractional: bool, x: float) -> float:
    """A value on the scale of its series."""
    if scale == LINEAR:
        return x
    if scale == ROOT:
        return sqrt(max(x, 0.0) + (0.0 if fractional else _SHIFT))
    return log(max(x, (least if isfinite(least) else 1.0) / 10))


@njit(cache=True, nogil=True)
def value_at(scale: int, fractional: bool, y: float) -> float:
    """The value at a place."""
    if scale == LINEAR:
        return y
    if scale == ROOT:
        return max(max(y, 0.0) ** 2 - (0.0 if fractional else _SHIFT), 0.0)
    return exp(min(y, 700.0))


@njit(cache=True, nogil=True)
def step(scale: int, level: float, share: float) -> float:
    """How far apart on the scale a level and one that is by ``share`` more are, about."""
    size = share * abs(level)
    return log1p(share) if scale == LOG else size / 2 if scale == ROOT else size


def of(state: State, slots: Whole, x: Floats) -> Floats:
    """Values on the scale of their series."""
    columns = (state[name][slots].tolist() for name in ("scale", "least", "fractional"))
    return np.array([placed(*each) for each in zip(*columns, x.tolist(), strict=True)], np.float64)


def back(state: State, slots: Whole, y: Floats) -> Floats:
    """The values at these places."""
    columns = (state[name][slots].tolist() for name in ("scale", "fractional"))
    return np.array([value_at(*each) for each in zip(*columns, y.tolist(), strict=True)], np.float64)
