"""Compiled loops that prove the structure of canonical Native blocks. The compiler checks no bounds: the code does.

``measure`` proves every record and notes where its columns lie; only what it has proven is read by ``survey``, by
``native_words`` and by ``native_fill``. The buffer must be followed by 8 spare bytes, because texts
are hashed and copied eight bytes at a time. ``places`` is (record, column, 4):

=========  ======================  =======================  ==================  ===================
shape      0                       1                        2                   3
=========  ======================  =======================  ==================  ===================
number     start of the data       -                        -                   -
label      start of dictionary     end of dictionary        words               index start, see below
sketch     start of end offsets    pairs                    -                   -
text       start of the data       bytes of all texts       -                   -
=========  ======================  =======================  ==================  ===================

The index start of a label is stored as ``position * 8 + bytes per index``.
"""

# mypy: disable-error-code="assignment,return-value"
# (numba casts numpy scalars to the integers of the signatures)
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from schemas.codec.native_cursor import WORDS_SPARE_MAX
from schemas.codec.native_layout import BINS, FIXED, LABEL, NULLABLE, NULLABLE_TEXT
from schemas.codec.native_loads import load16, load32, load64


@njit(cache=True, nogil=True)
def same_bytes(left: Any, at: int, right: Any, there: int, size: int) -> bool:
    """Whether ``size`` bytes are equal; reads no byte beyond them."""
    i = 0
    while i + 8 <= size:
        if load64(left, at + i) != load64(right, there + i):
            return False
        i += 8
    while i < size:
        if left[at + i] != right[there + i]:
            return False
        i += 1
    return True


@njit(cache=True, nogil=True)
def read_varint(data: Any, position: int, end: int) -> tuple[int, int]:
    """A number below 2^35 and the position after it; position -1 where there is none."""
    value = 0
    for i in range(5):
        if position + i >= end:
            return 0, -1
        byte = np.int64(data[position + i])
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, position + i + 1
    return 0, -1


@njit(cache=True, nogil=True)
def _skip_texts(data: Any, position: int, end: int, count: int) -> int:
    """The position after ``count`` texts, -1 where they do not end before ``end``."""
    for _ in range(count):
        if position >= end:
            return -1
        size = np.int64(data[position])
        position += 1
        if size >= 0x80:
            size, position = read_varint(data, position - 1, end)
            if position < 0:
                return -1
        position += size
        if position > end:
            return -1
    return position


@njit(cache=True, nogil=True)
def _measure_label(data: Any, position: int, end: int, rows: int, place: Any) -> int:
    if position + 24 > end or load64(data, position) != 1:
        return -1
    flags, words = np.int64(load64(data, position + 8)), np.int64(load64(data, position + 16))
    if flags < 0x600 or flags > 0x602 or words < 1 or words > rows + WORDS_SPARE_MAX:
        return -1
    place[0], place[2] = position + 24, words
    position = _skip_texts(data, position + 24, end, words)
    size = 1 << (flags & 3)
    if position < 0 or position + 8 + rows * size > end or np.int64(load64(data, position)) != rows:
        return -1
    place[1], place[3] = position, (position + 8) * 8 + size
    position += 8
    greatest = np.uint64(0)
    for i in range(rows):
        if size == 1:
            greatest = max(greatest, np.uint64(data[position + i]))
        elif size == 2:
            greatest = max(greatest, load16(data, position + 2 * i))
        else:
            greatest = max(greatest, load32(data, position + 4 * i))
    return position + rows * size if np.int64(greatest) < words else -1


@njit(cache=True, nogil=True)
def _measure_bins(data: Any, position: int, end: int, rows: int, place: Any) -> int:
    if position + 8 * rows > end:
        return -1
    place[0] = position
    last = np.int64(0)
    for i in range(rows):
        here = np.int64(load64(data, position + 8 * i))
        if here < last:
            return -1
        last = here
    position += 8 * rows
    place[1] = last
    return position + 10 * last if last <= (end - position) // 10 else -1


@njit(cache=True, nogil=True)
def _measure_text(data: Any, position: int, end: int, rows: int, nullable: bool, place: Any) -> int:
    place[0] = position
    heads = 0
    if nullable:
        position += rows
        if position > end:
            return -1
    start = position
    for _ in range(rows):
        if position >= end:
            return -1
        size, after = np.int64(data[position]), position + 1
        if size >= 0x80:
            size, after = read_varint(data, position, end)
            if after < 0:
                return -1
        heads += after - position
        position = after + size
        if position > end:
            return -1
    place[1] = position - start - heads
    return position


@njit(cache=True, nogil=True)
def _measure_record(data: Any, position: int, end: int, shapes: Any, places: Any) -> int:
    shape, width, prefix_ends = shapes.shape, shapes.width, shapes.prefix_ends
    columns, position = read_varint(data, position, end)
    if position < 0 or columns != len(shape):
        return -1
    rows, position = read_varint(data, position, end)
    if position < 0 or rows > end - position:
        return -1
    begin = np.int64(0)
    for column in range(columns):
        size = prefix_ends[column] - begin
        if position + size > end or not same_bytes(data, position, shapes.prefixes, begin, size):
            return -1
        position += size
        begin = prefix_ends[column]
        if rows == 0:
            continue
        kind = shape[column]
        if kind in (FIXED, NULLABLE):
            places[column, 0] = position
            position += rows * (width[column] + (1 if kind == NULLABLE else 0))
            if position > end:
                return -1
        elif kind == LABEL:
            position = _measure_label(data, position, end, rows, places[column])
        elif kind == BINS:
            position = _measure_bins(data, position, end, rows, places[column])
        else:
            position = _measure_text(data, position, end, rows, kind == NULLABLE_TEXT, places[column])
        if position < 0:
            return -1
    return rows if position == end else -1


@njit(cache=True, nogil=True)
def measure(data: Any, ends: Any, shapes: Any, rows: Any, places: Any) -> None:
    """Rows of each record, -1 where it is no canonical block; fills ``places``."""
    begin = np.int64(0)  # a constant 0 would have the loops below compiled once more for it
    for record in range(len(ends)):
        rows[record] = _measure_record(data, begin, ends[record], shapes, places[record])
        begin = ends[record]


@njit(cache=True, nogil=True)
def hash_bytes(data: Any, position: int, size: int) -> int:
    """31 bits of these bytes; up to 7 behind them are read and do not count."""
    value = np.uint64(size) * np.uint64(0x9E3779B97F4A7C15)
    i = 0
    while i < size:
        word = load64(data, position + i)
        if size - i < 8:
            word &= (np.uint64(1) << np.uint64(8 * (size - i))) - np.uint64(1)
        value = (value ^ word) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
        i += 8
    return np.int64(value & np.uint64(0x7FFFFFFF))


@njit(cache=True, nogil=True)
def survey(rows: Any, places: Any, shapes: Any, totals: Any) -> None:
    """Add up what ``fill`` will need room for: ``totals`` (column) gets the pairs or text bytes of all records, in its
    last place the rows."""
    totals[:] = 0
    for record in range(len(rows)):
        totals[-1] += max(rows[record], 0)
    for column in range(len(shapes.shape)):
        if shapes.shape[column] >= BINS:
            for record in range(len(rows)):
                if rows[record] > 0:
                    totals[column] += places[record, column, 1]
