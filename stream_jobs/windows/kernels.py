"""The compiled loops over rows: finding the series of a row, adding a row to its sums. Bins: see ``bin_kernels``.

Every loop takes columns of one fixed type each (whole numbers of 64 or 32 bits, contiguous), so that each is compiled
once, before the job reads its first record (``warm``). They hold no lock of the interpreter. A loop that needs room
it may not have stops before the row and says where; the caller makes room and calls again. What a loop reads besides
its arguments stands in its own module, because numba's cache on disk looks at that file alone.

All arithmetic is on whole numbers: the same rows give the same bytes on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

UNKNOWN = np.iinfo(np.int64).min
"""Stands for null inside the fold's own columns; no field may hold it (all bounds lie far above)."""
LEAST = np.iinfo(np.int64).max
EMPTY = -1

# Where the cells of a line stand; ``plan`` says what they mean.
EVENT_COUNT = 0
LAST_AT = 1
SKETCH_FROM = 2
SKETCH_CELLS = 4
GAUGE_CELLS = 5
DIFFERENCE_CELLS = 2

_MIX = np.uint64(0x9E3779B97F4A7C15)
_TAG = np.uint64(0xFFFFFFFF00000000)
_LOW = np.uint64(0x00000000FFFFFFFF)
_HALF = np.uint64(32)
_NONE = np.uint64(0)


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
def name_words(
    codes: Any, verdicts: Any, tenants: Any, known: Any, opened: Any, unnamed_max: Any, named_max: Any, first: Any,
    room: Any, found: Any, openers: Any, out: Any,
) -> int:  # fmt: skip
    """Write the code of each row's word; words not ``known`` get those from ``first`` on, ``room`` of them at most.

    ``opened[t]`` are the words that rows of tenant ``t`` named first. A row whose tenant has named as many as one may,
    or that finds no room, gets 1; a later row of another tenant may still name its word. Words named here are written
    to ``found``, with their tenants to ``openers``; returns how many.
    """
    count = 0
    for i in range(codes.shape[0]):
        number: Any = np.int64(known[codes[i]])
        if number < 0 and verdicts[i] == 0:
            tenant = tenants[i]
            if count < room and opened[tenant] < (named_max if tenant else unnamed_max):
                number = first + count
                known[codes[i]] = number
                found[count] = codes[i]
                openers[count] = tenant
                opened[tenant] += 1
                count += 1
            else:
                number = np.int64(1)
        out[i] = number
    return count


@njit(cache=True, nogil=True)
def progress(
    at: Any, appended: Any, skew: Any, record_of: Any, verdicts: Any, start: Any, stop: Any, beyond: Any
) -> Any:
    """Greatest event time (not above append time) of accepted rows, and the first row where it reaches ``beyond``.

    Of a record whose sender's clock is off, by ``skew`` ms, late and future rows count too; the skew is taken out.
    """
    greatest = np.int64(UNKNOWN)
    for i in range(start, stop):
        record = record_of[i]
        if verdicts[i] == 0 or (verdicts[i] <= 2 and skew[record] != 0):
            moment = min(at[i] - skew[record], appended[record])
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
    codes: Any, positions: Any, verdicts: Any, windows: Any, start: Any, stop: Any,
    lines: Any, last_windows: Any, index: Any, count: Any, limit: Any,
    tenant_at: Any, openers: Any, opened: Any, unnamed_max: Any, named_max: Any, out: Any,
) -> Any:  # fmt: skip
    """Number of the series of each accepted row in ``[start, stop)``, new ones added up to ``limit``, else 0.

    Series 0 stands for all others. Where ``tenant_at`` is the line of ``codes`` with tenants, not -1, rows of tenant
    ``t`` open no more than ``named_max`` series, those without one (0) ``unnamed_max``: ``opened[t]`` counts them.
    Returns (series now, row reached); stops when ``lines`` has no room.
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
            tenant = np.int64(codes[tenant_at, i]) if tenant_at >= 0 else np.int64(0)
            if count >= limit or (tenant_at >= 0 and opened[tenant] >= (named_max if tenant else unnamed_max)):
                number = 0
            elif count >= lines.shape[0]:
                return count, i
            else:
                number = count
                for d in range(width):
                    lines[number, d] = codes[positions[d], i]
                index[place] = tag | np.uint64(number + 1)
                count += 1
                if tenant_at >= 0:
                    openers[number] = tenant
                    opened[tenant] += 1
        out[i] = number
        if windows[i] > last_windows[number]:
            last_windows[number] = windows[i]
    return count, stop


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
    series: Any, at: Any, windows: Any, values: Any, start: Any, stop: Any, sketches: Any, gauges: Any,
    cells: Any, heads: Any, nexts: Any, row_windows: Any, row_series: Any, used: Any, rows: Any,
) -> int:  # fmt: skip
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
        base = np.int64(SKETCH_FROM)  # not a constant: loops that take it would be compiled once more for it
        for f in range(sketches):
            if values[f, i] != UNKNOWN:
                _spread(line, base, values[f, i])
            base += SKETCH_CELLS
        _add_levels(line, values, i, at[i], base, sketches, sketches + gauges)
        base += gauges * GAUGE_CELLS
        _add_amounts(line, values, i, base, sketches + gauges, values.shape[0])
        line[LAST_AT] = max(line[LAST_AT], at[i])
    return stop
