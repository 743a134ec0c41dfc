"""What will be spent: the week repeated along a trend, with an interval. Floating point: a forecast is no bill.

Of whole seasons (seven days by default) each has a level, its mean. The trend is the median of the slopes between the
levels of any two seasons (Theil and Sen), so that one strange week does not bend it; a season's profile is the median
of what its steps were over the line of levels, as a ratio. The forecast of a step is the line at that step times its
ratio, and not below 0. With less than two seasons it is the mean of what there is.

The interval takes the steps for independent with the spread seen around the fit (standard deviation with the degrees of
freedom the profile cost), and adds what level and slope themselves may be wrong, as in a straight-line regression. It
knows nothing of new customers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
import numpy.typing as npt

SEASON = 7
SEASONS_MAX = 8
"""Older ones are not looked at."""
POINTS_MIN = 3
Z_80 = 1.2816
"""Standard normal quantile: four in five fall between -Z_80 and Z_80."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Forecast:
    """``steps``: expected amounts one after another. Bounds hold the sum of all steps four times in five."""

    steps: tuple[float, ...]
    total: float
    low: float
    high: float


def forecast(history: Sequence[float], horizon: int) -> Forecast | None:
    """The next ``horizon`` steps after ``history`` (oldest first, equal steps, none missing); None below 3 points."""
    values = np.asarray(history, dtype=np.float64)[-SEASONS_MAX * SEASON :]
    if len(values) < POINTS_MIN:
        return None
    expected, fitted, cost = _fit(values, horizon)
    spread = float(np.sqrt(((values[-len(fitted) :] - fitted) ** 2).sum() / max(1, len(fitted) - cost)))
    total = float(expected.sum())
    half = Z_80 * spread * _factor(len(fitted), horizon)
    return Forecast(tuple(expected.tolist()), total, max(0.0, total - half), total + half)


def _fit(values: Floats, horizon: int) -> tuple[Floats, Floats, int]:
    """Expected steps, the fit over the whole seasons of history (or all of it), and the parameters that took."""
    seasons = len(values) // SEASON
    ahead = np.arange(horizon, dtype=np.float64)
    if seasons < 2:
        mean = float(values.mean())
        return np.full(horizon, mean), np.full(len(values), mean), 1
    table = values[-seasons * SEASON :].reshape(seasons, SEASON)
    levels = table.mean(axis=1)
    slope = float(np.median([(levels[j] - levels[i]) / ((j - i) * SEASON) for i, j in combinations(range(seasons), 2)]))
    at = np.arange(seasons * SEASON, dtype=np.float64)
    centres = at.reshape(seasons, SEASON).mean(axis=1)
    base = float(np.median(levels - slope * centres))
    line = np.maximum(base + slope * at, 0.0)
    profile = _profile(table, line.reshape(seasons, SEASON))
    future = np.maximum(base + slope * (len(at) + ahead), 0.0)
    steps = np.arange(horizon) % SEASON
    return future * profile[steps], line * np.tile(profile, seasons), SEASON + 1


def _profile(table: Floats, line: Floats) -> Floats:
    """Of each step of a season how much it is of the line; 1 where the line is at 0."""
    ratios = np.divide(table, line, out=np.ones_like(table), where=line > 0)
    return np.median(ratios, axis=0)


def _factor(points: int, horizon: int) -> float:
    """By what the spread of a step is multiplied for the sum of the horizon: steps, level and slope."""
    reach = (points + horizon) / 2  # from the middle of history to the middle of the horizon
    return sqrt(horizon + horizon**2 / points + 12 * (horizon * reach) ** 2 / points**3)
