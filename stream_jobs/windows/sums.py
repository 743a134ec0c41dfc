"""What will be sent at the next commit: the sums of every (window, series) touched since the last one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_jobs.windows import kernels
from stream_jobs.windows.columns import Columns, Whole
from stream_jobs.windows.kernels import EMPTY
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import Series, SeriesTable

_ROWS_FIRST = 64
_BINS_FIRST = 1_024


class Sums:
    """The rows of one grouping set: line ``i`` of ``cells`` belongs to ``row_windows[i]`` and ``row_series[i]``.

    ``bins`` is an open-addressed table of (histogram and bin, count), at most half full; ``used`` is [rows, bins].
    """

    __slots__ = ("bins", "cells", "heads", "histograms", "nexts", "plan", "row_series", "row_windows", "table", "used")

    def __init__(self, plan: Plan, table: SeriesTable) -> None:
        self.plan = plan
        self.table = table
        self.used = np.zeros(2, np.int64)
        self.cells = np.empty((_ROWS_FIRST, plan.cells), np.int64)
        self.nexts = np.empty(_ROWS_FIRST, np.int64)
        self.row_windows = np.empty(_ROWS_FIRST, np.int64)
        self.row_series = np.empty(_ROWS_FIRST, np.int64)
        self.heads = np.full(len(table.lines), EMPTY, np.int64)
        self.bins = np.full((_BINS_FIRST, 2), EMPTY, np.int64)

    @property
    def rows(self) -> int:
        return int(self.used[0])

    @property
    def bytes(self) -> int:
        """Memory held."""
        arrays = (self.cells, self.nexts, self.row_windows, self.row_series, self.heads, self.bins)
        return sum(array.nbytes for array in arrays)

    def bins_in_use(self, rows_before: int) -> npt.NDArray[np.int64]:
        """The bins without empty places, as if ``rows_before`` rows stood before the first."""
        used = self.bins[self.bins[:, 0] != EMPTY]
        used[:, 0] += kernels.bin_key(rows_before * len(self.plan.histograms), -1)
        return used

    def add(self, columns: Columns, series: Whole, start: int, stop: int) -> None:
        """Add rows ``[start, stop)``, whose series are given."""
        if len(self.heads) < len(self.table.lines):
            self.heads = _longer(self.heads, len(self.table.lines))
        while True:
            start = kernels.add_rows(
                series,
                columns.at,
                columns.windows,
                columns.values,
                columns.value_bins,
                columns.ready_ends,
                columns.ready_keys,
                columns.ready_counts,
                start,
                stop,
                len(self.plan.gauges),
                self.cells,
                self.heads,
                self.nexts,
                self.row_windows,
                self.row_series,
                self.bins,
                self.used,
            )
            if start >= stop:
                return
            self._make_room()

    def _make_room(self) -> None:
        if self.rows < len(self.cells):
            larger = np.full((2 * len(self.bins), 2), EMPTY, np.int64)
            kernels.grow_bins(self.bins, larger)
            self.bins = larger
            return
        room = 2 * len(self.cells)
        cells = np.empty((room, self.cells.shape[1]), np.int64)
        cells[: self.rows] = self.cells
        self.cells = cells
        self.nexts = _longer(self.nexts, room)
        self.row_windows = _longer(self.row_windows, room)
        self.row_series = _longer(self.row_series, room)


def _longer(array: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    longer = np.full(length, EMPTY, np.int64)
    longer[: len(array)] = array
    return longer


class Segment:
    """Sums that refer to the same series and words; a sweep starts a new one."""

    __slots__ = ("series", "sums")

    def __init__(self, plan: Plan, series: Series) -> None:
        self.series = series
        self.sums = [Sums(plan, table) for table in series.tables]

    @property
    def rows(self) -> int:
        return sum(sums.rows for sums in self.sums)

    @property
    def bytes(self) -> int:
        return sum(sums.bytes for sums in self.sums)
