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

# A bin is one number: histogram and bin above, count below; 0 is an empty place. The histogram (row times histograms
# per row, plus which) bounds the rows of one table; amounts that do not fit the count are kept aside as *spilled*.
_BIN_BITS = 10
_BIN_MASK = (1 << _BIN_BITS) - 1
_GROUP = np.uint64(3)
_IN_GROUP = np.uint64(7)
_INSERTION_MAX = 48
_MIX = np.uint64(0x9E3779B97F4A7C15)
_TAG = np.uint64(0xFFFFFFFF00000000)
_LOW = np.uint64(0x00000000FFFFFFFF)
_HALF = np.uint64(32)
_NONE = np.uint64(0)
_ONE = np.uint64(1)


def _first_guesses() -> npt.NDArray[np.int32]:
    """For each cell (power of two and six bits below it) the bin of the least whole number in it."""
    cells = np.arange(int(BOUNDS[BIN_MAX]).bit_length() << 6, dtype=np.int64)
    least = (((cells + _FIRST_CELL) << _SHIFT).view(np.float64)).astype(np.int64)
    return np.minimum(np.searchsorted(BOUNDS, least, side="left"), BIN_MAX).astype(np.int32)


_GUESSES = _first_guesses()
_BOUNDS = BOUNDS.copy()
_VALUE_MAX = int(BOUNDS[BIN_MAX])


def rows_max(histograms: int) -> int:
    """Rows that one table of bins can tell apart."""
    return (1 << 32 - _BIN_BITS) // max(histograms, 1) - 1


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
def first_uses(codes: Any, verdicts: Any, pending: Any, out: Any) -> int:
    """Collect the codes marked in ``pending`` in the order in which accepted rows first use them; clears the marks."""
    found = 0
    for i in range(codes.shape[0]):
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


@njit(cache=True, nogil=True)
def _shift_of(bins: Any) -> Any:
    """How far a hash is shifted down so that its best bits, the upper ones, number the groups of the table."""
    groups, shift = bins.shape[0] >> 3, 64
    while groups > 1:
        groups >>= 1
        shift -= 1
    return np.uint64(shift)


@njit(cache=True, nogil=True)
def _place_of(bins: Any, shift: Any, key: Any) -> Any:
    """Where a bin stands or would be entered.

    Eight neighbouring bins start out in one cache line, so that the bins of one event are found together.
    """
    mask = np.uint64(bins.shape[0] - 1)
    place = (((key >> _GROUP) * _MIX) >> shift << _GROUP) | (key & _IN_GROUP)
    while True:
        held = bins[place]
        if held == _NONE or held >> _HALF == key:
            return place
        place = (place + np.uint64(1)) & mask


@njit(cache=True, nogil=True)
def count_values(
    rows: Any, found: Any, histogram: Any, histograms: Any, start: Any, stop: Any, bins: Any, used: Any
) -> int:
    """Count the bin of each row's value in the given histogram of its line; returns the row reached.

    Stops when half of the table is in use. ``used`` is [lines, bins, spilled amounts].
    """
    bins_max = bins.shape[0] // 2
    shift = _shift_of(bins)
    held_bins = used[1]
    for i in range(start, stop):
        if rows[i] == EMPTY or found[i] == NO_BIN:
            continue
        if held_bins >= bins_max:
            stop = i
            break
        key = np.uint64(((rows[i] * histograms + histogram) << _BIN_BITS) | (found[i] + 1))
        place = _place_of(bins, shift, key)
        held = bins[place]
        if held == _NONE:
            held_bins += 1
            held = key << _HALF
        bins[place] = held + _ONE
    used[1] = held_bins
    return stop


@njit(cache=True, nogil=True)
def count_ready(
    rows: Any,
    ends: Any,
    keys: Any,
    counts: Any,
    histogram: Any,
    histograms: Any,
    start: Any,
    stop: Any,
    bins: Any,
    spilled: Any,
    used: Any,
) -> int:
    """Count ready-made bins, as ``count_values``; amounts beyond a count's 32 bits are set aside in ``spilled``.

    Stops as well when ``spilled`` might not have room for all of a row's.
    """
    bins_max = bins.shape[0] // 2
    shift = _shift_of(bins)
    for i in range(start, stop):
        if rows[i] == EMPTY:
            continue
        first, last = ends[i], ends[i + 1]
        if used[1] + last - first > bins_max or used[2] + last - first > spilled.shape[0]:
            return i
        for k in range(first, last):
            key = np.uint64(((rows[i] * histograms + histogram) << _BIN_BITS) | (keys[k] + 1))
            amount = np.uint64(counts[k])
            place = _place_of(bins, shift, key)
            held = bins[place]
            if held == _NONE:
                used[1] += 1
                held = (key << _HALF) | _ONE
                amount -= _ONE
            if amount <= _LOW - (held & _LOW):
                held += amount
            else:
                spilled[used[2], 0] = key
                spilled[used[2], 1] = amount
                used[2] += 1
            bins[place] = held
    return stop


@njit(cache=True, nogil=True)
def grow_bins(old: Any, new: Any) -> None:
    """Enter all bins of ``old`` into the empty, larger ``new``."""
    shift = _shift_of(new)
    for i in range(old.shape[0]):
        if old[i] != _NONE:
            new[_place_of(new, shift, old[i] >> _HALF)] = old[i]


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
def add_values(
    series: Any,
    at: Any,
    windows: Any,
    values: Any,
    start: Any,
    stop: Any,
    sketches: Any,
    gauges: Any,
    cells: Any,
    heads: Any,
    nexts: Any,
    row_windows: Any,
    row_series: Any,
    used: Any,
    rows: Any,
) -> int:
    """Add rows ``[start, stop)`` to the cells of their (window, series); returns the row reached.

    Writes the line that each went to into ``rows``. Stops when the next one might need a line more than there is.
    """
    for i in range(start, stop):
        rows[i] = EMPTY
        if series[i] == EMPTY:
            continue
        if used[0] >= cells.shape[0]:
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
        rows[i] = row
        line = cells[row]
        line[EVENT_COUNT] += 1
        base = SKETCH_FROM
        for f in range(sketches):
            if values[f, i] != UNKNOWN:
                _spread(line, base, values[f, i])
            base += SKETCH_CELLS
        _add_levels(line, values, i, at[i], base, sketches, sketches + gauges)
        base += gauges * GAUGE_CELLS
        _add_amounts(line, values, i, base, sketches + gauges, values.shape[0])
        line[LAST_AT] = max(line[LAST_AT], at[i])
    return stop


@njit(cache=True, nogil=True)
def measure_bins(bins: Any, positions: Any, histograms: Any, rows: Any, sizes: Any) -> None:
    """Count the bins in use by histogram and position: ``sizes[histogram * rows + positions[row]]``."""
    for i in range(bins.shape[0]):
        if bins[i] != _NONE:
            cell = np.int64(bins[i] >> (_HALF + np.uint64(_BIN_BITS)))
            sizes[(cell % histograms) * rows + positions[cell // histograms]] += 1


@njit(cache=True, nogil=True)
def place_bins(bins: Any, positions: Any, histograms: Any, rows: Any, cursors: Any, keys: Any, counts: Any) -> None:
    """Write each bin where the cursor of its histogram and position stands, and move that on."""
    for i in range(bins.shape[0]):
        held = bins[i]
        if held != _NONE:
            key = np.int64(held >> _HALF)
            cell = key >> _BIN_BITS
            target = (cell % histograms) * rows + positions[cell // histograms]
            cursor = cursors[target]
            cursors[target] = cursor + 1
            keys[cursor] = (key & _BIN_MASK) - 1
            counts[cursor] = held & _LOW


@njit(cache=True, nogil=True)
def sort_bins(ends: Any, keys: Any, counts: Any) -> None:
    """Bring the bins of each histogram into rising order: few by insertion, many through a line of all bins."""
    line = np.zeros(1 << _BIN_BITS, np.uint64)
    start = np.int64(0)
    for j in range(ends.shape[0]):
        stop = ends[j]
        if stop - start <= _INSERTION_MAX:
            for i in range(start + 1, stop):
                key, count = keys[i], counts[i]
                k = i
                while k > start and keys[k - 1] > key:
                    keys[k], counts[k] = keys[k - 1], counts[k - 1]
                    k -= 1
                keys[k], counts[k] = key, count
        else:
            for i in range(start, stop):
                line[keys[i] + 1] = counts[i]
            place: Any = start
            for found in range(line.shape[0]):
                if line[found] != _NONE:
                    keys[place], counts[place] = found - 1, line[found]
                    line[found] = _NONE
                    place += 1
        start = stop


@njit(cache=True, nogil=True)
def add_spilled(spilled: Any, positions: Any, histograms: Any, rows: Any, ends: Any, keys: Any, counts: Any) -> None:
    """Add amounts too large for the table to the bins they belong to."""
    for i in range(spilled.shape[0]):
        cell, found = spilled[i, 0] >> _BIN_BITS, (spilled[i, 0] & _BIN_MASK) - 1
        target = (cell % histograms) * rows + positions[cell // histograms]
        place = ends[target] - 1
        while keys[place] != found:
            place -= 1
        counts[place] += np.uint64(spilled[i, 1])
