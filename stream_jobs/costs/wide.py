"""Products of two 64-bit numbers divided by a third, exactly, for whole columns: what integer money is made of.

A price times an energy leaves 64 bits long before the quotient does. Here the quotient is guessed in floating point and
mended with the remainder, which is exact modulo 2**64: three conversions, a product and a division are each off by at
most 2**-53 of their value, so below ``FAST_QUOTIENT`` = 2**50 the guess is off by less than one, the remainder by less
than two divisors, and with divisors up to ``FAST_DIVISOR`` = 2**61 that fits 64 bits. Where a column leaves these
bounds, all of it goes by Python's own integers: slower by a hundred times, never wrong.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

UNKNOWN = np.iinfo(np.int64).min
"""Stands for null in columns of whole numbers; no amount may hold it."""
FAST_QUOTIENT = 2.0**50
FAST_DIVISOR = 2**61


def ints(values: Any) -> Ints:
    """A column of whole numbers; None becomes ``UNKNOWN``. Floats are refused: they round."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "iu":
            raise TypeError(f"a column of {values.dtype} is no column of whole numbers")
        return values.astype(np.int64)
    return np.array([UNKNOWN if value is None else value for value in values], dtype=np.int64).reshape(-1)


def multiply_divide(a: Ints, b: Ints, divisor: Ints) -> tuple[Ints, Ints]:
    """Quotient (rounded down) and remainder of ``a * b / divisor``, element by element, exact.

    All of one shape; ``a``, ``b`` >= 0, ``divisor`` > 0. ``OverflowError`` where a quotient leaves 64 bits.
    """
    assert a.shape == b.shape == divisor.shape
    if not len(a):
        return a.copy(), a.copy()
    assert a.min() >= 0
    assert b.min() >= 0
    assert divisor.min() > 0
    guess = a.astype(np.float64) * b.astype(np.float64) / divisor.astype(np.float64)
    if guess.max() >= FAST_QUOTIENT or divisor.max() > FAST_DIVISOR:
        return _by_python(a, b, divisor)
    quotient = guess.astype(np.int64)
    remainder = (_wrapped(a, b) - _wrapped(quotient, divisor)).view(np.int64)
    step = remainder // divisor
    return quotient + step, remainder - step * divisor


def _wrapped(a: Ints, b: Ints) -> npt.NDArray[np.uint64]:
    """The lowest 64 bits of the product."""
    return a.view(np.uint64) * b.view(np.uint64)


def _by_python(a: Ints, b: Ints, divisor: Ints) -> tuple[Ints, Ints]:
    pairs = [divmod(x * y, z) for x, y, z in zip(a.tolist(), b.tolist(), divisor.tolist(), strict=True)]
    return np.array([q for q, _ in pairs], dtype=np.int64), np.array([r for _, r in pairs], dtype=np.int64)


def rounded(a: Ints, b: Ints, divisor: Ints) -> Ints:
    """``a * b / divisor`` to the nearest whole number, halves to even. Bounds of ``multiply_divide``."""
    quotient, remainder = multiply_divide(a, b, divisor)
    above, half = remainder > divisor - remainder, remainder == divisor - remainder
    return quotient + (above | (half & (quotient % 2 == 1)))
