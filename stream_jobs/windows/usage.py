"""Usage rows of a commit: the work of requests by the minutes in which it was done, for the cost job.

Every accepted request is spread over the minutes it touched (``stream_jobs.costs.usage``); rows of one minute and key
(``schemas.usage``) are added up until the commit and sent with it. There is no state: what a row holds hangs on the
events since the last commit alone, in the order in which they came, wherever folds are cut. Labels are those of the
partials: words beyond the limit of a dimension read ``__other__``. How many keys a minute may have is not bounded here
but by whoever adds the rows of commits up; memory until the commit is, as of all changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.block import Block, Column, Labels, Numbers
from schemas.grouping import GroupingSet
from schemas.placement import place
from schemas.tables import DEFINITION_VERSION
from schemas.usage import USAGE_AMOUNTS, USAGE_KEY, USAGE_OF
from stream_jobs.costs.usage import Requests, UsageSums
from stream_jobs.windows.columns import Columns, Whole, whole_of
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import NULL_CODE, ROWS_FIRST, Codes, Series, SeriesTable
from stream_jobs.windows.usage_kernels import gather_amounts, gather_labels

KEYS_KEPT_MAX = 65_536
"""More keys than these, some 10 MB, are not remembered beyond their commit."""

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


@dataclass(frozen=True, slots=True)
class UsageKeys:
    """The keys found so far among the codes of ``series``, by number. Known keys are only quicker to find: no row, nor
    the order of rows, hangs on them, so they are no part of the state that is kept."""

    series: Series
    table: SeriesTable

    @classmethod
    def of(cls, plan: Plan, series: Series, held: UsageKeys | None) -> UsageKeys:
        """Those held while they are few and of these series, else none yet."""
        if held is not None and held.series is series and held.table.count <= KEYS_KEPT_MAX:
            return held
        return cls(series, SeriesTable(_GROUPING, plan.positions(_GROUPING), _KEYS_MAX))


class UsageRows:
    """The usage of the events of one segment."""

    __slots__ = ("_keys", "sums")

    def __init__(self, keys: UsageKeys) -> None:
        self._keys = keys
        self.sums = UsageSums(keys.table.expected)

    @property
    def bytes(self) -> int:
        """Memory held."""
        return self._keys.table.bytes + self.sums.bytes

    def add(self, columns: Columns, requests: Requests, codes: Codes, start: int, stop: int) -> None:
        """Add the work of accepted rows ``[start, stop)``, whose codes are given."""
        table, keys = self._keys.table, np.empty(stop, np.int64)
        table.find(codes, columns.verdicts, columns.windows, start, stop, keys)
        self.sums.add(requests, keys, len(table.lines), start, stop)

    def blocks(self, partitions: int) -> dict[int, Block]:
        """Rows of ``schemas.usage.USAGE`` by target partition, in the order in which they began."""
        if self.sums.rows == 0:
            return {}
        self._keys.table.expected = max(1 << (self.sums.rows - 1).bit_length(), ROWS_FIRST)
        targets = self._targets(partitions)
        found = {target: np.flatnonzero(targets == target) for target in range(partitions)}
        return {target: self._block(chosen) for target, chosen in found.items() if len(chosen)}

    def _targets(self, partitions: int) -> Whole:
        """The partition of every row: of its placement group, else its host, as that of the partials beside."""
        lines = self._keys.table.lines
        groups, hosts = lines[self.sums.keys, _GROUP], lines[self.sums.keys, _HOST]
        by_group, by_host = (
            _places(codes, self._words(column), partitions) for codes, column in ((groups, _GROUP), (hosts, _HOST))
        )
        return np.where(groups == NULL_CODE, by_host[hosts], by_group[groups])

    def _words(self, column: int) -> _Texts:
        return self._keys.series.words[int(self._keys.table.positions[column])].words

    def _block(self, chosen: Whole) -> Block:
        rows, sums = len(chosen), self.sums
        values, known = np.empty((len(USAGE_AMOUNTS), rows), np.int64), np.empty((len(USAGE_AMOUNTS), rows), np.bool_)
        gather_amounts(sums.cells, chosen, values, known)
        columns: dict[str, Column] = {
            "window_ms": Numbers(sums.windows[chosen]),
            "requests": Numbers(values[0].view(np.uint64)),
            "definition_version": Numbers(np.full(rows, DEFINITION_VERSION, np.uint32)),
        }
        for name, line, told in zip(USAGE_AMOUNTS[1:], values[1:], known[1:], strict=True):
            columns[name] = Numbers(line, told)
        for column, name in enumerate(USAGE_KEY):
            columns[name] = self._labels(chosen, column)
        return Block(rows, columns)

    def _labels(self, chosen: Whole, column: int) -> Labels:
        words = self._words(column)
        places, used = np.zeros(len(words), np.int32), np.empty(len(words), np.int32)
        codes = np.empty(len(chosen), np.int64)
        count = gather_labels(self._keys.table.lines, self.sums.keys, chosen, column, places, used, codes)
        return Labels(codes, [words[code] for code in used[:count].tolist()])


def _places(codes: Codes, words: _Texts, partitions: int) -> Whole:
    """The partition of every word in use; of null that of the empty text."""
    used, found = np.zeros(len(words), np.bool_), np.zeros(len(words), np.int64)
    used[codes] = True
    for code in np.flatnonzero(used).tolist():
        found[code] = place(words[code] or b"", partitions)
    return found
