"""The compiled loops over sketch bins: which bin a value has, counting bins, bringing them into order.

A bin of a table is one number of 64 bits: row, histogram and bin in the upper half (the key), the count in the lower;
0 is an empty place. The 32 bits of the key bound the rows of one table; amounts that do not fit the count are kept
aside as *spilled*. A row has 2^bits places for histograms. See ``kernels`` for what all loops keep to.
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
_BIN_BITS = 10
_BIN_MASK = (1 << _BIN_BITS) - 1
_GROUP = np.uint64(3)
_IN_GROUP = np.uint64(7)
_INSERTION_MAX = 48
_MIX = np.uint64(0x9E3779B97F4A7C15)
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


def histogram_bits(histograms: int) -> int:
    """Bits that number the histograms of a row."""
    return max(histograms - 1, 0).bit_length()


def rows_max(histograms: int) -> int:
    """Rows that one table of bins can tell apart."""
    return 1 << 32 - _BIN_BITS - histogram_bits(histograms)


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
def count_values(rows: Any, found: Any, histogram: Any, bits: Any, start: Any, stop: Any, bins: Any, used: Any) -> int:
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
        key = np.uint64((((rows[i] << bits) | histogram) << _BIN_BITS) | (found[i] + 1))
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
    bits: Any,
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
            key = np.uint64((((rows[i] << bits) | histogram) << _BIN_BITS) | (keys[k] + 1))
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
def measure_bins(bins: Any, positions: Any, bits: Any, rows: Any, sizes: Any) -> None:
    """Count the bins in use by histogram and position: ``sizes[histogram * rows + positions[row]]``."""
    for i in range(bins.shape[0]):
        if bins[i] != _NONE:
            cell = np.int64(bins[i] >> (_HALF + np.uint64(_BIN_BITS)))
            sizes[(cell & ((1 << bits) - 1)) * rows + positions[cell >> bits]] += 1


@njit(cache=True, nogil=True)
def place_bins(bins: Any, positions: Any, bits: Any, rows: Any, cursors: Any, keys: Any, counts: Any) -> None:
    """Write each bin where the cursor of its histogram and position stands, and move that on."""
    for i in range(bins.shape[0]):
        held = bins[i]
        if held != _NONE:
            key = np.int64(held >> _HALF)
            cell = key >> _BIN_BITS
            target = (cell & ((1 << bits) - 1)) * rows + positions[cell >> bits]
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
def add_spilled(spilled: Any, positions: Any, bits: Any, rows: Any, ends: Any, keys: Any, counts: Any) -> None:
    """Add amounts too large for the table to the bins they belong to."""
    for i in range(spilled.shape[0]):
        cell, found = spilled[i, 0] >> _BIN_BITS, (spilled[i, 0] & _BIN_MASK) - 1
        target = (cell & ((1 << bits) - 1)) * rows + positions[cell >> bits]
        place = ends[target] - 1
        while keys[place] != found:
            place -= 1
        counts[place] += np.uint64(spilled[i, 1])
