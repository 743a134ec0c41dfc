"""Dictionaries of label columns, remembered by their bytes: the same host sends the same words every second.

What was seen before is found by compiled code, for all records of a batch at once; Python sees a dictionary when it is
new. Word 0 is null everywhere.
"""

# mypy: disable-error-code="assignment"
# (numba casts numpy scalars to the integers of the signatures)
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from schemas.fields import Field, Kind
from schemas.native_cursor import read_varint
from schemas.native_kernels import hash_bytes, same_bytes
from schemas.room import grown

BAD_WORD = 1 << 30
"""Set in the codes of words that may not stand in their column; the bits below are then 0."""
_ENTRIES_MAX = 131_072
_BYTES_MAX = 32 * 1024 * 1024
_SPARE = 8
_EMPTY = -1

WordList = list[bytes | None]
Judge = Callable[[Field, bytes | None], bool]
"""Whether a word may stand in a label column; must be a function of its arguments alone."""


def any_word(field: Field, word: bytes | None) -> bool:
    """The judge of blocks that need no judgement."""
    return True


class Coded(NamedTuple):
    """The words of a batch. ``codes[starts[label, record] + i]`` is the code of word ``i`` of a record's dictionary,
    with ``BAD_WORD`` where it was refused; ``words[label]`` are the words by code, in the order of their first use."""

    starts: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]
    words: list[WordList]


class _Memory(NamedTuple):
    """Dictionaries by bytes. ``entries``: label, start and size in ``data``, start and number of ``numbers``, hash;
    ``numbers`` are the words of all dictionaries; ``table`` (a power of two) has the entries by hash."""

    table: npt.NDArray[np.int64]
    entries: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.int32]


class _Marks(NamedTuple):
    """What the batch at hand has given out: by entry (turn, start of its codes), by word (turn, code)."""

    entries: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]


class Dictionaries:
    """Dictionaries seen before: their words and which of them are refused. One per event type, limits and judge.

    Bounded by entries and bytes: when there are too many all are forgotten, before the next batch. Threads take turns.
    """

    def __init__(self, fields: Sequence[Field], judge: Judge) -> None:
        self._labels = [(column, field) for column, field in enumerate(fields) if field.kind is Kind.LABEL]
        self._judge = judge
        self._lock = threading.Lock()
        self._turn = 0
        self._forget()

    def _forget(self) -> None:
        self._count = self._bytes = self._numbers = 0
        self._words: WordList = [None]
        self._number_of: dict[bytes | None, int] = {None: 0}
        self._memory = _Memory(
            np.full(1 << 10, _EMPTY, np.int64), np.empty((1 << 9, 6), np.int64), _room(1 << 12, np.uint8), _room(1 << 9)
        )
        self._marks = _Marks(np.zeros((1 << 9, 2), np.int64), np.zeros((1 << 9, 2), np.int64))

    def code(self, joined: bytes, data: Any, rows: Any, places: Any) -> Coded:
        """The words of the measured records (``native_kernels.measure``) of ``joined``; ``data`` are its bytes."""
        with self._lock:
            if self._count > _ENTRIES_MAX or self._bytes > _BYTES_MAX:
                self._forget()
            starts = np.empty((len(self._labels), len(rows)), np.int64)
            for label, (column, _) in enumerate(self._labels):
                if look_up(data, rows, places, column, label, self._memory, starts[label]):
                    self._learn_all(joined, rows, places, column, label, starts[label])
            columns = [column for column, _ in self._labels]
            codes = np.empty(int(places[:, columns, 2][rows > 0].sum()), np.int32)
            words, at = [], 0
            for label in range(len(self._labels)):
                self._turn += 1
                used = np.empty(len(self._words), np.int32)
                at, count = give_codes(rows, self._memory, self._marks, self._turn, starts[label], codes, at, used)
                words.append(list(map(self._words.__getitem__, used[:count].tolist())))
            return Coded(starts, codes, words)

    def _learn_all(self, joined: bytes, rows: Any, places: Any, column: int, label: int, entries: Any) -> None:
        fresh: dict[bytes, int] = {}
        for record in np.flatnonzero((entries == _EMPTY) & (rows > 0)).tolist():
            begin, end, count = places[record, column, :3].tolist()
            text = joined[begin:end]
            if (entry := fresh.get(text)) is None:
                entry = fresh[text] = self._learn(label, text, count)
            entries[record] = entry

    def _learn(self, label: int, text: bytes, count: int) -> int:
        """Remember a dictionary of so many words, entry 0 of which is null; its entry."""
        numbers, position = [], 0
        for place in range(count):
            size, position = read_varint(text, position)
            word = text[position : position + size] if place else None
            position += size
            numbers.append(self._number(word) if self._judge(self._labels[label][1], word) else BAD_WORD)
        self._make_room(len(text), count)
        memory, entry = self._memory, self._count
        memory.data[self._bytes : self._bytes + len(text)] = np.frombuffer(text, np.uint8)
        memory.numbers[self._numbers : self._numbers + count] = numbers
        hashed = hash_bytes(memory.data, self._bytes, len(text))
        memory.entries[entry] = (label, self._bytes, len(text), self._numbers, count, hashed)
        put(memory, entry)
        self._count, self._bytes, self._numbers = entry + 1, self._bytes + len(text), self._numbers + count
        return entry

    def _number(self, word: bytes | None) -> int:
        number = self._number_of.setdefault(word, len(self._words))
        if number == len(self._words):
            self._words.append(word)
        return number

    def _make_room(self, size: int, count: int) -> None:
        """For one entry more, of so many bytes and words."""
        table, entries, data, numbers = self._memory
        marks, words = self._marks
        data = grown(data, self._bytes + size + _SPARE)
        numbers = grown(numbers, self._numbers + count)
        entries = grown(entries, self._count + 1)
        marks, words = grown(marks, len(entries)), grown(words, len(self._words))
        self._marks = _Marks(marks, words)
        grows = 2 * len(entries) > len(table)
        if grows:
            table = np.full(2 * len(table), _EMPTY, np.int64)
        self._memory = _Memory(table, entries, data, numbers)
        for entry in range(self._count if grows else 0):
            put(self._memory, entry)


def _room(size: int, dtype: Any = np.int32) -> npt.NDArray[Any]:
    return np.zeros(size, dtype)


@njit(cache=True, nogil=True)
def look_up(data: Any, rows: Any, places: Any, column: int, label: int, memory: Any, entries: Any) -> int:
    """The entry of every record's dictionary, -1 where it is not known or the record has no rows; how many are new."""
    mask, missing = len(memory.table) - 1, 0
    for record in range(len(rows)):
        entries[record] = -1
        if rows[record] <= 0:
            continue
        begin = places[record, column, 0]
        size = places[record, column, 1] - begin
        hashed = hash_bytes(data, begin, size)
        slot = (hashed + label) & mask
        while memory.table[slot] >= 0:
            entry = memory.table[slot]
            known = memory.entries[entry]
            alike = known[5] == hashed and known[0] == label and known[2] == size
            if alike and same_bytes(data, begin, memory.data, known[1], size):
                entries[record] = entry
                break
            slot = (slot + 1) & mask
        missing += entries[record] < 0
    return missing


@njit(cache=True, nogil=True)
def put(memory: Any, entry: int) -> None:
    """Put an entry into the table; there is room."""
    mask = len(memory.table) - 1
    slot = (memory.entries[entry, 5] + memory.entries[entry, 0]) & mask
    while memory.table[slot] >= 0:
        slot = (slot + 1) & mask
    memory.table[slot] = entry


@njit(cache=True, nogil=True)
def give_codes(rows: Any, memory: Any, marks: Any, turn: int, starts: Any, codes: Any, at: int, used: Any) -> Any:
    """Put the codes of one label's dictionaries behind ``at``: words are numbered as they come, from 1.

    ``starts`` holds entries and gets the start of their codes; ``used`` gets the words by code. The end of the codes
    and the number of words (null is the first).
    """
    used[0] = 0
    count = 1
    for record in range(len(rows)):
        if rows[record] <= 0:
            continue
        entry = starts[record]
        if marks.entries[entry, 0] != turn:
            marks.entries[entry, 0], marks.entries[entry, 1] = turn, at
            first = memory.entries[entry, 3]
            for place in range(first, first + memory.entries[entry, 4]):
                number = np.int64(memory.numbers[place])
                word = number & (BAD_WORD - 1)
                if word == 0:
                    codes[at] = number
                else:
                    if marks.words[word, 0] != turn:
                        marks.words[word, 0], marks.words[word, 1] = turn, count
                        used[count] = word
                        count += 1
                    codes[at] = marks.words[word, 1]
                at += 1
        starts[record] = marks.entries[entry, 1]
    return at, count
