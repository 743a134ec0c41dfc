"""The sketch grid: DDSketch bins with gamma = 2^(1/32), the same grid as OpenTelemetry exponential histograms of
scale 5 and Prometheus native histograms of schema 5.

Bin ``k`` holds the whole numbers ``v`` with ``2^((k-1)/32) < v <= 2^(k/32)``; its value is ``2 gamma^k / (gamma+1)``,
at most 1.083 % away from any of them. Zero has its own bin. The bin of a value comes from a table of whole-number
bounds, never from a floating-point logarithm (which differs between processors). Merging adds counts: exact, in any
order. Source: Masson, Rim, Lee, "DDSketch", VLDB 2019; OpenTelemetry data model, ExponentialHistogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, isqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

BINS_PER_OCTAVE = 32
GAMMA = 2.0 ** (1.0 / BINS_PER_OCTAVE)
VALUE_MAX = 3_600_000_000
"""Largest value with a bin of its own (one hour in microseconds); larger ones share its bin."""
ZERO_BIN = -1
BIN_MAX = 1_016
RELATIVE_ERROR_MAX = (GAMMA - 1) / (GAMMA + 1)


def _bound(index: int) -> int:
    """Largest whole number in bins up to ``index``: the 32nd root of ``2^index``, rounded down."""
    value = 1 << index
    for _ in range(5):
        value = isqrt(value)
    return value


BOUNDS: npt.NDArray[np.int64] = np.array([_bound(index) for index in range(BIN_MAX + 1)], dtype=np.int64)
"""``BOUNDS[k]`` is the largest whole number of bin ``k``; entries repeat where a bin holds no whole number."""
BOUNDS.setflags(write=False)


def bin_of(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
    """Bin index of each value (shape kept). Values above ``VALUE_MAX`` are clipped; negative ones are our own bug."""
    assert values.size == 0 or values.min() >= 0
    clipped = np.minimum(values, BOUNDS[BIN_MAX])
    bins = np.searchsorted(BOUNDS, clipped, side="left").astype(np.int16)
    bins[values == 0] = ZERO_BIN
    return bins


def value_of(index: int) -> float:
    """The value that stands for a bin."""
    return 0.0 if index == ZERO_BIN else 2.0 * GAMMA**index / (GAMMA + 1.0)


def quantile(bins: Mapping[int, int], q: float, method: Literal["linear", "lower"] = "linear") -> float | None:
    """The quantile of the ``n`` counted values; None when there are none.

    ``linear``: between the values at the ranks around ``q (n - 1)``, as numpy's default, vLLM's benchmark and aiperf
    have it. ``lower``: the value at rank ``floor(q (n - 1))``, which one of them had. ``q`` in [0, 1]. Within
    ``RELATIVE_ERROR_MAX`` of what the values themselves give, for values up to ``VALUE_MAX``.
    """
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"q = {q} must lie in [0, 1]")
    total = sum(bins.values())
    if not total:
        return None
    position = q * (total - 1)
    rank = floor(position)
    below = _value_at(bins, rank)
    if method == "lower":
        return below
    part = position - rank
    return (1.0 - part) * below + part * _value_at(bins, min(rank + 1, total - 1))


def _value_at(bins: Mapping[int, int], rank: int) -> float:
    for index in sorted(bins):
        rank -= bins[index]
        if rank < 0:
            return value_of(index)
    raise AssertionError("a rank below the number of values")


def counted_min(q: float) -> int:
    """The fewest values of which quantile ``q``, in [0.5, 1), says something: 1 / (1 - q), so that one of them lies
    above it; 100 for p99. Of fewer it is little more than the largest, and people read *few* in its place."""
    return ceil(1.0 / (1.0 - q) - 1e-6)


def merge(*parts: Mapping[int, int]) -> dict[int, int]:
    """The sketch of all values of the parts: counts added, bins in rising order."""
    total: dict[int, int] = {}
    for part in parts:
        for index, count in part.items():
            total[index] = total.get(index, 0) + count
    return dict(sorted(total.items()))
