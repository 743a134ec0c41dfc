"""The compiled loops of the fold: finding the series of a row, adding a row to its sums, counting bins.

Every loop takes columns of one fixed type each (whole numbers of 64 or 32 bits, contiguous), so that each is compiled
once, before the job reads its first record (``warm`` in ``step``). They hold no lock of the interpreter. A loop that
needs room it may not have stops before the row and says where; the caller makes room and calls again.

All arithmetic is on whole numbers: the same rows give the same bytes on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from schemas.sketch import BIN_MAX, BOUNDS, ZERO_BIN
from stream_jobs.windows.plan import (
    DIFFERENCE_CELLS,
    EVENT_COUNT,
    GAUGE_CELLS,
    LAST_AT,
    SKETCH_CELLS,
    SKETCH_FROM,
)

Whole = npt.NDArray[np.int64]

UNKNOWN = np.iinfo(np.int64).min
"""Stands for null inside the fold's own columns; no field may hold it (all bounds lie far above)."""
LEAST = np.iinfo(np.int64).max
NO_BIN = -9

EMPTY = -1
_SHIFT = 46
_FIRST_CELL = 1023 << 6
_BIN_BITS = 11
_MIX = np.uint64(0x9E3779B97F4A7C15)
_TAG = np.uint64(0xFFFFFFFF00000000)
_LOW = np.uint64(0x00000000FFFFFFFF)
_HALF = np.uint64(32)
_NONE = np.uint64(0)


def _first_guesses() -> npt.NDArray[np.int32]:
    """For each cell (power of two and six bits below it) the bin of the least whole number in it."""
    cells = np.arange(int(BOUNDS[BIN_MAX]).bit_length() << 6, dtype=np.int64)
    least = (((cells + _FIRST_CELL) << _SHIFT).view(np.float64)).astype(np.int64)
    return np.minimum(np.searchsorted(BOUNDS, least, side="left"), BIN_MAX).astype(np.int32)


_GUESSES = _first_guesses()
_BOUNDS = BOUNDS.copy()
_VALUE_MAX = int(BOUNDS[BIN_MAX])


@njit(cache=True, nogil=True)
def bins_of(values: Any, out: Any) -> None:
    """Sketch bins of whole numbers, as ``schemas.sketch.bin_of``; ``NO_BIN`` for unknown (and refused, negative) ones.

    The cell of a value (read off its exact form as a float) gives a bin that is never too high; the table of bounds
    does the rest.
    """
    for column in range(values.shape[0]):
        for i in range(values.shape[1]):
            value = values[column, i]
            if value < 0:
                out[column, i] = NO_BIN
            elif value == 0:
                out[column, i] = ZERO_BIN
            else:
                value = min(value, _VALUE_MAX)
                found = _GUESSES[(np.float64(value).view(np.int64) >> _SHIFT) - _FIRST_CELL]
                while value > _BOUNDS[found]:
                    found += 1
                out[column, i] = found


@njit(cache=True, nogil=True)
def first_uses(codes: Any, verdicts: Any, start: Any, stop: Any, pending: Any, out: Any) -> int:
    """Collect the codes marked in ``pending`` in the order in which accepted rows first use them; clears the marks."""
    found = 0
    for i in range(start, stop):
        code = codes[i]
        if pending[code] and verdicts[i] == 0:
            pending[code] = False
            out[found] = code
            found += 1
    return found


@njit(cache=True, nogil=True)
def progress(at: Any, appended: Any, record_of: Any, verdicts: Any, start: Any, stop: Any, beyond: Any) -> Any:
    """Greatest event time (not above append time) of accepted rows, and the first row where it reaches ``beyond``."""
    greatest = np.int64(UNKNOWN)
    for i in range(start, stop):
        if verdicts[i] == 0:
            moment = min(at[i], appended[record_of[i]])
            if moment > greatest:
                greatest = moment
                if moment >= beyond:
                    return greatest, i
    return greatest, stop


@njit(cache=True, nogil=True)
def first_open(windows: Any, verdicts: Any, start: Any, stop: Any, above: Any) -> Any:
    """Earliest window of accepted rows that starts after ``above``; ``LEAST`` halved where there is none."""
    found = np.int64(LEAST >> 1)
    for i in range(start, stop):
        if verdicts[i] == 0 and windows[i] > above and windows[i] < found:
            found = windows[i]
    return found


@njit(cache=True, nogil=True)
def _hash(codes: Any, positions: Any, row: int) -> Any:
    mixed = _MIX
    for d in range(positions.shape[0]):
        mixed = (mixed ^ np.uint64(codes[positions[d], row])) * _MIX
        mixed ^= mixed >> _HALF
    return mixed


@njit(cache=True, nogil=True)
def _hash_line(line: Any) -> Any:
    mixed = _MIX
    for d in range(line.shape[0]):
        mixed = (mixed ^ np.uint64(line[d])) * _MIX
        mixed ^= mixed >> _HALF
    return mixed


@njit(cache=True, nogil=True)
def index_series(lines: Any, count: Any, index: Any) -> None:
    """Fill an empty index (a power of two long) with the first ``count`` lines."""
    mask = np.uint64(index.shape[0] - 1)
    for number in range(count):
        mixed = _hash_line(lines[number])
        place = mixed & mask
        while index[place] != _NONE:
            place = (place + np.uint64(1)) & mask
        index[place] = (mixed & _TAG) | np.uint64(number + 1)


@njit(cache=True, nogil=True)
def find_series(
    codes: Any,
    positions: Any,
    verdicts: Any,
    windows: Any,
    start: Any,
    stop: Any,
    lines: Any,
    last_windows: Any,
    index: Any,
    count: Any,
    limit: Any,
    out: Any,
) -> Any:
    """Number of the series of each accepted row in ``[start, stop)``, new ones added up to ``limit``, else 0.

    Series 0 stands for all others. Returns (series now, row reached); stops when ``lines`` has no room.
    """
    mask = np.uint64(index.shape[0] - 1)
    width = positions.shape[0]
    for i in range(start, stop):
        if verdicts[i] != 0:
            out[i] = EMPTY
            continue
        mixed = _hash(codes, positions, i)
        place = mixed & mask
        tag = mixed & _TAG
        number: Any = EMPTY
        while True:
            entry = index[place]
            if entry == _NONE:
                break
            if entry & _TAG == tag:
                candidate = np.int64(entry & _LOW) - 1
                same = True
                for d in range(width):
                    if lines[candidate, d] != codes[positions[d], i]:
                        same = False
                        break
                if same:
                    number = candidate
                    break
            place = (place + np.uint64(1)) & mask
        if number == EMPTY:
            if count >= limit:
                number = 0
            elif count >= lines.shape[0]:
                return count, i
            else:
                number = count
                for d in range(width):
                    lines[number, d] = codes[positions[d], i]
                index[place] = tag | np.uint64(number + 1)
                count += 1
        out[i] = number
        if windows[i] > last_windows[number]:
            last_windows[number] = windows[i]
    return count, stop


def bin_key(histogram: int, found: int) -> int:
    """The key of a bin of a histogram (row times histograms per row, plus which)."""
    return (histogram << _BIN_BITS) | (found + 1)


@njit(cache=True, nogil=True)
def _count_bin(bins: Any, cell: Any, found: Any, amount: Any) -> int:
    """Add to one bin of one histogram; returns 1 when the bin is new there. There must be room.

    Four neighbouring bins start out in one cache line, so that the bins of one event are found together.
    """
    mask = bins.shape[0] - 1
    key = (cell << _BIN_BITS) | (found + 1)
    group = np.uint64(key >> 2) * _MIX
    place = ((np.int64(group >> _HALF) << 2) | (key & 3)) & mask
    while True:
        held = bins[place, 0]
        if held == key:
            bins[place, 1] += amount
            return 0
        if held == EMPTY:
            bins[place, 0] = key
            bins[place, 1] = amount
            return 1
        place = (place + 1) & mask


@njit(cache=True, nogil=True)
def grow_bins(old: Any, new: Any) -> None:
    """Count all bins of ``old`` into the empty, larger ``new``."""
    for i in range(old.shape[0]):
        if old[i, 0] != EMPTY:
            _count_bin(new, old[i, 0] >> _BIN_BITS, (old[i, 0] & ((1 << _BIN_BITS) - 1)) - 1, old[i, 1])


@njit(cache=True, nogil=True)
def _row_of(series: Any, window: Any, heads: Any, nexts: Any, row_windows: Any) -> int:
    """The row of a series and window, or ``EMPTY``. Rows of a series are chained, the newest first."""
    row = heads[series]
    while row != EMPTY and row_windows[row] != window:
        row = nexts[row]
    return row


@njit(cache=True, nogil=True)
def _begin(line: Any, sketches: Any, gauges: Any) -> None:
    line[:] = 0
    line[LAST_AT] = UNKNOWN
    base = SKETCH_FROM
    for _ in range(sketches):
        line[base + 2] = LEAST
        line[base + 3] = UNKNOWN
        base += SKETCH_CELLS
    for _ in range(gauges):
        line[base + 2] = LEAST
        line[base + 3] = UNKNOWN
        line[base + 4] = UNKNOWN
        base += GAUGE_CELLS


@njit(cache=True, nogil=True)
def _spread(line: Any, base: Any, value: Any) -> None:
    line[base] += 1
    line[base + 1] += value
    line[base + 2] = min(line[base + 2], value)
    line[base + 3] = max(line[base + 3], value)


@njit(cache=True, nogil=True)
def _add_levels(line: Any, values: Any, i: Any, at: Any, base: Any, first: Any, stop: Any) -> None:
    """Gauges: the last value is that of the greatest event time, the greatest one where times are equal."""
    newer = at > line[LAST_AT]
    same = at == line[LAST_AT]
    for f in range(first, stop):
        value = values[f, i]
        if newer:
            line[base + 4] = value
        elif same:
            line[base + 4] = max(line[base + 4], value)
        if value != UNKNOWN:
            _spread(line, base, value)
        base += GAUGE_CELLS


@njit(cache=True, nogil=True)
def _add_amounts(line: Any, values: Any, i: Any, base: Any, first: Any, stop: Any) -> None:
    for f in range(first, stop):
        value = values[f, i]
        if value != UNKNOWN:
            line[base] += 1
            line[base + 1] += value
        base += DIFFERENCE_CELLS


@njit(cache=True, nogil=True)
def add_rows(
    series: Any,
    at: Any,
    windows: Any,
    values: Any,
    value_bins: Any,
    ready_ends: Any,
    ready_keys: Any,
    ready_counts: Any,
    start: Any,
    stop: Any,
    gauges: Any,
    cells: Any,
    heads: Any,
    nexts: Any,
    row_windows: Any,
    row_series: Any,
    bins: Any,
    used: Any,
) -> int:
    """Add rows ``[start, stop)`` to the sums of their (window, series); returns the row reached.

    ``used`` is [rows, bins] in use. Stops when the next row might need a line or bins beyond what there is; the bin
    table is kept at most half full.
    """
    sketches = value_bins.shape[0]
    ready = ready_ends.shape[0]
    histograms = sketches + ready
    bins_max = bins.shape[0] // 2
    for i in range(start, stop):
        if series[i] == EMPTY:
            continue
        needed = sketches
        for b in range(ready):
            needed += ready_ends[b, i + 1] - ready_ends[b, i]
        if used[0] >= cells.shape[0] or used[1] + needed > bins_max:
            return i
        row = _row_of(series[i], windows[i], heads, nexts, row_windows)
        if row == EMPTY:
            row = used[0]
            used[0] += 1
            nexts[row] = heads[series[i]]
            heads[series[i]] = row
            row_windows[row] = windows[i]
            row_series[row] = series[i]
            _begin(cells[row], sketches, gauges)
        line = cells[row]
        line[EVENT_COUNT] += 1
        base = SKETCH_FROM
        for f in range(sketches):
            value = values[f, i]
            if value != UNKNOWN:
                _spread(line, base, value)
                used[1] += _count_bin(bins, row * histograms + f, value_bins[f, i], 1)
            base += SKETCH_CELLS
        for b in range(ready):
            for k in range(ready_ends[b, i], ready_ends[b, i + 1]):
                used[1] += _count_bin(bins, row * histograms + sketches + b, ready_keys[k], ready_counts[k])
        _add_levels(line, values, i, at[i], base, sketches, sketches + gauges)
        base += gauges * GAUGE_CELLS
        _add_amounts(line, values, i, base, sketches + gauges, values.shape[0])
        line[LAST_AT] = max(line[LAST_AT], at[i])
    return stop


@njit(cache=True, nogil=True)
def place_bins(bins: Any, positions: Any, histograms: Any, ends: Any, keys: Any, counts: Any) -> None:
    """Lay out the bins by (histogram, position of the row), rising within; fills all three.

    ``positions[row]`` is where a row is sent. ``ends`` has ``histograms * rows`` places, for all rows of the first
    histogram, then of the next. Two passes of counting, one by bin and one by histogram and row.
    """
    total = positions.shape[0]
    starts = np.zeros(histograms * total + 1, np.int64)
    by_bin = np.zeros((1 << _BIN_BITS) + 1, np.int64)
    held = 0
    for i in range(bins.shape[0]):
        if bins[i, 0] != EMPTY:
            held += 1
            by_bin[(bins[i, 0] & ((1 << _BIN_BITS) - 1)) + 1] += 1
            cell = bins[i, 0] >> _BIN_BITS
            starts[(cell % histograms) * total + positions[cell // histograms] + 1] += 1
    for k in range(1 << _BIN_BITS):
        by_bin[k + 1] += by_bin[k]
    for j in range(histograms * total):
        starts[j + 1] += starts[j]
        ends[j] = starts[j + 1]
    rising = np.empty(held, np.int64)
    for i in range(bins.shape[0]):
        if bins[i, 0] != EMPTY:
            low = bins[i, 0] & ((1 << _BIN_BITS) - 1)
            rising[by_bin[low]] = i
            by_bin[low] += 1
    for j in range(held):
        i = rising[j]
        cell = bins[i, 0] >> _BIN_BITS
        target = (cell % histograms) * total + positions[cell // histograms]
        keys[starts[target]] = (bins[i, 0] & ((1 << _BIN_BITS) - 1)) - 1
        counts[starts[target]] = bins[i, 1]
        starts[target] += 1
