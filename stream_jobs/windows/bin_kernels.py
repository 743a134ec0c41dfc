"""The compiled loops over sketch bins: which bin a value has, and merging the bins of all events of a row.

Bins are merged once, at the commit: events are grouped by their row, then row after row is added up in one *line* of
all bins (8 KiB, so it stays in the processor's nearest memory) and read off in order. Nothing is looked up or sorted,
whatever the number of rows. Events of a row with few values are entered in order instead. See ``kernels`` for what
all loops keep to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from schemas.sketch import BIN_MAX, BOUNDS, ZERO_BIN
from stream_jobs.windows.kernels import EMPTY

NO_BIN = -9

_SHIFT = 46
_FIRST_CELL = 1023 << 6
_INSERTION_MAX = 16
"""Values of a row up to which entering each in order is cheaper than reading through a line."""
_LINE = BIN_MAX - ZERO_BIN + 1
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


@njit(cache=True, nogil=True)
def bins_of(values: Any, out: Any) -> None:
    """Sketch bins of whole numbers, as ``schemas.sketch.bin_of``; ``NO_BIN`` for unknown (and rejected, negative) ones.

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
def keep_ready(
    ends: Any, keys: Any, counts: Any, start: Any, stop: Any, events: Any, pairs: Any,
    to_ends: Any, to_keys: Any, to_less_one: Any,
) -> None:  # fmt: skip
    """Copy the ready-made bins of rows ``[start, stop)`` behind the ``events`` and ``pairs`` that are there."""
    first = ends[start - 1] if start else np.int64(0)
    for i in range(start, stop):
        to_ends[events + i - start] = ends[i] - first + pairs
    for k in range(first, ends[stop - 1]):
        to_keys[pairs + k - first] = keys[k]
        to_less_one[pairs + k - first] = counts[k] - _ONE


@njit(cache=True, nogil=True)
def count_events(lines: Any, base: Any, ends: Any) -> None:
    """Add one to ``ends[base + row]`` for each event that went to a row."""
    for i in range(lines.shape[0]):
        if lines[i] != EMPTY:
            ends[base + lines[i]] += 1


@njit(cache=True, nogil=True)
def group_events(lines: Any, base: Any, cursors: Any, events: Any) -> None:
    """Write each event where the cursor of its row stands, and move that on."""
    for i in range(lines.shape[0]):
        if lines[i] != EMPTY:
            row = base + lines[i]
            events[cursors[row]] = i
            cursors[row] += 1


@njit(cache=True, nogil=True)
def _read_off(line: Any, low: Any, high: Any, place: Any, keys: Any, counts: Any) -> int:
    """Write the bins ``[low, high]`` in use behind ``place`` and clear them; returns the place after them."""
    for key in range(low, high + 1):
        count = line[key - ZERO_BIN]
        if count != _NONE:
            keys[place], counts[place] = key, count
            line[key - ZERO_BIN] = _NONE
            place += 1
    return place


@njit(cache=True, nogil=True)
def _enter(key: Any, first: Any, place: Any, keys: Any, counts: Any) -> int:
    """Count a bin once among the rising ones in ``[first, place)``; returns the place after them."""
    k = place
    while k > first and keys[k - 1] > key:
        k -= 1
    if k > first and keys[k - 1] == key:
        counts[k - 1] += _ONE
        return place
    for j in range(place, k, -1):
        keys[j], counts[j] = keys[j - 1], counts[j - 1]
    keys[k], counts[k] = key, _ONE
    return place + 1


@njit(cache=True, nogil=True)
def merge_values(order: Any, firsts: Any, events: Any, found: Any, ends: Any, keys: Any, counts: Any) -> int:
    """Bins of the values of all rows in the given order: ``found`` holds each event's bin; returns how many.

    The events of row ``r`` are ``events[firsts[r]:firsts[r + 1]]``; the bins of the ``p``-th row end at ``ends[p]``.
    """
    line = np.zeros(_LINE, np.uint64)
    place: Any = np.int64(0)
    for p in range(order.shape[0]):
        first, last = firsts[order[p]], firsts[order[p] + 1]
        if last - first <= _INSERTION_MAX:
            begin = place
            for e in range(first, last):
                key = np.int64(found[events[e]])
                if key != NO_BIN:
                    place = _enter(key, begin, place, keys, counts)
        else:
            low, high = np.int64(BIN_MAX), np.int64(ZERO_BIN)
            for e in range(first, last):
                key = np.int64(found[events[e]])
                if key != NO_BIN:
                    line[key - ZERO_BIN] += _ONE
                    low, high = min(low, key), max(high, key)
            place = _read_off(line, low, high, place, keys, counts)
        ends[p] = place
    return place


@njit(cache=True, nogil=True)
def _merge_ready(
    order: Any, firsts: Any, events: Any, event_ends: Any, event_keys: Any, event_counts: Any, missing: Any,
    ends: Any, keys: Any, counts: Any,
) -> int:  # fmt: skip
    """As ``merge_values`` for ready-made bins, which rise within an event. Every count lacks ``missing``."""
    line = np.zeros(_LINE, np.uint64)
    place: Any = np.int64(0)
    for p in range(order.shape[0]):
        low, high = np.int64(BIN_MAX), np.int64(ZERO_BIN)
        for e in range(firsts[order[p]], firsts[order[p] + 1]):
            event = events[e]
            first = event_ends[event - 1] if event else np.int64(0)
            last = event_ends[event]
            for k in range(first, last):
                line[np.int64(event_keys[k]) - ZERO_BIN] += np.uint64(event_counts[k]) + missing
            if first < last:
                low, high = min(low, np.int64(event_keys[first])), max(high, np.int64(event_keys[last - 1]))
        place = _read_off(line, low, high, place, keys, counts)
        ends[p] = place
    return place


@njit(cache=True, nogil=True)
def merge_ready(
    order: Any, firsts: Any, events: Any, event_ends: Any, event_keys: Any, event_counts: Any,
    ends: Any, keys: Any, counts: Any,
) -> int:  # fmt: skip
    """As ``merge_values`` for ready-made bins, which rise within an event."""
    return _merge_ready(order, firsts, events, event_ends, event_keys, event_counts, _NONE, ends, keys, counts)


@njit(cache=True, nogil=True)
def merge_kept(
    order: Any, firsts: Any, events: Any, event_ends: Any, event_keys: Any, event_less_one: Any,
    ends: Any, keys: Any, counts: Any,
) -> int:  # fmt: skip
    """As ``merge_ready`` for bins as ``histograms.Ready`` holds them: every count is one less than it was."""
    return _merge_ready(order, firsts, events, event_ends, event_keys, event_less_one, _ONE, ends, keys, counts)
