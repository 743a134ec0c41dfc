"""What will be sent at the next commit: the sums of every (window, series) touched since the last one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_jobs.windows import bin_kernels, kernels
from stream_jobs.windows.columns import Columns, Whole
from stream_jobs.windows.kernels import EMPTY
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import BINS_FIRST, ROWS_FIRST, Series, SeriesTable

_SPILLED_FIRST = 64


class Sums:
    """The rows of one grouping set: line ``i`` of ``cells`` belongs to ``row_windows[i]`` and ``row_series[i]``.

    ``used`` is [rows, bins, spilled amounts]; see ``bin_kernels`` for the table of bins. ``rows_max`` is where a table
    ends and the next one begins.
    """

    __slots__ = (
        "bins",
        "cells",
        "heads",
        "nexts",
        "plan",
        "row_series",
        "row_windows",
        "rows_max",
        "spilled",
        "table",
        "used",
    )

    def __init__(self, plan: Plan, table: SeriesTable, rows_max: int) -> None:
        self.plan = plan
        self.table = table
        self.rows_max = rows_max
        rows, bins = table.expected
        rows = min(rows, rows_max)
        self.used = np.zeros(3, np.int64)
        self.cells = np.empty((rows, plan.cells), np.int64)
        self.nexts = np.empty(rows, np.int64)
        self.row_windows = np.empty(rows, np.int64)
        self.row_series = np.empty(rows, np.int64)
        self.heads = np.full(len(table.lines), EMPTY, np.int64)
        self.bins = np.zeros(bins, np.uint64)
        self.spilled = np.empty((_SPILLED_FIRST, 2), np.int64)

    @property
    def rows(self) -> int:
        return int(self.used[0])

    @property
    def bytes(self) -> int:
        """Memory held."""
        arrays = (self.cells, self.nexts, self.row_windows, self.row_series, self.heads, self.bins, self.spilled)
        return sum(array.nbytes for array in arrays)

    def add(self, columns: Columns, series: Whole, start: int, stop: int, rows: Whole) -> int:
        """Add rows ``[start, stop)``, whose series are given; returns the row before which all lines were taken.

        ``rows`` is room for the line of each row.
        """
        reached = self._add_values(columns, series, start, stop, rows)
        for number in range(len(columns.value_bins)):
            self._count_values(columns, number, start, reached, rows)
        for number in range(len(columns.ready_ends)):
            self._count_ready(columns, number, start, reached, rows)
        return reached

    def _add_values(self, columns: Columns, series: Whole, start: int, stop: int, rows: Whole) -> int:
        if len(self.heads) < len(self.table.lines):
            self.heads = _longer(self.heads, len(self.table.lines))
        while True:
            start = kernels.add_values(
                series,
                columns.at,
                columns.windows,
                columns.values,
                start,
                stop,
                len(self.plan.sketches),
                len(self.plan.gauges),
                self.cells,
                self.heads,
                self.nexts,
                self.row_windows,
                self.row_series,
                self.used,
                rows,
            )
            if start >= stop or self.rows >= self.rows_max:
                return start
            self._more_rows()

    def _count_values(self, columns: Columns, number: int, start: int, stop: int, rows: Whole) -> None:
        found, bits = columns.value_bins[number], bin_kernels.histogram_bits(len(self.plan.histograms))
        while True:
            start = bin_kernels.count_values(rows, found, number, bits, start, stop, self.bins, self.used)
            if start >= stop:
                return
            self._more_bins()

    def _count_ready(self, columns: Columns, number: int, start: int, stop: int, rows: Whole) -> None:
        ends, keys, counts = columns.ready_ends[number], columns.ready_keys, columns.ready_counts
        histogram = len(self.plan.sketches) + number
        bits = bin_kernels.histogram_bits(len(self.plan.histograms))
        while True:
            start = bin_kernels.count_ready(
                rows, ends, keys, counts, histogram, bits, start, stop, self.bins, self.spilled, self.used
            )
            if start >= stop:
                return
            needed = int(ends[start + 1] - ends[start])
            if self.used[2] + needed > len(self.spilled):
                self._more_spilled(needed)
            if self.used[1] + needed > len(self.bins) // 2:
                self._more_bins()

    def _more_bins(self) -> None:
        larger = np.zeros(2 * len(self.bins), np.uint64)
        bin_kernels.grow_bins(self.bins, larger)
        self.bins = larger

    def _more_spilled(self, needed: int) -> None:
        spilled = np.empty((2 * len(self.spilled) + needed, 2), np.int64)
        spilled[: self.used[2]] = self.spilled[: self.used[2]]
        self.spilled = spilled

    def grow(self) -> None:
        """Make room now that would be made later; changes nothing else."""
        self._more_rows()
        self._more_bins()

    def _more_rows(self) -> None:
        room = min(2 * len(self.cells), self.rows_max)
        cells = np.empty((room, self.cells.shape[1]), np.int64)
        cells[: self.rows] = self.cells[: self.rows]
        self.cells = cells
        self.nexts = _longer(self.nexts, room)
        self.row_windows = _longer(self.row_windows, room)
        self.row_series = _longer(self.row_series, room)


def _longer(array: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    longer = np.full(length, EMPTY, np.int64)
    longer[: len(array)] = array
    return longer


class Segment:
    """Sums that refer to the same series and words, at least one table per grouping set; a sweep starts a new one."""

    __slots__ = ("_plan", "_rows_max", "series", "tables")

    def __init__(self, plan: Plan, series: Series, rows_max: int | None = None) -> None:
        self._plan = plan
        self._rows_max = rows_max or bin_kernels.rows_max(len(plan.histograms))
        self.series = series
        self.tables = [[Sums(plan, table, self._rows_max)] for table in series.tables]

    def add(self, grouping: int, columns: Columns, series: Whole, start: int, stop: int) -> None:
        """Add rows ``[start, stop)`` to the given grouping set."""
        tables = self.tables[grouping]
        rows = np.empty(stop, np.int64)
        while (start := tables[-1].add(columns, series, start, stop, rows)) < stop:
            tables.append(Sums(self._plan, self.series.tables[grouping], self._rows_max))

    @property
    def sums(self) -> list[Sums]:
        """All tables, by grouping set."""
        return [sums for tables in self.tables for sums in tables]

    @property
    def rows(self) -> int:
        return sum(sums.rows for sums in self.sums)

    @property
    def bytes(self) -> int:
        return sum(sums.bytes for sums in self.sums)

    def remember_sizes(self) -> None:
        """Let the next tables begin with the room these came to need, so that steady work grows nothing."""
        for sums in self.sums:
            rows, bins, _ = sums.used.tolist()
            sums.table.expected = (_power(rows, ROWS_FIRST), _power(2 * bins + BINS_FIRST // 2, BINS_FIRST))


def _power(needed: int, least: int) -> int:
    """The least power of two that is not below either."""
    return max(1 << (needed - 1).bit_length(), least)
