"""On what scale a series is judged: where a step means the same at every level.

The logarithm where all values are positive: 10 % more is one step anywhere. The square root where there are zeros, or
small whole numbers; of counts with 3/8 added, which evens out the spread of a Poisson variable (Anscombe, "The
transformation of Poisson, binomial and negative-binomial data", 1948). As they are where there are negative ones. A
series shows which it is by its first ``WARM_UP`` values. Zeros that come later are a fall at first, a tenth of the
least value ever; once they are more than one in a hundred the series has them.

Works on the columns of a ``Slotted``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.frame import Floats, Mask, Whole
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

State = dict[str, npt.NDArray[Any]]


def see(state: State, slots: Whole, x: Floats) -> None:
    """Values (all finite) that came."""
    state["seen"][slots] += 1
    state["zeros"][slots] += x == 0
    state["negative"][slots] |= x < 0
    state["fractional"][slots] |= x != np.floor(x)
    state["least"][slots] = np.where(x > 0, np.minimum(state["least"][slots], x), state["least"][slots])


def place(state: State, slots: Whole) -> None:
    """Choose for these series by what was seen."""
    counts = ~state["fractional"][slots] & (state["least"][slots] < _FEW)
    positive = np.where((state["zeros"][slots] > 0) | counts, ROOT, LOG)
    state["scale"][slots] = np.where(state["negative"][slots], LINEAR, positive)


def outgrown(state: State, slots: Whole) -> Mask:
    """Which series have by now values that their scale has no place for."""
    scale = state["scale"][slots]
    zeros = (scale == LOG) & (state["zeros"][slots] * 100 > state["seen"][slots])
    return zeros | ((scale > LINEAR) & state["negative"][slots])


def of(state: State, slots: Whole, x: Floats) -> Floats:
    """Values on the scale of their series."""
    scale, least = state["scale"][slots], state["least"][slots]
    root = np.sqrt(np.maximum(x, 0.0) + _shift(state, slots))
    logarithm = np.log(np.maximum(x, np.where(np.isfinite(least), least, 1.0) / 10))
    return np.where(scale == LINEAR, x, np.where(scale == ROOT, root, logarithm))


def back(state: State, slots: Whole, y: Floats) -> Floats:
    """The values at these places."""
    scale = state["scale"][slots]
    root = np.maximum(np.maximum(y, 0.0) ** 2 - _shift(state, slots), 0.0)
    return np.where(scale == LINEAR, y, np.where(scale == ROOT, root, np.exp(np.minimum(y, 700.0))))


def step(state: State, slots: Whole, level: Floats, share: float) -> Floats:
    """How far apart on the scale a level and one that is by ``share`` more are, about."""
    scale, size = state["scale"][slots], share * np.abs(level)
    return np.where(scale == LOG, np.log1p(share), np.where(scale == ROOT, size / 2, size))


def _shift(state: State, slots: Whole) -> Floats:
    return np.where(state["fractional"][slots], 0.0, 0.375)
