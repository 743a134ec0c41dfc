"""The bins of all events of a segment, kept as they come until a commit merges them (``bin_kernels``).

Most of what an event brings is its ready-made bins, so they are held as small as they are exact: a count is at least 1
and at most ``schemas.codec.native_fill.BIN_COUNT_MAX`` = 2^32, so one less than it fits into 32 bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Bins
from schemas.codec.native_fill import BIN_COUNT_MAX
from schemas.codec.room import grown
from stream_jobs.windows import bin_kernels
from stream_jobs.windows.columns import Columns
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import EVENTS_FIRST, PAIRS_FIRST, Room

assert np.iinfo(np.uint32).max >= BIN_COUNT_MAX - 1


class Ready:
    """Ready-made bins of one column: event ``i`` has those up to ``ends[i]``, with the counts ``less_one + 1``."""

    __slots__ = ("ends", "keys", "less_one", "pairs")

    def __init__(self, room: Room) -> None:
        self.pairs = 0
        self.ends = np.empty(room.events, np.int64)
        self.keys = np.empty(room.pairs, np.int16)
        self.less_one = np.empty(room.pairs, np.uint32)

    def add(self, bins: Bins, start: int, stop: int, events: int) -> None:
        """Take over rows ``[start, stop)`` behind the ``events`` that are there."""
        first = int(bins.ends[start - 1]) if start else 0
        pairs = self.pairs + int(bins.ends[stop - 1]) - first
        self.ends = grown(self.ends, events + stop - start)
        self.keys = grown(self.keys, pairs)
        self.less_one = grown(self.less_one, pairs)
        bin_kernels.keep_ready(
            bins.ends, bins.keys, bins.counts, start, stop, events, self.pairs, self.ends, self.keys, self.less_one
        )
        self.pairs = pairs

    @property
    def bytes(self) -> int:
        return self.ends.nbytes + self.keys.nbytes + self.less_one.nbytes


class Histograms:
    """The bins of many events; those of events that were not accepted are among them, and never read."""

    __slots__ = ("_values", "events", "ready")

    def __init__(self, plan: Plan, room: Room) -> None:
        self.events = 0
        self.ready = [Ready(room) for _ in plan.ready_bins]
        self._values = [np.empty(room.events, np.int16) for _ in plan.binned]

    def add(self, columns: Columns, start: int, stop: int) -> None:
        """Take over the bins of rows ``[start, stop)``."""
        for ready, bins in zip(self.ready, columns.ready_bins, strict=True):
            ready.add(bins, start, stop, self.events)
        after = self.events + stop - start
        self._values = [grown(one, after) for one in self._values]
        for one, found in zip(self._values, columns.value_bins, strict=True):
            one[self.events : after] = found[start:stop]
        self.events = after

    def values(self) -> list[npt.NDArray[np.int16]]:
        """By measure, the bin of each event."""
        return [one[: self.events] for one in self._values]

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return sum(one.nbytes for one in self._values) + sum(one.bytes for one in self.ready)

    @property
    def room(self) -> Room:
        """What the next segment should begin with, so that steady work grows nothing."""
        pairs = max((one.pairs for one in self.ready), default=0)
        return Room(_with_spare(self.events, EVENTS_FIRST), _with_spare(pairs, PAIRS_FIRST))


def _with_spare(used: int, least: int) -> int:
    return max(used + used // 8, least)
