"""Dictionaries of label columns, remembered by their bytes: the same host sends the same words every second.

What was seen before is found by compiled code, for all records of a batch at once; Python sees a dictionary when it is
new. Word 0 is null everywhere.
"""

# mypy: disable-error-code="assignment"
# (numba casts numpy scalars to the integers of the signatures)
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from schemas.codec.native_cursor import read_varint
from schemas.codec.native_kernels import hash_bytes, same_bytes
from schemas.codec.room import grown
from schemas.fields import Field, Kind

BAD_WORD = 1 << 30
"""Set in the codes of words that may not stand in their column; the bits below are then 0."""
_ENTRIES_MAX = 131_072
_BYTES_MAX = 32 * 1024 * 1024
_NUMBERS_MAX = 1 << 20
"""Words of all dictionaries together."""
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

    Bounded by entries, bytes and words: when there are too many all are forgotten, behind their batch, so that no more
    is held until another comes. Threads take turns.
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
        self._known: list[dict[bytes | None, int]] = [{} for _ in self._labels]
        self._memory = _Memory(
            np.full(1 << 10, _EMPTY, np.int64), np.empty((1 << 9, 6), np.int64), _room(1 << 12, np.uint8), _room(1 << 9)
        )
        self._marks = _Marks(np.zeros((1 << 9, 2), np.int64), np.zeros((1 << 9, 2), np.int64))

    def code(self, joined: bytes, data: Any, rows: Any, places: Any) -> Coded:
        """The words of the measured records (``native_kernels.measure``) of ``joined``; ``data`` are its bytes."""
        with self._lock:
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
            if self._count > _ENTRIES_MAX or self._bytes > _BYTES_MAX or self._numbers > _NUMBERS_MAX:
                self._forget()
            return Coded(starts, codes, words)

    def _learn_all(self, joined: bytes, rows: Any, places: Any, column: int, label: int, entries: Any) -> None:
        """Remember the dictionaries that ``entries`` lacks, and add their entries."""
        records = np.flatnonzero((entries == _EMPTY) & (rows > 0))
        fresh: dict[bytes, int] = {}
        counts: list[int] = []
        numbers: list[int] = []
        found: list[int] = []
        for begin, end, count in places[records, column, :3].tolist():
            text = joined[begin:end]
            if (entry := fresh.get(text)) is None:
                entry = fresh[text] = self._count + len(counts)
                counts.append(count)
                numbers += self._read(label, text, count)
            found.append(entry)
        entries[records] = found
        self._remember(label, list(fresh), counts, numbers)

    def _read(self, label: int, text: bytes, count: int) -> list[int]:
        """The numbers of a dictionary's words; entry 0 of it is null."""
        known, position, numbers = self._known[label], 0, []
        for place in range(count):
            size = text[position]
            position += 1
            if size >= 0x80:
                size, position = read_varint(text, position - 1)
            word = text[position : position + size] if place else None
            position += size
            number = known.get(word)
            if number is None:
                number = known[word] = self._number(word) if self._judge(self._labels[label][1], word) else BAD_WORD
            numbers.append(number)
        return numbers

    def _number(self, word: bytes | None) -> int:
        number = self._number_of.setdefault(word, len(self._words))
        if number == len(self._words):
            self._words.append(word)
        return number

    def _remember(self, label: int, texts: list[bytes], counts: list[int], numbers: list[int]) -> None:
        """Put dictionaries of one label behind those that are there; ``numbers`` are the words of all of them."""
        data, sizes, first = b"".join(texts), list(map(len, texts)), self._count
        self._make_room(len(texts), len(data), len(numbers))
        memory, last = self._memory, first + len(texts)
        memory.data[self._bytes : self._bytes + len(data)] = np.frombuffer(data, np.uint8)
        memory.numbers[self._numbers : self._numbers + len(numbers)] = numbers
        entries = memory.entries[first:last]
        entries[:, 0], entries[:, 2], entries[:, 4] = label, sizes, counts
        entries[:, 1] = list(accumulate(sizes[:-1], initial=self._bytes))
        entries[:, 3] = list(accumulate(counts[:-1], initial=self._numbers))
        put(memory, first, last)
        self._count, self._bytes, self._numbers = last, self._bytes + len(data), self._numbers + len(numbers)

    def _make_room(self, entries_more: int, bytes_more: int, numbers_more: int) -> None:
        table, entries, data, numbers = self._memory
        marks, words = self._marks
        data = grown(data, self._bytes + bytes_more + _SPARE)
        numbers = grown(numbers, self._numbers + numbers_more)
        entries = grown(entries, self._count + entries_more)
        marks, words = grown(marks, len(entries)), grown(words, len(self._words))
        self._marks = _Marks(marks, words)
        size = len(table)
        while 2 * len(entries) > size:
            size *= 2
        grows = size > len(table)
        if grows:
            table = np.full(size, _EMPTY, np.int64)
        self._memory = _Memory(table, entries, data, numbers)
        if grows:
            put(self._memory, 0, self._count)


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
def put(memory: Any, first: int, last: int) -> None:
    """Put these entries into the table, with their hashes; there is room."""
    mask = len(memory.table) - 1
    for entry in range(first, last):
        one = memory.entries[entry]
        one[5] = hash_bytes(memory.data, one[1], one[2])
        slot = (one[5] + one[0]) & mask
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
