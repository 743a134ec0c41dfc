"""The compiled loops beside those that add usage up: remembering keys, and from sums to columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

UNKNOWN = np.iinfo(np.int64).min
EMPTY = -1
MISSED = -2
OTHER_SERIES = 0

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@njit(cache=True, nogil=True)
def recall_keys(one: Any, one_series: Any, two: Any, two_series: Any, known: Any, out: Any) -> int:
    """Write the key of each pair of series that is remembered, else ``MISSED``; returns how many are.

    ``one`` and ``two`` are the lines of sums that events went to, ``EMPTY`` where they count nowhere. ``known`` holds
    (pair, key) at the place of the pair's hash, the last one that fell there; a power of two long.
    """
    missed, mask = 0, np.uint64(known.shape[0] - 1)
    for i in range(one.shape[0]):
        if one[i] == EMPTY:
            out[i] = EMPTY
            continue
        pair = one_series[one[i]] << 32 | two_series[two[i]]
        place = ((np.uint64(pair) * _MIX) >> _HALF) & mask
        if known[place, 0] == pair:
            out[i] = known[place, 1]
        else:
            out[i] = MISSED
            missed += 1
    return missed


@njit(cache=True, nogil=True)
def remember_keys(one: Any, one_series: Any, two: Any, two_series: Any, found: Any, known: Any, out: Any) -> None:
    """Replace every ``MISSED`` by the key found, and remember it where both series have names of their own."""
    mask = np.uint64(known.shape[0] - 1)
    for i in range(one.shape[0]):
        if out[i] != MISSED:
            continue
        out[i] = found[i]
        a, b = one_series[one[i]], two_series[two[i]]
        if a != OTHER_SERIES and b != OTHER_SERIES:
            pair = a << 32 | b
            place = ((np.uint64(pair) * _MIX) >> _HALF) & mask
            known[place, 0] = pair
            known[place, 1] = found[i]


@njit(cache=True, nogil=True)
def gather_amounts(cells: Any, chosen: Any, values: Any, known: Any) -> None:
    """Write the cells of some rows as columns, 0 where unknown."""
    for i in range(chosen.shape[0]):
        for f in range(cells.shape[1]):
            amount = cells[chosen[i], f]
            known[f, i] = amount != UNKNOWN
            values[f, i] = amount if amount != UNKNOWN else 0


@njit(cache=True, nogil=True)
def gather_labels(
    lines: Any, keys: Any, chosen: Any, bases: Any, places: Any, words: Any, out: Any, counts: Any
) -> None:
    """Write the labels of some rows as columns: the place of each word among those in use, which begin with null.

    Of label ``c`` ``counts[c]`` are in use; ``words[bases[c] + place]`` becomes the code of one. They stand as they are
    first used. ``places`` are 0 for every code.
    """
    for c in range(out.shape[0]):
        words[bases[c]] = 0
        counts[c] = 1
    for i in range(chosen.shape[0]):
        key = keys[chosen[i]]
        for c in range(out.shape[0]):
            code = lines[key, c]
            at = bases[c] + code
            if code != 0 and places[at] == 0:
                places[at] = counts[c]
                words[bases[c] + counts[c]] = code
                counts[c] += 1
            out[c, i] = places[at]
