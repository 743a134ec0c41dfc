"""Compiled loops that turn records of JSON lines into canonical Native blocks, one record after the other.

Each line is read into ``cells`` (row, column, 2): where a value lies or what it is, and its state (``ABSENT``,
``IS_NULL``, else the size of a text, the pairs of a sketch, 0 for a number). Then the columns are written from them.
A record in which any line is not read this way is left out: the careful reader (``schemas.codec.ndjson``) has it.
What is taken is taken exactly as that reader takes it; values are judged later, by the walk over Native blocks.
"""

# mypy: disable-error-code="assignment,return-value"
# (numba casts numpy scalars to the integers of the signatures)
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from schemas.codec.json_kernels import (
    CLOSE,
    COLON,
    COMMA,
    LINE_FEED,
    NULL,
    OPEN,
    POINT,
    QUOTE,
    ZERO,
    blank,
    skip,
    text,
    whole,
)
from schemas.codec.native_kernels import hash_bytes, same_bytes
from schemas.codec.native_layout import BINS, FIXED, LABEL, NULLABLE, NULLABLE_TEXT, TEXT
from schemas.codec.native_loads import load32, load64, store64

ABSENT, IS_NULL = -2, -1
FLOAT_EXACT_MAX = np.uint64(1 << 53)
"""Every whole number up to this is a float, too."""
BIN_MAGNITUDE_MAX = np.uint64(1 << 15)
PROBES_MAX = 32
"""A word that is not found after so many looks costs its record the compiled way: chains can be made on purpose."""
_LABEL_BYTES = 33
"""Of a label column beside words and indexes: version, flags, number of words, null, number of rows."""
_CELL_BYTES = 9
"""Of a value of any column beside its text and pairs: a number of 8 bytes and its null, a size and a wide index."""
_SPARE = 8


class Ranges(NamedTuple):
    """Greatest magnitudes (UInt64) of a column's numbers, without and with a minus."""

    most: npt.NDArray[np.uint64]
    most_negative: npt.NDArray[np.uint64]


class Scratch(NamedTuple):
    """Room for one record at a time. ``words`` (code, 2) are starts and sizes; ``table`` has codes by hash."""

    cells: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    counts: npt.NDArray[np.uint64]
    words: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def translate(data: Any, ends: Any, shapes: Any, ranges: Any, scratch: Any, out_ends: Any) -> Any:
    """The blocks of all records behind one another, in an array of bytes with some to spare.

    ``data`` holds the records, a line feed behind each (at ``ends``), and 8 spare bytes; texts in it are changed.
    ``out_ends`` gets the ends of the blocks; the block of a record that was not read is empty.
    """
    columns = len(shapes.shape)
    out, at, begin = np.empty(len(data), np.uint8), np.int64(0), np.int64(0)
    for record in range(len(ends)):
        end = ends[record]
        rows = _read_record(data, begin, end, shapes, ranges, scratch)
        if rows > 0:
            needed = at + shapes.prefix_ends[-1] + columns * _LABEL_BYTES
            needed += rows * columns * _CELL_BYTES + 2 * (end - begin) + 2 * _SPARE
            if needed > len(out):
                wider = np.empty(max(needed, 2 * len(out)), np.uint8)
                _copy(out, 0, at, wider, 0)
                out = wider
            written = _write_record(data, rows, shapes, scratch, out, at)
            at = written if written > 0 else at
        out_ends[record] = at
        begin = end + 1
    return out


@njit(cache=True, nogil=True)
def _read_record(data: Any, position: int, end: int, shapes: Any, ranges: Any, scratch: Any) -> int:
    """The number of rows whose cells were read; -1 where a line was not, or there are more than cells."""
    rows, pairs = 0, 0
    while True:
        while position < end and (data[position] == 0x20 or 0x09 <= data[position] <= 0x0D):
            position += 1
        if position >= end:
            return rows
        if rows == len(scratch.cells):
            return -1
        scratch.cells[rows, :, 1] = ABSENT
        position, pairs = _read_line(data, position, shapes, ranges, scratch, scratch.cells[rows], pairs)
        if position < 0:
            return -1
        rows += 1


@njit(cache=True, nogil=True)
def _read_line(
    data: Any, position: int, shapes: Any, ranges: Any, scratch: Any, cells: Any, pairs: int
) -> tuple[int, int]:
    """The position of the line feed behind an object, and the pairs that are there then; -1 where it was not read."""
    prefixes, prefix_ends, shape = shapes.prefixes, shapes.prefix_ends, shapes.shape
    keys, counts, most, most_negative = scratch.keys, scratch.counts, ranges.most, ranges.most_negative
    if data[position] != OPEN:
        return -1, pairs
    position = blank(data, position + 1)
    column, is_more = -1, data[position] != CLOSE
    while is_more:
        if data[position] != QUOTE:
            return -1, pairs
        found, position = _read_name(data, position + 1, prefixes, prefix_ends, column)
        if position < 0 or data[position] != COLON:
            return -1, pairs
        position = blank(data, position + 1)
        if found < 0:
            position = skip(data, position)
        elif cells[found, 1] != ABSENT:
            return -1, pairs
        else:
            column = found
            kind = shape[column]
            if np.int64(load32(data, position)) == NULL:
                cells[column, 1] = IS_NULL
                position += 4
            elif kind <= NULLABLE:
                value, negative, position = whole(data, position)
                position = _skip_zeros(data, position, value)
                if value > (most_negative[column] if negative else most[column]):
                    return -1, pairs
                cells[column, 0] = -np.int64(value) if negative else np.int64(value)
                cells[column, 1] = 0
            elif kind == BINS:
                cells[column, 0] = pairs
                position, pairs = _read_bins(data, position, keys, counts, pairs)
                cells[column, 1] = pairs - cells[column, 0]
            elif data[position] == QUOTE:
                cells[column, 0] = position + 1
                cells[column, 1], position = text(data, position + 1)
            else:
                return -1, pairs
        if position < 0:
            return -1, pairs
        position = blank(data, position)
        is_more = data[position] == COMMA
        if is_more:
            position = blank(data, position + 1)
        elif data[position] != CLOSE:
            return -1, pairs
    position = blank(data, position + 1)
    if data[position] != LINE_FEED:
        return -1, pairs
    for column in range(len(shape)):
        if cells[column, 1] < 0 and (shape[column] == FIXED or shape[column] == TEXT):
            return -1, pairs
    return position, pairs


@njit(cache=True, nogil=True)
def _skip_zeros(data: Any, position: int, value: int) -> int:
    """The position behind the zeros of a whole number written as a fraction, as far as a float is exact."""
    if position < 0 or data[position] != POINT or value > FLOAT_EXACT_MAX:
        return position
    begin = position = position + 1
    while data[position] == ZERO:
        position += 1
    return position if position > begin else -1


@njit(cache=True, nogil=True)
def _read_name(data: Any, begin: int, prefixes: Any, prefix_ends: Any, column: int) -> tuple[int, int]:
    """The column whose name begins there, the one behind ``column`` first; -1 for an unknown one. And the position
    behind its last quote and blanks."""
    columns, start, size, found = len(prefix_ends), 0, -1, column
    for _ in range(columns):
        found = found + 1 if found + 1 < columns else 0
        start = prefix_ends[found - 1] if found else 0
        length = np.int64(prefixes[start])
        if size < 0 and _is_same(data, begin, prefixes, start + 1, length) and data[begin + length] == QUOTE:
            return found, blank(data, begin + length + 1)  # as nearly every name is: plain, and in our order
        if size < 0:
            size, position = text(data, begin)
            if position < 0:
                return -1, -1
        if length == size and _is_same(data, begin, prefixes, start + 1, length):
            return found, blank(data, position)
    return -1, blank(data, position)


@njit(cache=True, nogil=True)
def _is_same(data: Any, begin: int, prefixes: Any, start: int, size: int) -> bool:
    """Whether a name stands there; up to 7 bytes behind it are read and do not count."""
    i = 0
    while i + 8 <= size:
        if load64(data, begin + i) != load64(prefixes, start + i):
            return False
        i += 8
    return i == size or (load64(data, begin + i) ^ load64(prefixes, start + i)) << np.uint64(8 * (8 + i - size)) == 0


@njit(cache=True, nogil=True)
def _read_bins(data: Any, position: int, keys: Any, counts: Any, pairs: int) -> tuple[int, int]:
    """Read a sketch whose indexes rise behind the pairs that are there."""
    if data[position] != OPEN:
        return -1, pairs
    position = blank(data, position + 1)
    if data[position] == CLOSE:
        return position + 1, pairs
    least = -(1 << 15)
    while data[position] == QUOTE:
        index, negative, position = whole(data, position + 1)
        key = -np.int64(index) if negative else np.int64(index)
        if position < 0 or index > BIN_MAGNITUDE_MAX or key < least or key >= 1 << 15 or data[position] != QUOTE:
            return -1, pairs
        position = blank(data, position + 1)
        if data[position] != COLON:
            return -1, pairs
        count, negative, position = whole(data, blank(data, position + 1))
        if position < 0 or negative:
            return -1, pairs
        keys[pairs], counts[pairs], least = key, count, key + 1
        pairs += 1
        position = blank(data, position)
        if data[position] == CLOSE:
            return position + 1, pairs
        if data[position] != COMMA:
            return -1, pairs
        position = blank(data, position + 1)
    return -1, pairs


@njit(cache=True, nogil=True)
def _write_record(data: Any, rows: int, shapes: Any, scratch: Any, out: Any, at: int) -> int:
    """Write the block of the rows at ``at``; the position behind it, -1 where words cannot be told apart in time."""
    at = _write_varint(out, _write_varint(out, at, len(shapes.shape)), rows)
    begin = np.int64(0)
    for column in range(len(shapes.shape)):
        end = shapes.prefix_ends[column]
        at = _copy(shapes.prefixes, begin, end - begin, out, at)
        begin = end
        kind, cells = shapes.shape[column], scratch.cells[:rows, column]
        if kind == LABEL:
            at = _write_labels(data, cells, scratch, out, at)
            if at < 0:
                return -1
        elif kind == BINS:
            at = _write_bins(cells, scratch.keys, scratch.counts, out, at)
        else:
            if kind in (NULLABLE, NULLABLE_TEXT):
                for row in range(rows):
                    out[at + row] = cells[row, 1] < 0
                at += rows
            if kind in (FIXED, NULLABLE):
                for row in range(rows):
                    store64(out, at, np.uint64(cells[row, 0] if cells[row, 1] >= 0 else 0))
                    at += shapes.width[column]
            else:
                for row in range(rows):
                    at = _write_text(data, cells[row, 0], max(cells[row, 1], 0), out, at)
    return at


@njit(cache=True, nogil=True)
def _write_varint(out: Any, at: int, value: int) -> int:
    while value >= 0x80:
        out[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@njit(cache=True, nogil=True)
def _write_text(data: Any, begin: int, size: int, out: Any, at: int) -> int:
    at = _write_varint(out, at, size)
    return _copy(data, begin, size, out, at)


@njit(cache=True, nogil=True)
def _copy(data: Any, begin: int, size: int, out: Any, at: int) -> int:
    """Copy bytes; up to 7 behind them are written, too, which the next overwrite."""
    for i in range(0, size, 8):
        store64(out, at + i, load64(data, begin + i))
    return at + size


@njit(cache=True, nogil=True)
def _write_bins(cells: Any, keys: Any, counts: Any, out: Any, at: int) -> int:
    total = np.int64(0)
    for row in range(len(cells)):
        total += max(cells[row, 1], 0)
        store64(out, at + 8 * row, np.uint64(total))
    at += 8 * len(cells)
    at_counts = at + 2 * total
    for row in range(len(cells)):
        for pair in range(cells[row, 0], cells[row, 0] + max(cells[row, 1], 0)):
            out[at], out[at + 1] = keys[pair] & 0xFF, (keys[pair] >> 8) & 0xFF
            store64(out, at_counts, counts[pair])
            at, at_counts = at + 2, at_counts + 8
    return at_counts


@njit(cache=True, nogil=True)
def _write_labels(data: Any, cells: Any, scratch: Any, out: Any, at: int) -> int:
    """Words in the order of their first use, then each row's index."""
    count = _number_words(data, cells, scratch)
    if count < 0:
        return -1
    width = 0 if count <= 0x100 else 1 if count <= 0x10000 else 2
    store64(out, at, np.uint64(1))
    store64(out, at + 8, np.uint64(0x600 | width))
    store64(out, at + 16, np.uint64(count))
    out[at + 24] = 0
    at += 25
    for code in range(1, count):
        at = _write_text(data, scratch.words[code, 0], scratch.words[code, 1], out, at)
    store64(out, at, np.uint64(len(cells)))
    at += 8
    for row in range(len(cells)):
        store64(out, at, np.uint64(scratch.codes[row]))
        at += 1 << width
    return at


@njit(cache=True, nogil=True)
def _number_words(data: Any, cells: Any, scratch: Any) -> int:
    """Give each row the code of its word, 0 for null; the number of codes, -1 where a word is not found in time."""
    words, codes, size = scratch.words, scratch.codes, np.int64(2)
    while size < 2 * len(cells):
        size *= 2
    table, count = scratch.table[:size], 1
    table[:] = 0
    for row in range(len(cells)):
        begin, length = cells[row, 0], cells[row, 1]
        if length < 0:
            codes[row] = 0
            continue
        place, code = hash_bytes(data, begin, length) & (size - 1), np.int64(0)
        for _ in range(PROBES_MAX):
            code = table[place]
            if code == 0 or (words[code, 1] == length and same_bytes(data, begin, data, words[code, 0], length)):
                break
            place, code = (place + 1) & (size - 1), -1
        if code < 0:
            return -1
        if code == 0:
            code = table[place] = count
            words[code, 0], words[code, 1] = begin, length
            count += 1
        codes[row] = code
    return count
