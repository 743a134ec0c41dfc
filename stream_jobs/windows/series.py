"""Which labels keep their names: words become codes, rows of codes become series, both first come, first served.

Membership is decided by the order of the records alone, never by commits or batch cuts: a series past ``series_max``
(of its grouping set) is folded into series 0, whose every label is ``__other__``; a value past
``label_cardinality_max`` (of its dimension) reads ``__other__``. Places become free when the watermark has left a
series' last window behind by more than the horizon; that is looked at whenever the watermark passes a multiple of
``SWEEP_MS``, between two records.

A sweep that finds something builds new tables and leaves the old ones as they are: rows not sent yet still refer to
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.events.grouping import OTHER, GroupingSet
from schemas.limits import MINUTE_MS
from stream_jobs.windows import kernels
from stream_jobs.windows.plan import Plan

SWEEP_MS = 10 * MINUTE_MS
NULL_CODE = 0
OTHER_CODE = 1
OTHER_WORD = OTHER.encode()
OTHER_SERIES = 0

ROWS_FIRST = 64
EVENTS_FIRST = 1_024
PAIRS_FIRST = 16_384
_LINES_FIRST = 1_024

Codes = npt.NDArray[np.int32]


class Words:
    """The words of one dimension by code; 0 is null, 1 is ``__other__``."""

    __slots__ = ("codes", "words")

    def __init__(self, words: Sequence[bytes] = ()) -> None:
        self.words: list[bytes | None] = [None, OTHER_WORD, *words]
        self.codes: dict[bytes | None, int] = {word: code for code, word in enumerate(self.words)}

    @property
    def kept(self) -> int:
        """Words beside the two that every dimension has."""
        return len(self.words) - 2

    def add(self, word: bytes | None, limit: int) -> int:
        """The code of a word not seen before: its own while there is room, else that of ``__other__``."""
        if self.kept >= limit:
            return OTHER_CODE
        code = len(self.words)
        self.words.append(word)
        self.codes[word] = code
        return code


@dataclass(frozen=True, slots=True)
class Room:
    """How many events a commit lately had, and how many pairs of ready-made bins (room only, no meaning)."""

    events: int = EVENTS_FIRST
    pairs: int = PAIRS_FIRST


class SeriesTable:
    """The series of one grouping set: ``lines[number]`` are the codes of its dimensions, in the set's order.

    ``targets[number]`` is its partition of ``window.partials``, for the first ``targets_known`` of them. ``expected``
    says how many rows a commit needed lately (room only, no meaning).
    """

    __slots__ = (
        "count",
        "expected",
        "grouping",
        "index",
        "last_windows",
        "limit",
        "lines",
        "positions",
        "targets",
        "targets_known",
    )

    def __init__(self, grouping: GroupingSet, positions: Iterable[int], limit: int) -> None:
        self.grouping = grouping
        self.positions = np.array(tuple(positions), dtype=np.int64)
        self.limit = limit + 1  # with series 0
        self.expected = ROWS_FIRST
        self.count = 0
        self._room(_LINES_FIRST)
        self.add_lines(np.full((1, len(self.positions)), OTHER_CODE, np.int32), np.zeros(1, np.int64))

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return self.lines.nbytes + self.last_windows.nbytes + self.targets.nbytes + self.index.nbytes

    def _room(self, lines: int) -> None:
        fresh_lines = np.zeros((lines, len(self.positions)), np.int32)
        fresh_windows = np.zeros(lines, np.int64)
        fresh_targets = np.zeros(lines, np.int32)
        if self.count:
            fresh_lines[: self.count] = self.lines[: self.count]
            fresh_windows[: self.count] = self.last_windows[: self.count]
            fresh_targets[: self.count] = self.targets[: self.count]
        else:
            self.targets_known = 0
        self.lines: Codes = fresh_lines
        self.last_windows: npt.NDArray[np.int64] = fresh_windows
        self.targets: npt.NDArray[np.int32] = fresh_targets
        self.index = np.zeros(4 * lines, np.uint64)
        kernels.index_series(self.lines, self.count, self.index)

    def add_lines(self, lines: Codes, last_windows: npt.NDArray[np.int64]) -> None:
        """Take over series that are known to be distinct and new, in this order."""
        room = len(self.lines)
        while room < self.count + len(lines):
            room *= 2
        stop = self.count + len(lines)
        if room > len(self.lines):
            self._room(room)
        self.lines[self.count : stop] = lines
        self.last_windows[self.count : stop] = last_windows
        self.count = stop
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
        while True:
            self.count, start = kernels.find_series(
                codes, self.positions, verdicts, windows, start, stop,
                self.lines, self.last_windows, self.index, self.count, self.limit, out,
            )  # fmt: skip
            if start >= stop:
                return
            self._room(2 * len(self.lines))


class Series:
    """Words and series of one source partition."""

    __slots__ = ("label_cardinality_max", "room", "tables", "words")

    def __init__(
        self, words: list[Words], tables: list[SeriesTable], label_cardinality_max: int, room: Room | None = None
    ) -> None:
        self.words = words
        self.tables = tables
        self.label_cardinality_max = label_cardinality_max
        self.room = room or Room()

    @classmethod
    def new(cls, plan: Plan, series_max: int, label_cardinality_max: int) -> Series:
        tables = [SeriesTable(grouping, plan.positions(grouping), series_max) for grouping in plan.sets]
        return cls([Words() for _ in plan.dimensions], tables, label_cardinality_max)

    def swept(self, oldest_ms: int) -> Series:
        """These series without those whose last window starts before ``oldest_ms``, and the words that they used.

        ``self`` itself when nothing goes.
        """
        kept = [self._kept(table, oldest_ms) for table in self.tables]
        used = self._used_words(kept)
        if all(mask.all() for mask in kept) and all(mask.all() for mask in used):
            return self
        renumbered = [np.cumsum(mask, dtype=np.int32) - np.int32(1) for mask in used]
        words = [_some_words(old, mask) for old, mask in zip(self.words, used, strict=True)]
        tables = [_some_series(t, mask, renumbered) for t, mask in zip(self.tables, kept, strict=True)]
        return Series(words, tables, self.label_cardinality_max, self.room)

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
        return used


def _some_words(old: Words, mask: npt.NDArray[np.bool_]) -> Words:
    words = old.words
    return Words([word for code in np.flatnonzero(mask[2:]) + 2 if (word := words[code]) is not None])


def _some_series(old: SeriesTable, mask: npt.NDArray[np.bool_], renumbered: list[Codes]) -> SeriesTable:
    lines = old.lines[: old.count][mask]
    for column, position in enumerate(old.positions):
        lines[:, column] = renumbered[position][lines[:, column]]
    fresh = SeriesTable(old.grouping, old.positions.tolist(), old.limit - 1)
    fresh.expected = old.expected
    fresh.last_windows[OTHER_SERIES] = old.last_windows[OTHER_SERIES]
    fresh.add_lines(lines[1:], old.last_windows[: old.count][mask][1:])
    return fresh
