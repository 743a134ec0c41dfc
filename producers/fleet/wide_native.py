"""A wide batch as the Native values of all its records at once; compiled.

A step of 1,250 hosts is 2,500 records of some thirty columns: cut and encoded one by one that costs 90 us a record,
this way 20. The bytes are those of ``schemas.native.encode`` for each record's block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from producers.fleet.wide import EntityLabel, Of, Wide, WideColumn
from schemas.block import Bins, Labels, Numbers, Texts
from schemas.events import BY_TOPIC
from schemas.native import column_prefix, varint

FIXED, NULLABLE, LABEL, BINS, TEXT, NULLABLE_TEXT = range(6)
_DICTIONARY_HEAD = np.frombuffer((1).to_bytes(8, "little") + (0x600).to_bytes(8, "little"), np.uint8)
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Value:
    """The value of one record: ``rows`` events of a host."""

    host: int
    rows: int
    value: bytes


class _Words(NamedTuple):
    """Dictionaries one after another: words as they are written (length and bytes), and where each ends."""

    data: Bytes
    ends: Ints
    first: Ints
    sizes: Ints


class _Columns(NamedTuple):
    """Columns of a batch. ``shape`` is one of the constants; ``at`` and ``width`` lead to fixed-width values (for
    sketches: keys, and counts at ``other``; for texts: their bytes) in ``data``; ``known`` is where the mask begins or
    -1 for all; ``slot`` numbers labels in ``codes`` and ragged columns in ``ends``; ``words`` is the first dictionary,
    ``by_host`` 1 when each host has its own."""

    shape: Ints
    at: Ints
    other: Ints
    width: Ints
    known: Ints
    slot: Ints
    words: Ints
    by_host: Ints
    data: Bytes
    codes: npt.NDArray[np.uint16]
    ends: Ints


class WideEncoder:
    """Encodes wide batches of one fleet; keeps the serialised dictionaries of its labels."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[EntityLabel, list[list[bytes]]]] = {}

    def encode(self, wide: Wide, rows_max: int) -> list[Value]:
        """The values of all records, each of at most ``rows_max`` events of one host, in order."""
        host, first, last = _records(wide.ends, rows_max)
        columns, words = self._gather(wide)
        prefixes = [column_prefix(field) for field in BY_TOPIC[wide.topic].fields]
        prefix = np.frombuffer(b"".join(prefixes), np.uint8)
        prefix_ends = np.cumsum([len(one) for one in prefixes], dtype=np.int64)
        out = np.empty(_bound(columns, words, len(host), wide.rows, len(prefix)), np.uint8)
        ends = np.zeros(len(host), np.int64)
        _write(host, first, last, columns, words, prefix, prefix_ends, out, ends)
        begins = [0, *ends[:-1].tolist()]
        return [
            Value(h, rows, out[a:b].tobytes())
            for h, rows, a, b in zip(host.tolist(), (last - first).tolist(), begins, ends.tolist(), strict=True)
        ]

    def _gather(self, wide: Wide) -> tuple[_Columns, _Words]:
        parts = _Parts(wide)
        for field in BY_TOPIC[wide.topic].fields:
            column = wide.columns[field.name]
            if isinstance(column, Of):
                parts.label(column.label.host_codes[wide.entity], self._dictionaries(column.label), 1)
            elif isinstance(column, Labels):
                parts.label(column.codes, [_serialised(column.words)], 0)
            else:
                parts.plain(column, field.kind.optional)
        return parts.finish()

    def _dictionaries(self, label: EntityLabel) -> list[list[bytes]]:
        kept = self._kept.get(id(label))
        if kept is None:
            kept = self._kept[id(label)] = (label, [_serialised(words) for words in label.host_words])
        return kept[1]


def _serialised(words: Sequence[bytes | None]) -> list[bytes]:
    assert len(words) <= 256, "the compiled writer has one-byte codes"
    return [varint(len(word)) + word if word else b"\0" for word in words]


def _records(ends: Ints, rows_max: int) -> tuple[Ints, Ints, Ints]:
    """Host, first row and end of every record."""
    sizes = np.diff(ends, prepend=0)
    pieces = -(-sizes // rows_max)
    host = np.repeat(np.arange(len(ends)), pieces)
    piece = np.arange(len(host)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = (ends - sizes)[host] + piece * rows_max
    return host, first, np.minimum(first + rows_max, ends[host])


class _Parts:
    """Collects columns into flat arrays."""

    def __init__(self, wide: Wide) -> None:
        self._rows = wide.rows
        self._table: list[tuple[int, ...]] = []
        self._data: list[Bytes] = []
        self._size = 0
        self._codes: list[npt.NDArray[np.uint16]] = []
        self._ends: list[Ints] = []
        self._words: list[list[bytes]] = []

    def label(self, codes: npt.NDArray[Any], dictionaries: list[list[bytes]], by_host: int) -> None:
        self._table.append((LABEL, 0, 0, 0, -1, len(self._codes), len(self._words), by_host))
        self._codes.append(codes.astype(np.uint16))
        self._words += dictionaries

    def plain(self, column: WideColumn, optional: bool) -> None:
        if isinstance(column, Numbers):
            known = -1 if column.known is None else self._put(column.known)
            shape = NULLABLE if optional else FIXED
            self._table.append((shape, self._put(column.values), 0, column.values.itemsize, known, 0, 0, 0))
        elif isinstance(column, Bins):
            keys, counts = self._put(column.keys.astype("<i2")), self._put(column.counts.astype("<u8"))
            self._table.append((BINS, keys, counts, 0, -1, len(self._ends), 0, 0))
            self._ends.append(column.ends)
        else:
            assert isinstance(column, Texts)
            known = -1 if column.known is None else self._put(column.known)
            at = self._put(np.frombuffer(column.data, np.uint8))
            self._table.append((NULLABLE_TEXT if optional else TEXT, at, 0, 0, known, len(self._ends), 0, 0))
            self._ends.append(column.ends)

    def _put(self, array: npt.NDArray[Any]) -> int:
        at = self._size
        self._data.append(np.ascontiguousarray(array).view(np.uint8))
        self._size += array.nbytes
        return at

    def finish(self) -> tuple[_Columns, _Words]:
        table = np.array(self._table, np.int64).T
        codes = np.stack(self._codes) if self._codes else np.zeros((0, self._rows), np.uint16)
        ends: Ints = np.stack(self._ends) if self._ends else np.zeros((0, self._rows), np.int64)
        data = np.concatenate(self._data)
        flat = [word for words in self._words for word in words]
        sizes = np.array([len(words) for words in self._words], np.int64)
        words = _Words(
            np.frombuffer(b"".join(flat), np.uint8),
            np.cumsum([len(word) for word in flat], dtype=np.int64),
            np.cumsum(sizes) - sizes,
            sizes,
        )
        shape, at, other, width, known, slot, first, by_host = (np.ascontiguousarray(row) for row in table)
        return _Columns(shape, at, other, width, known, slot, first, by_host, data, codes, ends), words


def _bound(columns: _Columns, words: _Words, records: int, rows: int, prefix: int) -> int:
    """More bytes than the values can have; only what is written is ever touched."""
    wide = len(columns.data) + rows * (len(columns.codes) + 8 * len(columns.ends) + 6 * len(columns.shape))
    longest = np.diff(words.ends, prepend=0).max(initial=1) * words.sizes.max(initial=1)
    return int(wide + records * (prefix + 64 * len(columns.shape) + longest * len(columns.codes)))


@njit(cache=True)
def _write(
    host: Ints,
    first: Ints,
    last: Ints,
    columns: _Columns,
    words: _Words,
    prefix: Bytes,
    prefix_ends: Ints,
    out: Bytes,
    ends: Ints,
) -> None:
    """Write all records one after another; ``ends`` receives where each one ends."""
    rank = np.zeros(256, np.int64)
    at = 0
    for record in range(len(host)):
        a, b = first[record], last[record]
        at = _varint(out, at, len(columns.shape))
        at = _varint(out, at, b - a)
        begin = 0
        for c in range(len(columns.shape)):
            at = _copy(out, at, prefix, begin, prefix_ends[c])
            begin = prefix_ends[c]
            shape = columns.shape[c]
            if shape in (NULLABLE, NULLABLE_TEXT):
                at = _null_map(out, at, columns, c, a, b)
            if shape in (FIXED, NULLABLE):
                width = columns.width[c]
                at = _copy(out, at, columns.data, columns.at[c] + a * width, columns.at[c] + b * width)
            elif shape == LABEL:
                dictionary = columns.words[c] + columns.by_host[c] * host[record]
                codes = columns.codes[columns.slot[c]]
                at = _labels(out, at, codes, a, b, words, dictionary, rank)
            elif shape == BINS:
                at = _bins(out, at, columns, c, a, b)
            else:
                at = _texts(out, at, columns, c, a, b)
        ends[record] = at


@njit(cache=True)
def _copy(out: Bytes, at: int, data: Bytes, begin: int, end: int) -> int:
    out[at : at + end - begin] = data[begin:end]
    return at + end - begin


@njit(cache=True)
def _varint(out: Bytes, at: int, value: int) -> int:
    while value > 0x7F:
        out[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@njit(cache=True)
def _u64(out: Bytes, at: int, value: int) -> int:
    for byte in range(8):
        out[at + byte] = (value >> (8 * byte)) & 0xFF
    return at + 8


@njit(cache=True)
def _null_map(out: Bytes, at: int, columns: _Columns, c: int, a: int, b: int) -> int:
    known = columns.known[c]
    for row in range(a, b):
        out[at] = 0 if known < 0 or columns.data[known + row] else 1
        at += 1
    return at


@njit(cache=True)
def _labels(
    out: Bytes, at: int, codes: npt.NDArray[np.uint16], a: int, b: int, words: _Words, dictionary: int, rank: Ints
) -> int:
    """Dictionary and codes; a dictionary of more words than rows (and null) holds the words in use only."""
    count = words.sizes[dictionary]
    first = words.first[dictionary]
    rank[:count] = 1
    if count > b - a + 1:
        rank[1:count] = 0
        for row in range(a, b):
            rank[codes[row]] = 1
    at = _copy(out, at, _DICTIONARY_HEAD, 0, 16)
    at = _u64(out, at, rank[:count].sum())
    used = 0
    for word in range(count):
        if rank[word]:
            rank[word] = used
            used += 1
            begin = words.ends[first + word - 1] if first + word > 0 else 0
            at = _copy(out, at, words.data, begin, words.ends[first + word])
    at = _u64(out, at, b - a)
    for row in range(a, b):
        out[at] = rank[codes[row]]
        at += 1
    return at


@njit(cache=True)
def _bins(out: Bytes, at: int, columns: _Columns, c: int, a: int, b: int) -> int:
    ends = columns.ends[columns.slot[c]]
    base = ends[a - 1] if a > 0 else 0
    for row in range(a, b):
        at = _u64(out, at, ends[row] - base)
    end = ends[b - 1]
    at = _copy(out, at, columns.data, columns.at[c] + 2 * base, columns.at[c] + 2 * end)
    return _copy(out, at, columns.data, columns.other[c] + 8 * base, columns.other[c] + 8 * end)


@njit(cache=True)
def _texts(out: Bytes, at: int, columns: _Columns, c: int, a: int, b: int) -> int:
    ends = columns.ends[columns.slot[c]]
    begin = ends[a - 1] if a > 0 else 0
    for row in range(a, b):
        at = _varint(out, at, ends[row] - begin)
        at = _copy(out, at, columns.data, columns.at[c] + begin, columns.at[c] + ends[row])
        begin = ends[row]
    return at
