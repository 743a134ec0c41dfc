"""Which series of a rule has which slot.

Slots are small whole numbers: every array of a rule's state has one row per slot. A series takes a free slot when it
is seen first and keeps it until it is forgotten. At most ``series_max`` have one; those beyond are counted, not
judged, and tried again in their next window. Places become free when a series was not seen for ``idle_ms``; while
there is no room, those not seen for ``PRESSED_IDLE_MS`` go as well. A flood of new series can so hold places for an
hour, and costs no more memory than the limit.

Which of the new ones get the last places is decided by the order of their labels, not of their rows. About 8 bytes
per label and 80 bytes of its own per series, and its words once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Labels
from schemas.limits import DAY_MS, HOUR_MS
from stream_jobs.insight import frame
from stream_jobs.insight import group_kernels as kernels
from stream_jobs.insight.frame import Mask, Whole
from stream_jobs.insight.lexicon import Lexicon
from stream_jobs.insight.project import an_index

SERIES_MAX = 250_000
"""Of a rule: 100,000 GPUs, and those of the last days that were replaced."""
IDLE_MS = 8 * DAY_MS
"""A series that comes once a week is still known the next week."""
PRESSED_IDLE_MS = HOUR_MS

_ROOM_FIRST = 64
_NULL = 0


class Words:
    """The words of one label by code; 0 is null."""

    __slots__ = ("codes", "words")

    def __init__(self, words: Sequence[bytes] = ()) -> None:
        self.words: list[bytes | None] = [None, *words]
        self.codes: dict[bytes | None, int] = {word: code for code, word in enumerate(self.words)}

    def take(self, word: bytes | None) -> int:
        """The code of a word, a new one if need be."""
        code = self.codes.setdefault(word, len(self.words))
        if code == len(self.words):
            self.words.append(word)
        return code


class Registry:
    """Series by their labels (in the order of ``by``). ``alive`` and ``seen_ms`` have one row per slot."""

    def __init__(self, by: Sequence[str], series_max: int = SERIES_MAX) -> None:
        self.by = tuple(by)
        self.series_max = series_max
        self.words = [Words() for _ in self.by]
        self.count = 0
        self.lines: npt.NDArray[np.int32] = np.zeros((0, len(self.by)), np.int32)
        self.alive: Mask = np.zeros(0, np.bool_)
        self.seen_ms: Whole = np.zeros(0, np.int64)
        self._index = an_index(0)
        self._is_packed = True
        self._texts: dict[str, npt.NDArray[Any]] = {}
        """The words as they are dumped, until there are others."""
        self._mapped: dict[int, tuple[Lexicon, npt.NDArray[np.int32]]] = {}
        """By place: our codes of the words of a lexicon, as far as it was looked up."""

    @property
    def room(self) -> int:
        """Slots there are arrays for."""
        return len(self.alive)

    def slots_of(self, labels: Sequence[Labels], rows: int, end_ms: int) -> tuple[Whole, Whole]:
        """The slot of each row, -1 where there is no place; and those that were given out now. Rows are distinct."""
        slots = np.full(rows, kernels.NOWHERE, np.int64)
        kernels.find_lines(self.known_codes(labels, rows, range(len(labels))), self.lines, self._index, slots)
        strangers = np.flatnonzero(slots < 0)
        room = self.series_max - self.count
        taken = strangers[:0]
        if len(strangers) and room > 0:
            chosen = strangers[_in_order(labels, strangers)[:room]]
            taken = self._enter(labels, chosen)
            slots[chosen] = taken
        self.seen_ms[slots[slots >= 0]] = end_ms
        return slots, taken

    def known_codes(self, labels: Sequence[Labels], rows: int, places: Sequence[int]) -> npt.NDArray[np.int32]:
        """Our codes of columns that stand at ``places`` of ``by`` (rows, labels); -1 for a word that no series has."""
        out = np.empty((rows, len(labels)), np.int32)
        for number, (column, place) in enumerate(zip(labels, places, strict=True)):
            out[:, number] = self._ours(column.words, place)[column.codes]
        return out

    def _ours(self, words: Sequence[bytes | None], place: int) -> npt.NDArray[np.int32]:
        """Our code of each word, -1 where no series has it."""
        get = self.words[place].codes.get
        if not isinstance(words, Lexicon):
            return np.array([get(word, kernels.NOWHERE) for word in words], np.int32)
        lexicon, ours = self._mapped.get(place, (words, np.empty(0, np.int32)))
        known = ours if lexicon is words else ours[:0]
        if len(known) < len(words):
            more = [get(word, kernels.NOWHERE) for word in words[len(known) :]]
            known = np.concatenate([known, np.array(more, np.int32)])
        self._mapped[place] = (words, known)
        return known

    def idle(self, before_ms: int, kept: Mask) -> Whole:
        """Slots not seen since ``before_ms``, those ``kept`` apart."""
        return np.flatnonzero(self.alive & ~kept & (self.seen_ms < before_ms))

    def pass_by(self, end_ms: int, length_ms: int) -> None:
        """Nobody was looked for in the window of ``length_ms`` before ``end_ms``: its time makes no series idle."""
        self.seen_ms[self.alive] = np.minimum(self.seen_ms[self.alive] + length_ms, end_ms)

    def forget(self, slots: Whole) -> None:
        """Free these slots. Words that nobody uses any more go as well."""
        self.alive[slots] = False
        self.seen_ms[slots] = 0
        self.lines[slots] = _NULL
        self.count -= len(slots)
        self._is_packed = False
        self._pack()

    def labels_of(self, slots: Whole) -> list[frame.Labels]:
        """Labels of these series without those that are null."""
        pairs = [self._pairs(place, slots) for place in range(len(self.by))]
        return [tuple(pair for pair in line if pair is not None) for line in zip(*pairs, strict=True)] or [()] * len(
            slots
        )

    def dump(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays; equal for equal series."""
        self._pack()
        self._texts = self._texts or self._words_dumped()
        return {"lines": self.lines, "alive": self.alive, "seen_ms": self.seen_ms, **self._texts}

    def load(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Takes over what was dumped."""
        text, ends = arrays["words"].tobytes(), np.cumsum(arrays["word_lengths"], dtype=np.int64).tolist()
        words = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        stops = np.cumsum(arrays["word_counts"], dtype=np.int64).tolist()
        self.words = [Words(words[start:stop]) for start, stop in zip([0, *stops], stops, strict=False)]
        self._texts, self._mapped = {}, {}
        self.lines, self.alive, self.seen_ms = arrays["lines"], arrays["alive"], arrays["seen_ms"]
        self.count = int(self.alive.sum())
        self._reindex()

    def _pairs(self, place: int, slots: Whole) -> list[tuple[str, str] | None]:
        codes, words, name = self.lines[slots, place], self.words[place].words, self.by[place]
        used = {code: words[code] for code in np.unique(codes).tolist()}
        pairs = {code: None if word is None else (name, word.decode(errors="replace")) for code, word in used.items()}
        return [pairs[code] for code in codes.tolist()]

    def _enter(self, labels: Sequence[Labels], rows: Whole) -> Whole:
        self._grow(self.count + len(rows))
        self._is_packed = False
        slots = np.flatnonzero(~self.alive)[: len(rows)]
        for place, column in enumerate(labels):
            take, codes = self.words[place].take, column.codes[rows]
            used = np.unique(codes)
            ours = np.zeros(len(column.words), np.int32)
            ours[used] = [take(column.words[code]) for code in used.tolist()]
            self.lines[slots, place] = ours[codes]
            self._learn(place, column.words, used, ours[used])
        self.alive[slots] = True
        self.count += len(slots)
        kernels.enter_lines(self.lines, slots, self._index)
        return slots

    def _learn(self, place: int, words: Sequence[bytes | None], codes: Whole, ours: npt.NDArray[np.int32]) -> None:
        """These words of the column have codes of ours now."""
        lexicon, known = self._mapped.get(place, (None, ours))
        if lexicon is words:
            known[codes] = ours
        else:
            self._mapped.pop(place, None)

    def _grow(self, wanted: int) -> None:
        room = self.room
        if wanted <= room:
            return
        more = max(_ROOM_FIRST, room)
        while room + more < wanted:
            more *= 2
        self.lines = np.concatenate([self.lines, np.zeros((more, len(self.by)), np.int32)])
        self.alive = np.concatenate([self.alive, np.zeros(more, np.bool_)])
        self.seen_ms = np.concatenate([self.seen_ms, np.zeros(more, np.int64)])
        self._reindex()

    def _reindex(self) -> None:
        self._index = an_index(self.room)
        kernels.enter_lines(self.lines, np.flatnonzero(self.alive), self._index)

    def _pack(self) -> None:
        """Keep only words in use, in rising order, and number them again."""
        if self._is_packed:
            return
        for place, words in enumerate(self.words):
            used = np.unique(self.lines[self.alive, place])
            kept = [(words.words[code] or b"", code) for code in used.tolist() if code != _NULL]
            kept.sort()
            ours = np.zeros(len(words.words), np.int32)
            ours[[code for _, code in kept]] = np.arange(1, len(kept) + 1, dtype=np.int32)
            self.lines[:, place] = ours[self.lines[:, place]]
            self.words[place] = Words([word for word, _ in kept])
        self._is_packed, self._texts, self._mapped = True, {}, {}
        self._reindex()

    def _words_dumped(self) -> dict[str, npt.NDArray[Any]]:
        words = [word or b"" for one in self.words for word in one.words[1:]]
        return {
            "words": np.frombuffer(b"".join(words), np.uint8),
            "word_lengths": np.array([len(word) for word in words], np.int32),
            "word_counts": np.array([len(one.words) - 1 for one in self.words], np.int64),
        }


def _in_order(labels: Sequence[Labels], rows: Whole) -> Whole:
    """Places among ``rows`` that put them in the order of their labels."""
    ranks = [_ranks(column, column.codes[rows]) for column in labels]
    return np.lexsort(ranks[::-1]) if ranks else np.arange(len(rows))


def _ranks(column: Labels, codes: npt.NDArray[Any]) -> Whole:
    used = np.unique(codes)
    order = sorted(used.tolist(), key=lambda code: (code != _NULL, column.words[code] or b""))
    ranks = np.zeros(len(column.words), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[codes]
