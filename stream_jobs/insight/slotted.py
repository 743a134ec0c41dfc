"""State of a detector: named arrays, one row per slot, some of them rings of points on a common clock (point k of every
series covers the same span of event time). Growing, emptying, dumping and loading are done once, here.

Equal states give equal arrays, whatever the growth on the way: spare rows are never dumped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.frame import Whole

_SPARE = 1.25
"""Room is made by a quarter more than needed: growing slot by slot copies each row a bounded number of times."""


@dataclass(frozen=True, slots=True)
class Column:
    """An array of ``slots x shape``; ``empty`` is what a row holds that knows nothing."""

    name: str
    dtype: str
    empty: float = 0
    shape: tuple[int, ...] = ()


class Slotted:
    """``state[name]`` is the array of that column, ``size`` rows long; ``clock[name]`` a number of all slots."""

    def __init__(self, columns: tuple[Column, ...], clock: Mapping[str, int] | None = None) -> None:
        self.size = 0
        self.state: dict[str, npt.NDArray[Any]] = {}
        self.clock = dict(clock or {})
        self._columns = columns
        self._room: dict[str, npt.NDArray[Any]] = {one.name: _empty(one, 0) for one in columns}
        self._view()

    def grow(self, slots: int) -> None:
        """Make room for slots below ``slots``; never shrinks."""
        if slots <= self.size:
            return
        if any(len(room) < slots for room in self._room.values()):
            more = int(slots * _SPARE) + 16
            for one in self._columns:
                room = self._room[one.name]
                self._room[one.name] = np.concatenate([room[: self.size], _empty(one, more - self.size)])
        self.size = slots
        self._view()

    def forget(self, slots: Whole) -> None:
        """Empty these slots."""
        for one in self._columns:
            self.state[one.name][slots] = one.empty

    def dump(self) -> dict[str, npt.NDArray[np.generic]]:
        """The whole state; ``clock`` numbers as arrays of one."""
        clocks = {f"clock_{name}": np.array([value], np.int64) for name, value in sorted(self.clock.items())}
        return {**{name: array.copy() for name, array in self.state.items()}, **clocks}

    def load(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take over a dump. Raises ``KeyError`` when a column is missing."""
        for one in self._columns:
            self._room[one.name] = np.array(arrays[one.name], dtype=one.dtype)
        self.size = min((len(room) for room in self._room.values()), default=0)
        self.clock = {name: int(arrays[f"clock_{name}"][0]) for name in self.clock}
        self._view()

    def bytes_per_slot(self) -> int:
        """Memory of one series."""
        return sum(np.dtype(one.dtype).itemsize * int(np.prod(one.shape, dtype=np.int64)) for one in self._columns)

    def _view(self) -> None:
        self.state = {name: room[: self.size] for name, room in self._room.items()}


def _empty(column: Column, rows: int) -> npt.NDArray[Any]:
    return np.full((rows, *column.shape), column.empty, column.dtype)


NEVER = -1
"""Bucket number before anything was seen."""


def passed(newest: int, bucket: int, points: int) -> Whole:
    """Columns that come into use when the clock goes from bucket ``newest`` to ``bucket``: to be emptied. None when it
    does not move (or moves back: a late window counts into the newest bucket)."""
    if newest == NEVER or bucket <= newest:
        return np.empty(0, np.int64)
    first = max(newest + 1, bucket - points + 1)
    return np.arange(first, bucket + 1, dtype=np.int64) % points


def in_order(newest: int, points: int, last: int | None = None) -> Whole:
    """Columns from oldest to newest; of the ``last`` so many buckets only where given."""
    last = points if last is None else min(last, points)
    return np.arange(newest - last + 1, newest + 1, dtype=np.int64) % points


def storable(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """As 32-bit numbers (relative error 6e-8); what does not fit becomes NaN, unknown."""
    fits = np.abs(values) < np.finfo(np.float32).max
    return np.where(fits, values, np.nan).astype(np.float32)
