"""Arrays that grow: room is made for twice as much as there was, so that growing costs a copy or two of each item."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item", bound=np.generic)


def grown(array: npt.NDArray[Item], least: int) -> npt.NDArray[Item]:
    """The array itself, or a copy of at least that length, twice as long as before, zeros at its end."""
    if len(array) >= least:
        return array
    found = np.zeros((max(least, 2 * len(array)), *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found
