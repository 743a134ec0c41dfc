"""The compiled loops of insight: which rows have the same codes, adding up the rows of a group, quantiles of sketches,
slopes of short series.

Every loop takes arrays of one fixed type, contiguous and writable, so that each is compiled once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from schemas.sketch import BIN_MAX, ZERO_BIN, value_of

NOWHERE = -1

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_VALUES = np.array([value_of(index) for index in range(ZERO_BIN, BIN_MAX + 1)])


@njit(cache=True, nogil=True)
def _hash(line: Any) -> Any:
    mixed = _MIX
    for d in range(line.shape[0]):
        mixed = (mixed ^ np.uint64(line[d])) * _MIX
        mixed ^= mixed >> _HALF
    return mixed


@njit(cache=True, nogil=True)
def _place(line: Any, lines: Any, index: Any) -> Any:
    """Where a line stands in the index, or the free place where it would."""
    mask = np.uint64(index.shape[0] - 1)
    place = _hash(line) & mask
    while index[place] != NOWHERE:
        other = index[place]
        same = True
        for d in range(line.shape[0]):
            if lines[other, d] != line[d]:
                same = False
                break
        if same:
            break
        place = (place + np.uint64(1)) & mask
    return place


@njit(cache=True, nogil=True)
def group_rows(codes: Any, index: Any, groups: Any, firsts: Any) -> int:
    """Number the distinct lines of ``codes`` (rows, dimensions) in order of appearance; returns how many.

    ``groups[i]`` is the number of row ``i``, ``firsts[g]`` the first row of group ``g``. ``index`` is filled with
    ``NOWHERE``, a power of two long and longer than there are rows.
    """
    found = 0
    for i in range(codes.shape[0]):
        place = _place(codes[i], codes, index)
        if index[place] == NOWHERE:
            index[place] = i
            firsts[found] = i
            groups[i] = found
            found += 1
        else:
            groups[i] = groups[index[place]]
    return found


@njit(cache=True, nogil=True)
def enter_lines(lines: Any, which: Any, index: Any) -> None:
    """Add the lines numbered ``which`` to the index."""
    for w in range(which.shape[0]):
        index[_place(lines[which[w]], lines, index)] = which[w]


@njit(cache=True, nogil=True)
def find_lines(codes: Any, lines: Any, index: Any, out: Any) -> None:
    """The number of each row's line in the index, ``NOWHERE`` for those that are not in it."""
    for i in range(codes.shape[0]):
        out[i] = index[_place(codes[i], lines, index)]


@njit(cache=True, nogil=True)
def add_up(rows: Any, groups: Any, values: Any, known: Any, out: Any, seen: Any) -> None:
    """Sum per group. ``known`` may be empty: then every row is."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if known.shape[0] == 0 or known[row]:
            out[groups[i]] += values[row]
            seen[groups[i]] = True


@njit(cache=True, nogil=True)
def least(rows: Any, groups: Any, values: Any, known: Any, sign: Any, out: Any, seen: Any) -> None:
    """Least (``sign`` 1) or greatest (-1) value per group."""
    for i in range(rows.shape[0]):
        row, group = rows[i], groups[i]
        if known.shape[0] == 0 or known[row]:
            if not seen[group] or sign * values[row] < sign * out[group]:
                out[group] = values[row]
            seen[group] = True


@njit(cache=True, nogil=True)
def latest(rows: Any, groups: Any, at: Any, values: Any, known: Any, out: Any, seen: Any, newest: Any) -> None:
    """Value of the row with the greatest (at, value) per group; unknown is less than any value.

    ``newest`` holds the least number at the start.
    """
    for i in range(rows.shape[0]):
        row, group = rows[i], groups[i]
        is_known = known.shape[0] == 0 or known[row]
        if at[row] > newest[group]:
            newest[group] = at[row]
            seen[group] = is_known
            out[group] = values[row] if is_known else 0
        elif at[row] == newest[group] and is_known and (not seen[group] or values[row] > out[group]):
            seen[group] = True
            out[group] = values[row]


@njit(cache=True, nogil=True)
def spread(groups: Any, rows: Any, firsts: Any, members: Any) -> None:
    """Rows by group: those of group ``g`` end up in ``members[firsts[g]:firsts[g + 1]]``, in order.

    ``firsts`` is zeros, one longer than there are groups.
    """
    count = firsts.shape[0] - 1
    for i in range(groups.shape[0]):
        firsts[groups[i] + 1] += 1
    for g in range(count):
        firsts[g + 1] += firsts[g]
    cursors = firsts[:count].copy()
    for i in range(groups.shape[0]):
        members[cursors[groups[i]]] = rows[i]
        cursors[groups[i]] += 1


@njit(cache=True, nogil=True)
def quantiles(ends: Any, keys: Any, counts: Any, q: float, out: Any) -> None:
    """The ``linear`` quantile of each row's sketch, as ``schemas.sketch.quantile``; left where empty."""
    first = 0
    for i in range(ends.shape[0]):
        total = np.int64(0)
        for k in range(first, ends[i]):
            total += np.int64(counts[k])
        position = q * (total - 1)
        rank = np.int64(np.floor(position))
        part = position - rank
        above = min(rank + 1, total - 1)
        below_known = False
        seen = np.int64(0)
        for k in range(first, ends[i]):
            seen += np.int64(counts[k])
            value = _VALUES[np.int64(keys[k]) - ZERO_BIN]
            if not below_known and seen > rank:
                below_known = True
                out[i] = (1.0 - part) * value
            if seen > above:
                out[i] += part * value
                break
        first = ends[i]


@njit(cache=True, nogil=True)
def counts_above(ends: Any, keys: Any, counts: Any, limit: Any, out: Any) -> None:
    """Values of each row's sketch in bins above ``limit``."""
    first = 0
    for i in range(ends.shape[0]):
        for k in range(first, ends[i]):
            if keys[k] > limit:
                out[i] += np.int64(counts[k])
        first = ends[i]


@njit(cache=True, nogil=True)
def sketch_sums(ends: Any, keys: Any, counts: Any, out_counts: Any, out_sums: Any) -> None:
    """Values counted by each row's sketch, and about their sum (each as the value of its bin)."""
    first = 0
    for i in range(ends.shape[0]):
        for k in range(first, ends[i]):
            out_counts[i] += np.int64(counts[k])
            out_sums[i] += np.float64(counts[k]) * _VALUES[np.int64(keys[k]) - ZERO_BIN]
        first = ends[i]


@njit(cache=True, nogil=True)
def slopes_of_rows(values: Any, out: Any) -> None:
    """Slope of each row's known values over 0, 1, 2, ...; left where fewer than three are known."""
    for row in range(values.shape[0]):
        n, x_sum, y_sum = 0, 0.0, 0.0
        for step in range(values.shape[1]):
            if np.isfinite(values[row, step]):
                n, x_sum, y_sum = n + 1, x_sum + step, y_sum + values[row, step]
        if n < 3:
            continue
        x_mean, y_mean, xx, xy = x_sum / n, y_sum / n, 0.0, 0.0
        for step in range(values.shape[1]):
            if np.isfinite(values[row, step]):
                xx += (step - x_mean) * (step - x_mean)
                xy += (step - x_mean) * (values[row, step] - y_mean)
        out[row] = xy / xx
