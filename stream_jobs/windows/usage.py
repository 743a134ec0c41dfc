"""Usage rows of a commit: the work of requests by the minutes in which it was done, for the cost job.

Every accepted request is spread over the minutes it touched (``stream_jobs.costs.usage``); rows of one minute and key
(``rows.usage``) are added up until the commit and sent with it. There is no state: what a row holds hangs on the
events since the last commit alone, in the order in which they came, wherever folds are cut. Labels are those of the
partials: words beyond the limit of a dimension read ``__other__``. How many keys a minute may have is not bounded here
but by the reader that adds up the rows of commits; memory until the commit is, as of all changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from schemas.codec.block import Block, Column, Labels, Numbers
from schemas.contract.placement import place
from schemas.events.grouping import GroupingSet, sets_of
from schemas.rows.tables import DEFINITION_VERSION
from schemas.rows.usage import USAGE_AMOUNTS, USAGE_KEY, USAGE_OF
from stream_jobs.costs.usage import Requests, UsageSums
from stream_jobs.windows.columns import Columns, Whole, whole_of
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import NULL_CODE, ROWS_FIRST, Codes, Series, SeriesTable
from stream_jobs.windows.sums import Segment

UNKNOWN = np.iinfo(np.int64).min
EMPTY = -1
MISSED = -2
OTHER_SERIES = 0

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@njit(cache=True, nogil=True)
def recall_keys(one: Any, one_series: Any, two: Any, two_series: Any, known: Any, out: Any) -> int:
    """Write the key of each pair of series that is remembered, else ``MISSED``; returns how many are.

    ``one`` and ``two`` are the lines of sums that events went to, ``EMPTY`` where they count nowhere. ``known`` holds
    (pair, key) at the place of the pair's hash, the last one that fell there; a power of two long.
    """
    missed, mask = 0, np.uint64(known.shape[0] - 1)
    for i in range(one.shape[0]):
        if one[i] == EMPTY:
            out[i] = EMPTY
            continue
        pair = one_series[one[i]] << 32 | two_series[two[i]]
        place = ((np.uint64(pair) * _MIX) >> _HALF) & mask
        if known[place, 0] == pair:
            out[i] = known[place, 1]
        else:
            out[i] = MISSED
            missed += 1
    return missed


@njit(cache=True, nogil=True)
def remember_keys(one: Any, one_series: Any, two: Any, two_series: Any, found: Any, known: Any, out: Any) -> None:
    """Replace every ``MISSED`` by the key found, and remember it where both series have names of their own."""
    mask = np.uint64(known.shape[0] - 1)
    for i in range(one.shape[0]):
        if out[i] != MISSED:
            continue
        out[i] = found[i]
        a, b = one_series[one[i]], two_series[two[i]]
        if a != OTHER_SERIES and b != OTHER_SERIES:
            pair = a << 32 | b
            place = ((np.uint64(pair) * _MIX) >> _HALF) & mask
            known[place, 0] = pair
            known[place, 1] = found[i]


@njit(cache=True, nogil=True)
def gather_amounts(cells: Any, chosen: Any, values: Any, known: Any) -> None:
    """Write the cells of some rows as columns, 0 where unknown."""
    for i in range(chosen.shape[0]):
        for f in range(cells.shape[1]):
            amount = cells[chosen[i], f]
            known[f, i] = amount != UNKNOWN
            values[f, i] = amount if amount != UNKNOWN else 0


@njit(cache=True, nogil=True)
def gather_labels(
    lines: Any, keys: Any, chosen: Any, bases: Any, places: Any, words: Any, out: Any, counts: Any
) -> None:
    """Write the labels of some rows as columns: the place of each word among those in use, which begin with null.

    Of label ``c`` ``counts[c]`` are in use; ``words[bases[c] + place]`` becomes the code of one. They stand as they are
    first used. ``places`` are 0 for every code.
    """
    for c in range(out.shape[0]):
        words[bases[c]] = 0
        counts[c] = 1
    for i in range(chosen.shape[0]):
        key = keys[chosen[i]]
        for c in range(out.shape[0]):
            code = lines[key, c]
            at = bases[c] + code
            if code != 0 and places[at] == 0:
                places[at] = counts[c]
                words[bases[c] + counts[c]] = code
                counts[c] += 1
            out[c, i] = places[at]


KEYS_KEPT_MAX = 65_536
"""More keys than these, some 10 MB, are not remembered beyond their commit."""

_Texts = list[bytes | None]
_KEYS_MAX = 1 << 31
_PAIRS = 1 << 16
_GROUPING = GroupingSet("usage", USAGE_OF, USAGE_KEY, "placement_group")
assert {*USAGE_KEY} <= {name for one in sets_of(USAGE_OF) for name in one.dimensions}
assert len(sets_of(USAGE_OF)) == 2
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
    """The keys found so far among the codes of ``series``, by number; ``pairs`` remembers those of the grouping sets'
    series, which together have all labels of a key. Known keys are only quicker to find: no row, nor the order of
    rows, hangs on them, so they are no part of the state that is kept."""

    series: Series
    table: SeriesTable
    pairs: Whole

    @classmethod
    def of(cls, plan: Plan, series: Series, kept: UsageKeys | None) -> UsageKeys:
        """Those kept while they are few and of these series, else none yet."""
        if kept is not None and kept.series is series and kept.table.count <= KEYS_KEPT_MAX:
            return kept
        table = SeriesTable(_GROUPING, plan.positions(_GROUPING), _KEYS_MAX)
        return cls(series, table, np.full((_PAIRS, 2), EMPTY, np.int64))

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return self.table.bytes + self.pairs.nbytes


class UsageRows:
    """The usage of the events of one segment."""

    __slots__ = ("_keys", "_segment", "sums")

    def __init__(self, keys: UsageKeys, segment: Segment) -> None:
        self._keys = keys
        self._segment = segment
        self.sums = UsageSums(keys.table.expected)

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return self._keys.bytes + self.sums.bytes

    def add(self, columns: Columns, requests: Requests, codes: Codes, start: int, stop: int) -> None:
        """Add the work of rows ``[start, stop)``, which were added to the sums of the segment just now."""
        keys, known = np.empty(stop, np.int64), self._keys.pairs
        one, two = ((sums.lines[-1], sums.row_series) for sums in self._segment.sums)
        if recall_keys(*one, *two, known, keys[start:]):
            found = np.empty(stop, np.int64)
            passed = (keys != MISSED).view(np.uint8)
            self._keys.table.find(codes, passed, columns.windows, start, stop, found)
            remember_keys(*one, *two, found[start:], known, keys[start:])
        self.sums.add(requests, keys, len(self._keys.table.lines), start, stop)

    def blocks(self, partitions: int) -> dict[int, Block]:
        """Rows of ``schemas.rows.usage.USAGE`` by target partition, in the order in which they began."""
        if self.sums.rows == 0:
            return {}
        self._keys.table.expected = max(1 << (self.sums.rows - 1).bit_length(), ROWS_FIRST)
        self._place_keys(partitions)
        targets = self._keys.table.targets[self.sums.keys]
        found = {target: np.flatnonzero(targets == target) for target in range(partitions)}
        return {target: self._block(chosen) for target, chosen in found.items() if len(chosen)}

    def _place_keys(self, partitions: int) -> None:
        """Find the partition of keys that have none yet: of the placement group, else the host, as for partials."""
        table = self._keys.table
        new = slice(table.targets_known, table.count)
        groups, hosts = (table.lines[new, column] for column in (_GROUP, _HOST))
        by_group, by_host = (
            _places(codes, self._words(column), partitions) for codes, column in ((groups, _GROUP), (hosts, _HOST))
        )
        table.targets[new] = np.where(groups == NULL_CODE, by_host[hosts], by_group[groups])
        table.targets_known = table.count

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
        for name, line, is_known in zip(USAGE_AMOUNTS[1:], values[1:], known[1:], strict=True):
            columns[name] = Numbers(line, is_known)
        return Block(rows, columns | self._labels(chosen))

    def _labels(self, chosen: Whole) -> dict[str, Column]:
        """The words of each label in use stand as they are first used."""
        words = [self._words(column) for column in range(len(USAGE_KEY))]
        bases = np.cumsum([0, *map(len, words)])
        places, used = np.zeros(bases[-1], np.int32), np.empty(bases[-1], np.int32)
        codes, counts = np.empty((len(words), len(chosen)), np.int32), np.empty(len(words), np.int64)
        gather_labels(self._keys.table.lines, self.sums.keys, chosen, bases, places, used, codes, counts)
        taken = [
            used[base : base + count].tolist() for base, count in zip(bases.tolist(), counts.tolist(), strict=False)
        ]
        return {
            name: Labels(line, [known[code] for code in own])
            for name, line, known, own in zip(USAGE_KEY, codes, words, taken, strict=True)
        }


def _places(codes: Codes, words: _Texts, partitions: int) -> Whole:
    """The partition of every word in use; of null that of the empty text."""
    used, found = np.zeros(len(words), np.bool_), np.zeros(len(words), np.int64)
    used[codes] = True
    for code in np.flatnonzero(used).tolist():
        found[code] = place(words[code] or b"", partitions)
    return found
