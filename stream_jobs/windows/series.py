"""Which labels keep their names: words become codes, rows of codes become series, both first come, first served.

Membership is decided by the order of the records alone, never by commits, batch cuts or what else a process holds: a
series past the ``Budget`` of its grouping set is folded into series 0, whose every label is ``__other__``; a value past
that of its dimension reads ``__other__``. Places become free when the watermark has left a series' last window behind
by more than the horizon; that is looked at whenever the watermark passes a multiple of ``SWEEP_MS``, between two
records.

Whoever makes up names takes no place of others: of requests, a series counts for the tenant whose event opened it, a
value that clients can make up for the tenant who named it first, and each may open only so many.

A sweep that finds something builds new tables and leaves the old ones as they are: rows not sent yet still refer to
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.codec.room import grown
from schemas.events.grouping import GROUPING_SETS, NAMED_BY_CLIENTS, OTHER, GroupingSet
from schemas.limits import MINUTE_MS, Limits
from stream_jobs.windows import kernels
from stream_jobs.windows.plan import Plan

SWEEP_MS = 10 * MINUTE_MS
NULL_CODE = 0
OTHER_CODE = 1
OTHER_WORD = OTHER.encode()
OTHER_SERIES = 0
TENANT = "tenant"

ROWS_FIRST = 64
EVENTS_FIRST = 1_024
PAIRS_FIRST = 16_384
_LINES_FIRST = 1_024

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many one tenant's events may open, and how many all those without a tenant."""

    named_max: int
    unnamed_max: int


NO_TENANTS = Allowance(0, 0)
"""Of sets whose events have no tenants: nothing counts for any."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a source partition keeps: series of each grouping set, values of each dimension, and how much of these one
    tenant may open. Events without a tenant open half at most, as each tenant's do in sets that do not name it."""

    series_max: int
    label_cardinality_max: int
    tenant_series_max: int
    tenant_label_cardinality_max: int

    @classmethod
    def of(cls, limits: Limits, partitions: int) -> Budget:
        """The part of one of a topic's partitions: all grouping sets and partitions have equal parts of a process."""
        part = max(limits.process_series_max // (len(GROUPING_SETS) * partitions), 1)
        return cls(
            series_max=min(limits.series_max, part),
            label_cardinality_max=min(limits.label_cardinality_max, 2 * part),
            tenant_series_max=max(limits.tenant_series_max // partitions, 1),
            tenant_label_cardinality_max=limits.tenant_label_cardinality_max,
        )

    def series_of(self, has_tenant: bool) -> Allowance:
        """Of a grouping set of requests."""
        half = _half(self.series_max)
        return Allowance(min(self.tenant_series_max, half) if has_tenant else half, half)

    @property
    def words(self) -> Allowance:
        """Of a dimension that clients name."""
        half = _half(self.label_cardinality_max)
        return Allowance(min(self.tenant_label_cardinality_max, half), half)


def _half(of: int) -> int:
    return max(of // 2, 1)


class Words:
    """The words of one dimension by code; 0 is null, 1 is ``__other__``. ``limit`` bounds those beside these two.

    ``bounded``: each tenant may name so many of them; ``openers`` are the codes of the tenants that did, ``opened``
    their numbers by tenant.
    """

    __slots__ = ("bounded", "codes", "limit", "opened", "openers", "words")

    def __init__(
        self, limit: int, words: Sequence[bytes] = (), bounded: Allowance | None = None, openers: Sequence[int] = ()
    ) -> None:
        self.limit = limit
        self.words: list[bytes | None] = [None, OTHER_WORD, *words]
        self.codes: dict[bytes | None, int] = {word: code for code, word in enumerate(self.words)}
        self.bounded = bounded
        self.openers: list[int] = list(openers or [NULL_CODE] * len(words)) if bounded else []
        self.opened = np.bincount(np.array(self.openers, np.int64), minlength=1)

    @property
    def kept(self) -> int:
        """Words beside the two that every dimension has."""
        return len(self.words) - 2

    def add(self, word: bytes | None) -> int:
        """The code of a word not seen before: its own while there is room, else that of ``__other__``."""
        if self.kept >= self.limit:
            return OTHER_CODE
        code = len(self.words)
        self.words.append(word)
        self.codes[word] = code
        return code

    def name(
        self,
        texts: Sequence[bytes | None],
        rows: npt.NDArray[np.int64],
        verdicts: npt.NDArray[np.uint8],
        tenants: Codes,
        known: Codes,
        out: Codes,
    ) -> None:
        """Write the code of each row's word, ``texts[rows[i]]``; accepted rows name new ones while they may.

        ``known`` are the codes of ``texts``, -1 where there is none yet.
        """
        assert self.bounded is not None
        self.opened = grown(self.opened, int(tenants.max()) + 1)
        found, openers = np.empty(len(known), np.int64), np.empty(len(known), np.int32)
        count = kernels.name_words(
            rows, verdicts, tenants, known, self.opened, self.bounded.unnamed_max, self.bounded.named_max,
            len(self.words), max(self.limit - self.kept, 0), found, openers, out,
        )  # fmt: skip
        for text in found[:count].tolist():
            self.codes[texts[text]] = len(self.words)
            self.words.append(texts[text])
        self.openers += openers[:count].tolist()


@dataclass(frozen=True, slots=True)
class Room:
    """How many events a commit lately had, and how many pairs of ready-made bins (room only, no meaning)."""

    events: int = EVENTS_FIRST
    pairs: int = PAIRS_FIRST


class SeriesTable:
    """The series of one grouping set: ``lines[number]`` are the codes of its dimensions, in the set's order.

    ``targets[number]`` is its partition of ``window.partials``, for the first ``targets_known`` of them. ``expected``
    says how many rows a commit needed lately (room only, no meaning). ``bounded``: each tenant may open so many;
    ``openers[number]`` is the code of the tenant that did, ``opened`` their number by tenant, ``tenant_at`` where
    tenants stand among the codes (-1: none).
    """

    __slots__ = (
        "bounded", "count", "expected", "grouping", "index", "last_windows", "limit", "lines", "opened", "openers",
        "positions", "targets", "targets_known", "tenant_at",
    )  # fmt: skip

    def __init__(
        self,
        grouping: GroupingSet,
        positions: Iterable[int],
        limit: int,
        bounded: Allowance = NO_TENANTS,
        tenant_at: int = -1,
    ) -> None:
        self.grouping = grouping
        self.positions = np.array(tuple(positions), dtype=np.int64)
        self.limit = limit + 1  # with series 0
        self.bounded = bounded
        self.tenant_at = tenant_at
        self.opened = np.zeros(1, np.int64)
        self.expected = ROWS_FIRST
        self.count = 0
        self._room(_LINES_FIRST)
        self.add_lines(np.full((1, len(self.positions)), OTHER_CODE, np.int32), np.zeros(1, np.int64))

    @property
    def bytes(self) -> int:
        """Memory in use."""
        arrays = (self.lines, self.last_windows, self.targets, self.openers, self.index, self.opened)
        return sum(array.nbytes for array in arrays)

    def _room(self, lines: int) -> None:
        fresh_lines = np.zeros((lines, len(self.positions)), np.int32)
        fresh_windows = np.zeros(lines, np.int64)
        fresh_targets = np.zeros(lines, np.int32)
        fresh_openers = np.zeros(lines if self.tenant_at >= 0 else 0, np.int32)
        if self.count:
            fresh_lines[: self.count] = self.lines[: self.count]
            fresh_windows[: self.count] = self.last_windows[: self.count]
            fresh_targets[: self.count] = self.targets[: self.count]
            fresh_openers[: self.count] = self.openers[: self.count]
        else:
            self.targets_known = 0
        self.lines: Codes = fresh_lines
        self.last_windows: npt.NDArray[np.int64] = fresh_windows
        self.targets: npt.NDArray[np.int32] = fresh_targets
        self.openers: Codes = fresh_openers
        self.index = np.zeros(2 * lines, np.uint64)
        kernels.index_series(self.lines, self.count, self.index)

    def add_lines(self, lines: Codes, last_windows: npt.NDArray[np.int64], openers: Codes | None = None) -> None:
        """Take over series that are known to be distinct and new, in this order; without ``openers`` nobody's."""
        room = len(self.lines)
        while room < self.count + len(lines):
            room *= 2
        stop = self.count + len(lines)
        if room > len(self.lines):
            self._room(room)
        self.lines[self.count : stop] = lines
        self.last_windows[self.count : stop] = last_windows
        if openers is not None and self.tenant_at >= 0:
            self.openers[self.count : stop] = openers
        self.count = stop
        self.opened = np.bincount(self.openers[1:stop], minlength=1)
        self.index[:] = 0
        kernels.index_series(self.lines, self.count, self.index)

    def find(
        self,
        codes: Codes,
        verdicts: npt.NDArray[np.uint8],
        windows: npt.NDArray[np.int64],
        start: int,
        stop: int,
        out: npt.NDArray[np.int64],
    ) -> None:
        """Write the series number of each accepted row of ``[start, stop)`` to ``out``, -1 for the other rows."""
        if self.tenant_at >= 0 and start < stop:
            self.opened = grown(self.opened, int(codes[self.tenant_at, start:stop].max()) + 1)
        while True:
            self.count, start = kernels.find_series(
                codes, self.positions, verdicts, windows, start, stop,
                self.lines, self.last_windows, self.index, self.count, self.limit,
                self.tenant_at, self.openers, self.opened, self.bounded.unnamed_max, self.bounded.named_max, out,
            )  # fmt: skip
            if start >= stop:
                return
            self._room(2 * len(self.lines))


class Series:
    """Words and series of one source partition. ``tenant_at``: where tenants stand among the words; -1: nowhere."""

    __slots__ = ("room", "tables", "tenant_at", "words")

    def __init__(self, words: list[Words], tables: list[SeriesTable], tenant_at: int, room: Room | None = None) -> None:
        self.words = words
        self.tables = tables
        self.tenant_at = tenant_at
        self.room = room or Room()

    @classmethod
    def new(cls, plan: Plan, budget: Budget) -> Series:
        tenant_at = plan.dimensions.index(TENANT) if TENANT in plan.dimensions else -1
        tables = [
            SeriesTable(
                grouping,
                plan.positions(grouping),
                budget.series_max,
                budget.series_of(TENANT in grouping.dimensions) if tenant_at >= 0 else NO_TENANTS,
                tenant_at,
            )
            for grouping in plan.sets
        ]
        bounded = NAMED_BY_CLIENTS if tenant_at >= 0 else ()
        words = [
            Words(budget.label_cardinality_max, bounded=budget.words if name in bounded else None)
            for name in plan.dimensions
        ]
        return cls(words, tables, tenant_at)

    def swept(self, oldest_ms: int) -> Series:
        """These series without those whose last window starts before ``oldest_ms``, and the words that they used.

        ``self`` itself when nothing goes.
        """
        kept = [self._kept(table, oldest_ms) for table in self.tables]
        used = self._used_words(kept)
        if all(mask.all() for mask in kept) and all(mask.all() for mask in used):
            return self
        renumbered = [np.cumsum(mask, dtype=np.int32) - np.int32(1) for mask in used]
        tenants = renumbered[self.tenant_at]
        words = [_some_words(old, mask, tenants) for old, mask in zip(self.words, used, strict=True)]
        tables = [_some_series(t, mask, renumbered) for t, mask in zip(self.tables, kept, strict=True)]
        return Series(words, tables, self.tenant_at, self.room)

    @staticmethod
    def _kept(table: SeriesTable, oldest_ms: int) -> npt.NDArray[np.bool_]:
        kept = table.last_windows[: table.count] >= oldest_ms
        kept[OTHER_SERIES] = True
        return kept

    def _used_words(self, kept: list[npt.NDArray[np.bool_]]) -> list[npt.NDArray[np.bool_]]:
        used = [np.zeros(len(words.words), np.bool_) for words in self.words]
        for mask in used:
            mask[: OTHER_CODE + 1] = True
        for table, mask in zip(self.tables, kept, strict=True):
            lines = table.lines[: table.count][mask]
            for column, position in enumerate(table.positions):
                used[position][lines[:, column]] = True
            if table.tenant_at >= 0:
                used[table.tenant_at][table.openers[: table.count][mask]] = True
        for words, mask in zip(self.words, used, strict=True):
            if words.bounded:
                used[self.tenant_at][np.array(words.openers, np.int64)[mask[OTHER_CODE + 1 :]]] = True
        return used


def _some_words(old: Words, mask: npt.NDArray[np.bool_], tenants: Codes) -> Words:
    words, kept = old.words, np.flatnonzero(mask[OTHER_CODE + 1 :])
    found = [word for code in (kept + OTHER_CODE + 1).tolist() if (word := words[code]) is not None]
    openers = tenants[np.array(old.openers, np.int64)[kept]].tolist() if old.bounded else ()
    return Words(old.limit, found, old.bounded, openers)


def _some_series(old: SeriesTable, mask: npt.NDArray[np.bool_], renumbered: list[Codes]) -> SeriesTable:
    lines = old.lines[: old.count][mask]
    for column, position in enumerate(old.positions):
        lines[:, column] = renumbered[position][lines[:, column]]
    fresh = SeriesTable(old.grouping, old.positions.tolist(), old.limit - 1, old.bounded, old.tenant_at)
    fresh.expected = old.expected
    fresh.last_windows[OTHER_SERIES] = old.last_windows[OTHER_SERIES]
    openers = None
    if old.tenant_at >= 0:
        openers = renumbered[old.tenant_at][old.openers[: old.count][mask][1:]]
    fresh.add_lines(lines[1:], old.last_windows[: old.count][mask][1:], openers)
    return fresh
