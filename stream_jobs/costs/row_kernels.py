"""The compiled loop that adds up rows of the minute buffer. Null is ``UNKNOWN``; amounts are at least 0.

Sums are held at ``SUM_MAX``, so that they are the same in any order and cut: what producers may send would wrap 64 bits
where somebody sends half a million of the greatest amounts. A negative amount is a sum that wrapped before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

UNKNOWN = np.iinfo(np.int64).min
SUM_MAX = 2**60
"""More than any minute has, and few enough that eight of them add up in 64 bits."""


@njit(cache=True, nogil=True)
def add(order: Any, firsts: Any, values: Any, out: Any) -> None:
    """Sums of the known values of each group ``order[firsts[g]:firsts[g + 1]]``; null where none is known."""
    for group in range(len(firsts) - 1):
        total = UNKNOWN
        for place in range(firsts[group], firsts[group + 1]):
            value = values[order[place]]
            if value != UNKNOWN:
                if not 0 <= value <= SUM_MAX:
                    value = SUM_MAX
                total = min(max(total, 0) + value, SUM_MAX)
        out[group] = total
