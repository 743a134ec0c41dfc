"""Compiled loops of the walk over canonical Native blocks. No bounds are checked by the compiler: the code does.

``measure`` proves the structure of every record and notes where its columns lie; only what it has proven is read by
``unique_dictionaries`` and ``fill``. The buffer must be followed by 8 spare bytes, because texts are copied and
compared eight bytes at a time. ``places`` is (record, column, 4):

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
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from schemas.native_layout import BINS, FIXED, LABEL, NULLABLE, NULLABLE_TEXT
from schemas.sketch import BIN_MAX, ZERO_BIN
from schemas.verdicts import Verdict

BIN_COUNT_MAX = 1 << 32
"""Greatest count of one bin of one event: whatever adds up to a day of events stays below 2^63."""
BAD_WORD = 1 << 30
"""Set in ``remap`` for words that may not stand in their column; the bits below are then 0."""
ACCEPTED, LATE = int(Verdict.ACCEPTED), int(Verdict.LATE)
FUTURE, REJECTED = int(Verdict.FUTURE), int(Verdict.REJECTED)


def _loader(bits: int) -> Any:
    @intrinsic
    def load(typing_context: Any, array: Any, position: Any) -> Any:
        """``bits`` bits of a byte array at any position, little-endian, without a check."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            address = builder.gep(data, [arguments[1]])
            loaded = builder.load(builder.bitcast(address, ir.IntType(bits).as_pointer()))
            loaded.align = 1
            return builder.zext(loaded, ir.IntType(64)) if bits < 64 else loaded

        return types.uint64(array, types.int64), generate

    return load


@intrinsic
def _store64(typing_context: Any, array: Any, position: Any, value: Any) -> Any:
    """Write 64 bits into a byte array at any position, without a check."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.gep(data, [arguments[1]])
        stored = builder.store(arguments[2], builder.bitcast(address, ir.IntType(64).as_pointer()))
        stored.align = 1
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), generate


_load16, _load32, _load64 = _loader(16), _loader(32), _loader(64)


@njit(cache=True, nogil=True)
def _same(left: Any, at: int, right: Any, there: int, size: int) -> bool:
    """Whether ``size`` bytes are equal; reads no byte beyond them."""
    i = 0
    while i + 8 <= size:
        if _load64(left, at + i) != _load64(right, there + i):
            return False
        i += 8
    while i < size:
        if left[at + i] != right[there + i]:
            return False
        i += 1
    return True


@njit(cache=True, nogil=True)
def _varint(data: Any, position: int, end: int) -> tuple[int, int]:
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
            size, position = _varint(data, position - 1, end)
            if position < 0:
                return -1
        position += size
        if position > end:
            return -1
    return position


@njit(cache=True, nogil=True)
def _measure_label(data: Any, position: int, end: int, rows: int, place: Any) -> int:
    if position + 24 > end or _load64(data, position) != 1:
        return -1
    flags, words = np.int64(_load64(data, position + 8)), np.int64(_load64(data, position + 16))
    if flags < 0x600 or flags > 0x602 or words < 1 or words > end - position:
        return -1
    place[0], place[2] = position + 24, words
    position = _skip_texts(data, position + 24, end, words)
    size = 1 << (flags & 3)
    if position < 0 or position + 8 + rows * size > end or np.int64(_load64(data, position)) != rows:
        return -1
    place[1], place[3] = position, (position + 8) * 8 + size
    position += 8
    greatest = np.uint64(0)
    for i in range(rows):
        if size == 1:
            greatest = max(greatest, np.uint64(data[position + i]))
        elif size == 2:
            greatest = max(greatest, _load16(data, position + 2 * i))
        else:
            greatest = max(greatest, _load32(data, position + 4 * i))
    return position + rows * size if np.int64(greatest) < words else -1


@njit(cache=True, nogil=True)
def _measure_bins(data: Any, position: int, end: int, rows: int, place: Any) -> int:
    if position + 8 * rows > end:
        return -1
    place[0] = position
    last = np.int64(0)
    for i in range(rows):
        here = np.int64(_load64(data, position + 8 * i))
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
            size, after = _varint(data, position, end)
            if after < 0:
                return -1
        heads += after - position
        position = after + size
        if position > end:
            return -1
    place[1] = position - start - heads
    return position


@njit(cache=True, nogil=True)
def _measure_record(
    data: Any, position: int, end: int, prefixes: Any, prefix_ends: Any, shape: Any, width: Any, places: Any
) -> int:
    columns, position = _varint(data, position, end)
    if position < 0 or columns != len(shape):
        return -1
    rows, position = _varint(data, position, end)
    if position < 0 or rows > end - position:
        return -1
    begin = 0
    for column in range(columns):
        size = prefix_ends[column] - begin
        if position + size > end or not _same(data, position, prefixes, begin, size):
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
def measure(
    data: Any, ends: Any, prefixes: Any, prefix_ends: Any, shape: Any, width: Any, rows: Any, places: Any
) -> None:
    """Rows of each record, -1 where it is no canonical block; fills ``places``."""
    begin = 0
    for record in range(len(ends)):
        rows[record] = _measure_record(data, begin, ends[record], prefixes, prefix_ends, shape, width, places[record])
        begin = ends[record]


@njit(cache=True, nogil=True)
def _hash(data: Any, position: int, size: int) -> int:
    value = np.uint64(size) * np.uint64(0x9E3779B97F4A7C15)
    i = 0
    while i < size:
        word = _load64(data, position + i)
        if size - i < 8:
            word &= (np.uint64(1) << np.uint64(8 * (size - i))) - np.uint64(1)
        value = (value ^ word) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
        i += 8
    return np.int64(value & np.uint64(0x7FFFFFFF))


@njit(cache=True, nogil=True)
def unique_dictionaries(data: Any, rows: Any, places: Any, columns: Any, table: Any, first: Any, which: Any) -> None:
    """Dictionaries with the same bytes get the same number, per label column.

    ``which`` (label, record) gets the number; ``first`` (label, record) the first record of each number, -1 after the
    last. ``table`` is scratch of a power of two above twice the records.
    """
    mask = len(table) - 1
    for label in range(len(columns)):
        column, count = columns[label], 0
        table[:] = -1
        for record in range(len(rows)):
            first[label, record] = -1
            if rows[record] <= 0:
                continue
            begin = places[record, column, 0]
            size = places[record, column, 1] - begin
            slot = _hash(data, begin, size) & mask
            while table[slot] >= 0:
                other = first[label, table[slot]]
                there = places[other, column, 0]
                if places[other, column, 1] - there == size and _same(data, begin, data, there, size):
                    break
                slot = (slot + 1) & mask
            if table[slot] < 0:
                table[slot] = count
                first[label, count] = record
                count += 1
            which[label, record] = table[slot]


@njit(cache=True, nogil=True)
def _mark(fault: Any, row: int, column: int) -> None:
    if fault[row] < 0:
        fault[row] = column


@njit(cache=True, nogil=True)
def _inside(value: int, low: int, span: int) -> bool:
    return np.uint64(value - low) <= span


@njit(cache=True, nogil=True)
def _fill32(
    data: Any, position: int, rows: int, nulls: int, signed: bool, low: int, span: int, out: Any, known: Any
) -> bool:
    """Copy one column of one record; ``nulls`` is the null map's position or -1. True when all are inside bounds."""
    outside = False
    for i in range(rows):
        value = _load32(data, position + 4 * i)
        is_known = nulls < 0 or data[nulls + i] == 0
        if not is_known:
            value = np.uint64(0)
        wide = np.uint64(np.int64(np.int32(np.uint32(value)))) if signed else value
        outside |= is_known and not _inside(wide, low, span)
        out[i] = np.uint32(value)
        if nulls >= 0:
            known[i] = is_known
    return not outside


@njit(cache=True, nogil=True)
def _fill64(data: Any, position: int, rows: int, nulls: int, low: int, span: int, out: Any, known: Any) -> bool:
    outside = False
    for i in range(rows):
        value = _load64(data, position + 8 * i)
        is_known = nulls < 0 or data[nulls + i] == 0
        if not is_known:
            value = np.uint64(0)
        outside |= is_known and not _inside(value, low, span)
        out[i] = value
        if nulls >= 0:
            known[i] = is_known
    return not outside


@njit(cache=True, nogil=True)
def _mark_outside(
    fault: Any, column: int, values: Any, known: Any, nullable: bool, signed: bool, low: int, span: int
) -> None:
    for i in range(len(values)):
        value = np.uint64(values[i])
        if signed and values.itemsize == 4:
            value = np.uint64(np.int64(np.int32(values[i])))
        if (not nullable or known[i]) and not _inside(value, low, span):
            _mark(fault, i, column)


@njit(cache=True, nogil=True)
def _fill_label(data: Any, index: int, rows: int, remap: Any, base: int, out: Any, fault: Any, column: int) -> None:
    position, size = index >> 3, index & 7
    seen = 0
    for i in range(rows):
        if size == 1:
            local = np.int64(data[position + i])
        elif size == 2:
            local = np.int64(_load16(data, position + 2 * i))
        else:
            local = np.int64(_load32(data, position + 4 * i))
        code = remap[base + local]
        seen |= code
        out[i] = code
    if seen & BAD_WORD:
        for i in range(rows):
            if out[i] & BAD_WORD:
                out[i] &= BAD_WORD - 1
                _mark(fault, i, column)


@njit(cache=True, nogil=True)
def _fill_bins(
    data: Any,
    position: int,
    rows: int,
    pairs: int,
    offset: int,
    ends: Any,
    keys: Any,
    counts: Any,
    fault: Any,
    column: int,
) -> None:
    """``keys`` and ``counts`` begin at this record's first pair; ``offset`` pairs of the column lie before it."""
    key_at = position + 8 * rows
    count_at = key_at + 2 * pairs
    start = 0
    for row in range(rows):
        end = np.int64(_load64(data, position + 8 * row))
        ends[row] = offset + end
        last = ZERO_BIN - 1
        sound = True
        for i in range(start, end):
            key = np.int64(np.int16(np.uint16(_load16(data, key_at + 2 * i))))
            count = _load64(data, count_at + 8 * i)
            sound &= key > last and count - np.uint64(1) < np.uint64(BIN_COUNT_MAX)
            last = key
            keys[i] = key
            counts[i] = count
        if not (sound and last <= BIN_MAX):
            _mark(fault, row, column)
        start = end


@njit(cache=True, nogil=True)
def _fill_text(
    data: Any,
    position: int,
    rows: int,
    nullable: bool,
    required: bool,
    size_max: int,
    keep: bool,
    offset: int,
    base: int,
    ends: Any,
    out: Any,
    known: Any,
    fault: Any,
    column: int,
) -> int:
    """Judge, and with ``keep`` copy, the texts of one record; gives the column's bytes up to here.

    The text of a null row is dropped. Copies run up to 7 bytes beyond a text; the next one overwrites them.
    """
    nulls = position
    if nullable:
        position += rows
    for row in range(rows):
        size = np.int64(data[position])
        position += 1
        if size >= 0x80:
            size, position = _varint(data, position - 1, position + 4)
        is_known = not nullable or data[nulls + row] == 0
        if (size > size_max and is_known) or (required and (size == 0 or not is_known)):
            _mark(fault, row, column)
        if keep:
            taken = size if is_known else 0
            for i in range(0, taken, 8):
                _store64(out, base + offset + i, _load64(data, position + i))
            offset += taken
            ends[row] = offset
            if nullable:
                known[row] = is_known
        position += size
    return offset


@njit(cache=True, nogil=True)
def fill(
    data: Any,
    rows: Any,
    places: Any,
    shape: Any,
    width: Any,
    signed: Any,
    slots: Any,
    null_slots: Any,
    low: Any,
    span: Any,
    required: Any,
    which: Any,
    remap_base: Any,
    remap: Any,
    text_max: int,
    keep_texts: bool,
    n32: Any,
    n64: Any,
    known: Any,
    codes: Any,
    sketch_ends: Any,
    sketch_base: Any,
    keys: Any,
    counts: Any,
    text_ends: Any,
    text_base: Any,
    texts: Any,
    fault: Any,
    record_of: Any,
    row_of: Any,
) -> None:
    """Copy every record's columns behind one another; ``fault`` gets the first column whose value is not allowed."""
    first = 0
    pair_offsets = np.zeros(len(sketch_base), dtype=np.int64)
    text_offsets = np.zeros(len(text_base), dtype=np.int64)
    for record in range(len(rows)):
        count = rows[record]
        if count <= 0:
            continue
        last = first + count
        for i in range(count):
            record_of[first + i] = record
            row_of[first + i] = i
        faults = fault[first:last]
        for column in range(len(shape)):
            kind, slot = shape[column], slots[column]
            place = places[record, column]
            nulls = known[max(null_slots[column], 0), first:last]
            if kind in (FIXED, NULLABLE):
                position, null_map = place[0], -1
                if kind == NULLABLE:
                    null_map, position = position, position + count
                if width[column] == 4:
                    out = n32[slot, first:last]
                    if not _fill32(
                        data, position, count, null_map, signed[column], low[column], span[column], out, nulls
                    ):
                        _mark_outside(
                            faults, column, out, nulls, kind == NULLABLE, signed[column], low[column], span[column]
                        )
                else:
                    wide = n64[slot, first:last]
                    if not _fill64(data, position, count, null_map, low[column], span[column], wide, nulls):
                        _mark_outside(faults, column, wide, nulls, kind == NULLABLE, False, low[column], span[column])
            elif kind == LABEL:
                base = remap_base[slot, which[slot, record]]
                _fill_label(data, place[3], count, remap, base, codes[slot, first:last], faults, column)
            elif kind == BINS:
                begin = sketch_base[slot] + pair_offsets[slot]
                pairs = place[1]
                _fill_bins(
                    data,
                    place[0],
                    count,
                    pairs,
                    pair_offsets[slot],
                    sketch_ends[slot, first:last],
                    keys[begin : begin + pairs],
                    counts[begin : begin + pairs],
                    faults,
                    column,
                )
                pair_offsets[slot] += pairs
            else:
                text_offsets[slot] = _fill_text(
                    data,
                    place[0],
                    count,
                    kind == NULLABLE_TEXT,
                    required[column],
                    text_max,
                    keep_texts,
                    text_offsets[slot],
                    text_base[slot],
                    text_ends[slot, first:last],
                    texts,
                    nulls,
                    faults,
                    column,
                )
        first = last


@njit(cache=True, nogil=True)
def judge_times(
    at_ms: Any, record_of: Any, appended_ms: Any, fault: Any, horizon_ms: int, skew_ms: int, verdicts: Any
) -> None:
    """Verdict of each row: rejected where it has a fault, else late, future or accepted by its record's append time."""
    for row in range(len(at_ms)):
        age = appended_ms[record_of[row]] - at_ms[row]
        if fault[row] >= 0:
            verdicts[row] = REJECTED
        elif age > horizon_ms:
            verdicts[row] = LATE
        elif -age > skew_ms:
            verdicts[row] = FUTURE
        else:
            verdicts[row] = ACCEPTED
