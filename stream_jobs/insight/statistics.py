"""Statistics of many short series at once: straight lines whose significance knows about correlated noise; medians and
spreads that one odd value cannot move; Student's t where looks are many."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.frame import Floats, Whole
from stream_jobs.insight.group_kernels import slopes_of_rows

_CORRELATION_MAX = 0.95
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Line:
    """Per row: ``slope`` per step between points, its standard ``error``, points known ``n``, ``mean`` of the values.
    Where fewer than three points are known, slope is 0 and error infinite."""

    slope: Floats
    error: Floats
    n: Floats
    mean: Floats

    def t(self, slope: Floats | None = None) -> Floats:
        """Slope (or another one, against this noise) in standard errors; 0 when both are 0."""
        top = self.slope if slope is None else slope
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(top / self.error, nan=0.0, posinf=np.inf, neginf=-np.inf)


def fit(values: npt.NDArray[np.floating]) -> Line:
    """Least squares of ``values`` (rows x points in equal steps, NaN where unknown) over 0, 1, 2, ...

    The error is that of ordinary least squares widened by sqrt((1 + r) / (1 - r)) with r the correlation of
    neighbouring residuals, at least 0: noise that wanders counts as fewer points. Numbers up to 1e100 are safe.
    """
    known = np.isfinite(values)
    n = known.sum(axis=1).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=1, dtype=np.float64) / n
        steps = np.arange(values.shape[1], dtype=np.float64)
        step_mean = (known * steps).sum(axis=1) / n
        x = np.where(known, steps - step_mean[:, None], 0.0)
        y = np.where(known, values - mean[:, None], 0.0)
        xx = (x * x).sum(axis=1)
        slope = np.where(n >= 3, (x * y).sum(axis=1) / xx, 0.0)
        rest = y - slope[:, None] * x
        squares = (rest * rest).sum(axis=1)
        squares = np.where(squares <= _TINY * (y * y).sum(axis=1), 0.0, squares)
        error = np.sqrt(squares / (n - 2) / xx) * _wander(rest, squares)
    return Line(slope, np.where(n >= 3, error, np.inf), n, mean)


def slopes(values: npt.NDArray[np.floating]) -> Floats:
    """The slopes of ``fit`` alone, compiled: at some hundredth of its cost."""
    found: Floats = np.zeros(len(values))
    slopes_of_rows(np.ascontiguousarray(values, np.float64), found)
    return found


def _wander(rest: Floats, squares: Floats) -> Floats:
    neighbours = (rest[:, 1:] * rest[:, :-1]).sum(axis=1)
    r = np.clip(np.where(squares > 0, neighbours / squares, 0.0), 0.0, _CORRELATION_MAX)
    return np.sqrt((1 + r) / (1 - r))


def steps_up(values: npt.NDArray[np.floating], parts: int) -> Floats:
    """Differences between the medians of ``parts`` equal stretches of each row: rows x (parts - 1). A ramp has equal
    ones, a step a single one, a sawtooth a negative one, what settles a small last one. NaN where a stretch is
    unknown. Needs at least ``parts`` points."""
    edges = np.linspace(0, values.shape[1], parts + 1).round().astype(int)
    levels = [_median(values[:, low:high]) for low, high in pairwise(edges)]
    return np.diff(np.stack(levels, axis=1), axis=1)


def _median(values: npt.NDArray[np.floating]) -> Floats:
    """Per row, NaN left out (``np.nanmedian`` warns where all are)."""
    ordered = np.sort(values.astype(np.float64), axis=1)
    n = np.isfinite(ordered).sum(axis=1)
    rows = np.arange(len(ordered))
    low, high = np.maximum(n - 1, 0) // 2, np.minimum(n // 2, max(ordered.shape[1] - 1, 0))
    return np.where(n > 0, ordered[rows, low] / 2 + ordered[rows, high] / 2, np.nan)


MAD_TO_SIGMA = 1.4826
_SMALL = np.array([1.0, 1.0, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107])
"""By group size: the median deviation of a few values is too small on average (Croux and Rousseeuw, Time-efficient
algorithms for two highly robust estimators of scale, 1992, section 3)."""
_SMALL_SLOPE = 0.8
"""Beyond the table: n / (n - 0.8), same source."""

_DF = np.array([4.0, 6, 8, 10, 14, 18, 22, 30, 46, 62, 200])
_T = np.array([131.59, 38.66, 21.89, 15.9, 11.31, 9.49, 8.53, 7.56, 6.77, 6.44, 5.85])
"""One-sided quantiles of Student's t at 1e-8, by numerical integration of its density."""


def t_needed(df: Floats) -> Floats:
    """t that chance exceeds once in 1e8 looks, by degrees of freedom; infinite below four."""
    return np.where(df >= _DF[0], np.interp(df, _DF, _T), np.inf)


def medians(values: Floats, starts: Whole, sizes: Whole) -> Floats:
    """Median per group. ``values`` are sorted within each group ``[start, start + size)`` of at least one."""
    low, high = starts + (sizes - 1) // 2, starts + sizes // 2
    return values[low] / 2 + values[high] / 2


def grouped(groups: Whole, values: Floats) -> tuple[Whole, Whole, Whole, Floats, Floats]:
    """``(order, starts, sizes, median, sigma)``: rows sorted by group, where each group begins, and per group the
    median and the robust standard deviation (1.4826 x median deviation, corrected for small groups). All finite."""
    order = np.lexsort((values, groups))
    sorted_groups, sorted_values = groups[order], values[order]
    starts = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1]])
    sizes = np.diff(np.r_[starts, len(groups)])
    median = medians(sorted_values, starts, sizes)
    index = np.repeat(np.arange(len(starts)), sizes)
    deviation = np.abs(sorted_values - median[index])
    spread = medians(deviation[np.lexsort((deviation, index))], starts, sizes)
    return order, starts, sizes, median, spread * MAD_TO_SIGMA * _correction(sizes)


def _correction(sizes: Whole) -> Floats:
    table = _SMALL[np.minimum(sizes, len(_SMALL) - 1)]
    return np.where(sizes < len(_SMALL), table, sizes / (sizes - _SMALL_SLOPE))
