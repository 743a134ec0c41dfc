"""What will be sent at the next commit: the sums of every (window, series) touched since the last one.

Cells are added up as rows come. Bins are not: their events are kept as they came, with the line that each went to, and
merged at the commit (``bin_kernels``), which costs a fraction of a look-up per bin and row.
"""

from __future__ import annotations

import numpy as np

from schemas.codec.block import Bins
from stream_jobs.costs.usage import longer
from stream_jobs.windows import kernels
from stream_jobs.windows.columns import Columns, Whole
from stream_jobs.windows.histograms import Histograms
from stream_jobs.windows.kernels import EMPTY
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import ROWS_FIRST, Series, SeriesTable


class Sums:
    """The rows of one grouping set: line ``i`` of ``cells`` belongs to ``row_windows[i]`` and ``row_series[i]``.

    ``lines`` has, in parts, which of them each event of the segment went to.
    """

    __slots__ = ("_used", "cells", "heads", "lines", "nexts", "plan", "row_series", "row_windows", "table")

    def __init__(self, plan: Plan, table: SeriesTable) -> None:
        self.plan = plan
        self.table = table
        rows = table.expected
        self._used = np.zeros(1, np.int64)
        self.cells = np.empty((rows, plan.cells), np.int64)
        self.nexts = np.empty(rows, np.int64)
        self.row_windows = np.empty(rows, np.int64)
        self.row_series = np.empty(rows, np.int64)
        self.heads = np.full(len(table.lines), EMPTY, np.int64)
        self.lines: list[Whole] = []

    @property
    def rows(self) -> int:
        return int(self._used[0])

    @property
    def bytes(self) -> int:
        """Memory in use."""
        arrays = (self.cells, self.nexts, self.row_windows, self.row_series, self.heads, *self.lines)
        return sum(array.nbytes for array in arrays)

    def add(self, columns: Columns, series: Whole, start: int, stop: int) -> None:
        """Add rows ``[start, stop)``, whose series are given."""
        if len(self.heads) < len(self.table.lines):
            self.heads = longer(self.heads, len(self.table.lines))
        lines = np.empty(stop, np.int64)
        reached, fields = start, (len(self.plan.sketches), len(self.plan.gauges))
        while True:
            reached = kernels.add_values(
                series, columns.at, columns.windows, columns.values, reached, stop, *fields,
                self.cells, self.heads, self.nexts, self.row_windows, self.row_series, self._used, lines,
            )  # fmt: skip
            if reached >= stop:
                break
            self.grow()
        if self.plan.histograms:
            self.lines.append(lines[start:])

    def grow(self) -> None:
        """Make room for twice the rows; changes nothing else."""
        room = 2 * len(self.cells)
        cells = np.empty((room, self.cells.shape[1]), np.int64)
        cells[: self.rows] = self.cells[: self.rows]
        self.cells = cells
        self.nexts = longer(self.nexts, room)
        self.row_windows = longer(self.row_windows, room)
        self.row_series = longer(self.row_series, room)


class Segment:
    """Sums that refer to the same series and words, one table per grouping set; a sweep starts a new one."""

    __slots__ = ("_plan", "histograms", "series", "sums")

    def __init__(self, plan: Plan, series: Series) -> None:
        self._plan = plan
        self.series = series
        self.sums = [Sums(plan, table) for table in series.tables]
        self.histograms = Histograms(plan, series.room)

    def keep(self, columns: Columns, start: int, stop: int) -> None:
        """Take over the bins of rows ``[start, stop)``, which all of ``sums`` add as well."""
        if self._plan.histograms:
            self.histograms.add(columns, start, stop)

    @property
    def rows(self) -> int:
        return sum(sums.rows for sums in self.sums)

    @property
    def bytes(self) -> int:
        return sum(sums.bytes for sums in self.sums) + self.histograms.bytes

    def remember_sizes(self) -> None:
        """Let the next tables begin with the room these came to need, so that steady work grows nothing."""
        for sums in self.sums:
            sums.table.expected = max(1 << (sums.rows - 1).bit_length(), ROWS_FIRST)
        self.series.room = self.histograms.room


def bins_part(bins: Bins, start: int, stop: int) -> Bins:
    """Rows ``[start, stop)`` of a column of bins, of which there must be one."""
    first = int(bins.ends[start - 1]) if start else 0
    last = int(bins.ends[stop - 1])
    return Bins(bins.ends[start:stop] - first, bins.keys[first:last], bins.counts[first:last])
