"""A whole number shared out by weights without losing a unit: the method of largest remainder, for many rows at once.

Of ``total`` each part first gets ``floor(total * weight / weights)``; what is left, always fewer units than there are
parts, goes one unit each to the parts with the largest remainders, **of equal remainders to the lowest index first**.
So parts add up to the total always, each is off its exact share by less than one unit, a greater weight never gets less
than a smaller one, and without ties of remainders the order of the parts does not matter: who needs the same result for
any order of arrival sorts the parts first. (A greater *total* may take a unit from a part: the Alabama paradox. Every
bill is split again, nothing is carried from one to the next.)

Bounds: totals and weights in [0, 2**63), the weights of a row together below 2**63. Up to totals of 2**50 (a million
dollars in nano-dollars) and weights of 2**61 everything is vectorised; beyond, exact all the same but slower.
"""

from __future__ import annotations

import numpy as np

from stream_jobs.costs.wide import Flags, Ints, multiply_divide

_SUM_MAX = 2.0**63 * (1 - 2.0**-40)


def apportion(totals: Ints, weights: Ints, starts: Ints) -> Ints:
    """Parts of ``totals`` (n rows) by ``weights`` (those of all rows, one behind another), in the shape of ``weights``.

    Row i's are ``[starts[i], starts[i + 1])``: ``starts`` has n + 1 entries from 0 to ``len(weights)``. Rules and
    bounds stand above.

    ``ValueError`` for negative numbers, weights of a row beyond 64 bits, and a total above 0 whose weights are all 0 or
    missing: there is nobody to take it, and who that is, the caller must say.
    """
    counts = np.diff(starts)
    assert len(starts) == len(totals) + 1
    assert starts[0] == 0
    assert starts[-1] == len(weights)
    row = np.repeat(np.arange(len(totals), dtype=np.int64), counts)
    sums = _sums(weights, row, len(totals))
    _check(totals, weights, sums)
    shared, remainder = multiply_divide(totals[row], weights, np.maximum(sums, 1)[row])
    left = np.where(sums > 0, totals - added(shared, row, len(totals)), 0)
    return shared + _largest(remainder, row, starts, left)


def apportion_one(total: int, weights: list[int]) -> list[int]:
    """``apportion`` of a single total."""
    column = np.array(weights, dtype=np.int64)
    starts = np.array([0, len(weights)], dtype=np.int64)
    return apportion(np.array([total], dtype=np.int64), column, starts).tolist()


def _largest(remainder: Ints, row: Ints, starts: Ints, left: Ints) -> Flags:
    """Which parts get one of the units left: in each row the ``left`` ones with the largest remainder."""
    order = np.lexsort((-remainder, row))  # stable: equal remainders stay in the order of their index
    gets = np.empty(len(row), dtype=np.bool_)
    gets[order] = np.arange(len(row)) - starts[:-1][row] < left[row]
    return gets


def added(values: Ints, row: Ints, rows: int) -> Ints:
    """Sums of ``values`` by ``row``, one for each of ``rows``."""
    sums = np.zeros(rows, dtype=np.int64)
    np.add.at(sums, row, values)
    return sums


def _sums(weights: Ints, row: Ints, rows: int) -> Ints:
    if np.bincount(row, weights.astype(np.float64), minlength=rows).max(initial=0.0) >= _SUM_MAX:
        raise ValueError("the weights of a row add up to more than 64 bits hold; give smaller weights")
    return added(weights, row, rows)


def _check(totals: Ints, weights: Ints, sums: Ints) -> None:
    if totals.min(initial=0) < 0 or weights.min(initial=0) < 0:
        raise ValueError("totals and weights must not be negative")
    if (orphans := np.flatnonzero((totals > 0) & (sums == 0))).size:
        raise ValueError(f"row {orphans[0]}: {totals[orphans[0]]} to share out and no weight above 0")
