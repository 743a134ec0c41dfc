"""The compiled loops that merge rows, a column at a time.

All take groups of input rows (group ``g`` is ``order[firsts[g]:firsts[g + 1]]``, none empty), the column's ``values``
and which are ``known``, and write a value and whether it is known per group. Unknown values read 0.
"""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True, nogil=True)
def add(order: Any, firsts: Any, values: Any, known: Any, out: Any, out_known: Any) -> None:
    """Sums of the known values."""
    for group in range(len(firsts) - 1):
        total, some = values[order[firsts[group]]], known[order[firsts[group]]]
        for place in range(firsts[group] + 1, firsts[group + 1]):
            total += values[order[place]]
            some |= known[order[place]]
        out[group], out_known[group] = total, some


@njit(cache=True, nogil=True)
def least(order: Any, firsts: Any, values: Any, known: Any, out: Any, out_known: Any) -> None:
    """The least known values."""
    for group in range(len(firsts) - 1):
        found, some = 0, False
        for place in range(firsts[group], firsts[group + 1]):
            row = order[place]
            if known[row] and (not some or values[row] < found):
                found, some = values[row], True
        out[group], out_known[group] = found, some


@njit(cache=True, nogil=True)
def greatest(order: Any, firsts: Any, values: Any, known: Any, out: Any, out_known: Any) -> None:
    """The greatest known values."""
    for group in range(len(firsts) - 1):
        found, some = 0, False
        for place in range(firsts[group], firsts[group + 1]):
            row = order[place]
            if known[row] and (not some or values[row] > found):
                found, some = values[row], True
        out[group], out_known[group] = found, some


@njit(cache=True, nogil=True)
def latest(order: Any, firsts: Any, at: Any, values: Any, known: Any, out: Any, out_known: Any) -> None:
    """The greatest known value among the rows with the greatest ``at``; unknown where none of those knows it."""
    for group in range(len(firsts) - 1):
        last = at[order[firsts[group]]]
        for place in range(firsts[group] + 1, firsts[group + 1]):
            last = max(last, at[order[place]])
        found, some = 0, False
        for place in range(firsts[group], firsts[group + 1]):
            row = order[place]
            if at[row] == last and known[row] and (not some or values[row] > found):
                found, some = values[row], True
        out[group], out_known[group] = found, some
