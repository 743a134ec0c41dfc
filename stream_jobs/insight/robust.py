"""Statistics that one odd value cannot move: median and spread per group, Student's t where looks are many."""

from __future__ import annotations

import numpy as np

from stream_jobs.insight.frame import Floats, Whole

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
