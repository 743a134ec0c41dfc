"""The compiled loop that adds usage up: a line of five whole numbers for every window of a key."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

UNKNOWN = np.iinfo(np.int64).min
EMPTY = -1


@njit(cache=True, nogil=True)
def add_usage(
    keys: Any,
    first: Any,
    requests: Any,
    windows: Any,
    amounts: Any,
    start: Any,
    cells: Any,
    heads: Any,
    nexts: Any,
    row_windows: Any,
    row_keys: Any,
    used: Any,
) -> int:
    """Add rows from ``start`` on, of which the key is ``keys[first + requests[row]]``; returns the row reached.

    Unknown and a number make the number. Rows of a key are chained, the newest first. Stops when the next one might
    need a line more than there is.
    """
    for i in range(start, windows.shape[0]):
        if used[0] >= cells.shape[0]:
            return i
        key, window = keys[first + requests[i]], windows[i]
        row = heads[key]
        while row != EMPTY and row_windows[row] != window:
            row = nexts[row]
        if row == EMPTY:
            row = used[0]
            used[0] += 1
            nexts[row], heads[key] = heads[key], row
            row_windows[row], row_keys[row] = window, key
            for f in range(amounts.shape[0]):
                cells[row, f] = amounts[f, i]
            continue
        for f in range(amounts.shape[0]):
            amount = amounts[f, i]
            if amount != UNKNOWN:
                held = cells[row, f]
                cells[row, f] = amount if held == UNKNOWN else held + amount
    return windows.shape[0]
