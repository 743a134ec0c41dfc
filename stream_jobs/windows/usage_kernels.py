"""The compiled loops that bring usage rows from sums to columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

UNKNOWN = np.iinfo(np.int64).min


@njit(cache=True, nogil=True)
def gather_amounts(cells: Any, chosen: Any, values: Any, known: Any) -> None:
    """Write the cells of some rows as columns, 0 where unknown."""
    for i in range(chosen.shape[0]):
        for f in range(cells.shape[1]):
            amount = cells[chosen[i], f]
            known[f, i] = amount != UNKNOWN
            values[f, i] = amount if amount != UNKNOWN else 0


@njit(cache=True, nogil=True)
def gather_labels(lines: Any, keys: Any, chosen: Any, column: Any, places: Any, words: Any, out: Any) -> int:
    """Write a label of some rows as the place of its word among those in use, which begin with null; returns how many.

    ``words[place]`` becomes the code of that word; they stand as they are first used. ``places`` are 0 for every code.
    """
    count = 1
    words[0] = 0
    for i in range(chosen.shape[0]):
        code = lines[keys[chosen[i]], column]
        if code != 0 and places[code] == 0:
            places[code] = count
            words[count] = code
            count += 1
        out[i] = places[code]
    return count
