"""Usage rows of a commit: the work of requests by the windows in which it was done, for the cost job.

Every accepted request is spread over the windows it touched (``stream_jobs.costs.usage``); rows of one window and key
(``schemas.usage``) are added up until the commit and sent with it. There is no state: what a row holds hangs on the
events since the last commit alone, in the order in which they came, wherever folds are cut. Labels are those of the
partials: words beyond the limit of a dimension read ``__other__``. How many keys a window may have is not bounded here
but by whoever adds the rows of commits up; memory until the commit is, as of all changes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemas.block import Block, Column, Labels, Numbers
from schemas.grouping import GroupingSet
from schemas.placement import place
from schemas.tables import DEFINITION_VERSION
from schemas.usage import USAGE_AMOUNTS, USAGE_KEY, USAGE_OF
from stream_jobs.costs.usage import NO_DOUBTS, Doubts, Requests, Usage, usage_of
from stream_jobs.windows.columns import Columns, Whole, whole_of
from stream_jobs.windows.emit import compacted
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import NULL_CODE, ROWS_FIRST, Codes, Series, SeriesTable
from stream_jobs.windows.sums import longer
from stream_jobs.windows.usage_kernels import UNKNOWN, add_usage

REQUESTS_MAX = 16_384
"""So many requests are spread at a time: each makes up to 91 rows on the way to the sums."""

_Texts = list[bytes | None]
_KEYS_MAX = 1 << 31
_GROUPING = GroupingSet("usage", USAGE_OF, USAGE_KEY, "placement_group")
_GROUP, _HOST = USAGE_KEY.index("placement_group"), USAGE_KEY.index("host")


def requests_of(plan: Plan, columns: Columns, block: Block) -> Requests | None:
    """What usage needs of admitted rows; None for events that have none."""
    if plan.event.topic != USAGE_OF:
        return None
    measured = {field.name: line for field, line in zip(plan.measures, columns.values, strict=True)}
    names = Requests.__slots__[1:]
    return Requests(columns.at, *(measured[n] if n in measured else whole_of(block, n) for n in names))


class UsageRows:
    """The usage of the events of one segment."""

    __slots__ = ("_cells", "_heads", "_nexts", "_row_keys", "_row_windows", "_series", "_table", "_used", "doubts")

    def __init__(self, plan: Plan, series: Series) -> None:
        self._series = series
        self._table = SeriesTable(_GROUPING, plan.positions(_GROUPING), _KEYS_MAX)
        self._used = np.zeros(1, np.int64)
        self._heads = np.empty(0, np.int64)
        self._cells = np.empty((ROWS_FIRST, len(USAGE_AMOUNTS)), np.int64)
        self._nexts, self._row_windows, self._row_keys = (np.empty(ROWS_FIRST, np.int64) for _ in range(3))
        self.doubts: Doubts = NO_DOUBTS

    @property
    def bytes(self) -> int:
        """Memory held."""
        arrays = (self._heads, self._cells, self._nexts, self._row_windows, self._row_keys)
        return self._table.bytes + sum(array.nbytes for array in arrays)

    def add(self, columns: Columns, requests: Requests, codes: Codes, start: int, stop: int) -> None:
        """Add the work of accepted rows ``[start, stop)``, whose codes are given."""
        keys = np.empty(stop, np.int64)
        self._table.find(codes, columns.verdicts, columns.windows, start, stop, keys)
        accepted = np.flatnonzero(keys[start:stop] >= 0)
        if len(accepted) == stop - start:
            chosen, keys = requests.part(start, stop), keys[start:]
        else:
            chosen, keys = requests.of(accepted + start), keys[accepted + start]
        if len(self._heads) < len(self._table.lines):
            self._heads = longer(self._heads, len(self._table.lines))
        for first in range(0, len(keys), REQUESTS_MAX):
            usage, doubts = usage_of(chosen.part(first, first + REQUESTS_MAX))
            self._sum_up(usage, keys, first)
            self.doubts = self.doubts.plus(doubts)

    def _sum_up(self, usage: Usage, keys: Whole, first: int) -> None:
        reached = 0
        while True:
            reached = add_usage(
                keys,
                first,
                usage.request,
                usage.window_ms,
                usage.amounts,
                reached,
                self._cells,
                self._heads,
                self._nexts,
                self._row_windows,
                self._row_keys,
                self._used,
            )
            if reached == len(usage.request):
                return
            self._grow()

    def _grow(self) -> None:
        """Make room for twice the rows; changes nothing else."""
        room = 2 * len(self._nexts)
        self._cells = np.concatenate((self._cells, np.empty_like(self._cells)))
        self._nexts, self._row_windows, self._row_keys = (
            longer(array, room) for array in (self._nexts, self._row_windows, self._row_keys)
        )

    def blocks(self, partitions: int) -> dict[int, Block]:
        """Rows of ``schemas.usage.USAGE`` by target partition, in the order in which they began."""
        rows = int(self._used[0])
        if rows == 0:
            return {}
        keys = self._row_keys[:rows]
        targets = self._targets(partitions)[keys]
        found = {target: np.flatnonzero(targets == target) for target in range(partitions)}
        return {target: self._block(chosen, keys[chosen]) for target, chosen in found.items() if len(chosen)}

    def _targets(self, partitions: int) -> Whole:
        """The partition of every key: of its placement group, else its host, as that of the partials beside."""
        groups, hosts = (self._table.lines[: self._table.count, column] for column in (_GROUP, _HOST))
        by_group, by_host = (
            _places(codes, self._words(column), partitions) for codes, column in ((groups, _GROUP), (hosts, _HOST))
        )
        return np.where(groups == NULL_CODE, by_host[hosts], by_group[groups])

    def _words(self, column: int) -> _Texts:
        return self._series.words[int(self._table.positions[column])].words

    def _block(self, chosen: Whole, keys: Whole) -> Block:
        cells = np.ascontiguousarray(self._cells[chosen].T)
        columns: dict[str, Column] = {
            "window_ms": Numbers(self._row_windows[chosen]),
            "requests": Numbers(cells[0].view(np.uint64)),
            "definition_version": Numbers(np.full(len(chosen), DEFINITION_VERSION, np.uint32)),
        }
        for name, line in zip(USAGE_AMOUNTS[1:], cells[1:], strict=True):
            columns[name] = Numbers(np.where(line == UNKNOWN, 0, line), line != UNKNOWN)
        lines = self._table.lines[keys]
        for column, name in enumerate(USAGE_KEY):
            columns[name] = Labels(*compacted(lines[:, column], self._words(column)))
        return Block(len(chosen), columns)


def _places(codes: npt.NDArray[np.int32], words: _Texts, partitions: int) -> Whole:
    """The partition of every word in use; of null that of the empty text."""
    found = np.zeros(len(words), np.int64)
    for code in np.unique(codes).tolist():
        found[code] = place(words[code] or b"", partitions)
    return found
