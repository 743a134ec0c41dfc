"""Compiled loops that copy the columns of proven blocks behind one another and judge every value on the way."""

# mypy: disable-error-code="assignment,return-value"
# (numba casts numpy scalars to the integers of the signatures)
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from schemas.codec.native_kernels import read_varint
from schemas.codec.native_layout import BINS, FIXED, LABEL, NULLABLE, NULLABLE_TEXT
from schemas.codec.native_loads import load16, load32, load64, store64
from schemas.codec.native_words import BAD_WORD
from schemas.contract.verdicts import Verdict
from schemas.sketch import BIN_MAX, ZERO_BIN

TOGETHER_BYTES = 256 * 1024
"""Records up to this are filled column by column together; a processor's own cache holds them."""
BIN_COUNT_MAX = 1 << 32
"""Greatest count of one bin of one event: whatever adds up to a day of events stays below 2^63."""
ACCEPTED, LATE = int(Verdict.ACCEPTED), int(Verdict.LATE)
FUTURE, REJECTED = int(Verdict.FUTURE), int(Verdict.REJECTED)


class Codes(NamedTuple):
    """Codes of all dictionaries' words: those of a label column's record begin at ``starts[label, record]``."""

    starts: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]


class Target(NamedTuple):
    """Where the values go: (slot, row) arrays; pairs and texts of a column begin at their base.

    ``has_null`` says so per nullable column; ``fault`` gets the first column whose value is not allowed, -1 before.
    """

    n32: npt.NDArray[np.uint32]
    n64: npt.NDArray[np.uint64]
    known: npt.NDArray[np.bool_]
    has_null: npt.NDArray[np.bool_]
    codes: npt.NDArray[np.int32]
    sketch_ends: npt.NDArray[np.int64]
    sketch_base: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int16]
    counts: npt.NDArray[np.uint64]
    text_ends: npt.NDArray[np.int64]
    text_base: npt.NDArray[np.int64]
    texts: npt.NDArray[np.uint8]
    fault: npt.NDArray[np.int16]
    record_of: npt.NDArray[np.int32]
    row_of: npt.NDArray[np.int32]


@njit(cache=True, nogil=True)
def _mark(fault: Any, row: int, column: int) -> None:
    if fault[row] < 0:
        fault[row] = column


@njit(cache=True, nogil=True)
def _any_set(data: Any, at: int, size: int) -> bool:
    """Whether one of these bytes is not 0."""
    seen = np.uint64(0)
    i = 0
    while i < size:
        word = load64(data, at + i)
        if size - i < 8:
            word &= (np.uint64(1) << np.uint64(8 * (size - i))) - np.uint64(1)
        seen |= word
        i += 8
    return seen != 0


@njit(cache=True, nogil=True)
def _fill_words(
    data: Any, spans: Any, places: Any, column: int, nullable: bool, bounds: Any, out: Any, known: Any, fault: Any
) -> bool:
    """Copy a column of numbers as wide as ``out``, all ``known`` before; True when there is a null."""
    kind, width = out.dtype.type, out.itemsize
    none, low, span = kind(0), kind(bounds[0]), kind(bounds[1])
    any_null = False
    for record in range(len(spans)):
        first, last = spans[record]
        rows, nulls = last - first, places[record, column, 0]
        at = nulls + rows if nullable else nulls
        copied, greatest = out[first:last], none
        if nullable and _any_set(data, nulls, rows):
            any_null, present = True, known[first:last]
            for i in range(rows):
                absent = data[nulls + i] != 0
                value = none if absent else kind(load64(data, at + 8 * i) if width == 8 else load32(data, at + 4 * i))
                copied[i], present[i] = value, not absent
                greatest = max(greatest, none if absent else kind(value - low))
        else:
            for i in range(rows):
                value = kind(load64(data, at + 8 * i) if width == 8 else load32(data, at + 4 * i))
                copied[i] = value
                greatest = max(greatest, kind(value - low))
        if greatest > span:
            for i in range(first, last):
                if (not nullable or known[i]) and kind(out[i] - low) > span:
                    _mark(fault, i, column)
    return any_null


@njit(cache=True, nogil=True)
def _fill_labels(
    data: Any, spans: Any, places: Any, column: int, starts: Any, codes: Any, out: Any, fault: Any
) -> None:
    for record in range(len(spans)):
        first, last = spans[record]
        if first == last:
            continue
        position, size = places[record, column, 3] >> 3, places[record, column, 3] & 7
        start = starts[record]
        seen = 0
        for i in range(last - first):
            if size == 1:
                local = np.int64(data[position + i])
            elif size == 2:
                local = np.int64(load16(data, position + 2 * i))
            else:
                local = np.int64(load32(data, position + 4 * i))
            code = codes[start + local]
            seen |= code
            out[first + i] = code
        if seen & BAD_WORD:
            for i in range(first, last):
                if out[i] & BAD_WORD:
                    out[i] &= BAD_WORD - 1
                    _mark(fault, i, column)


@njit(cache=True, nogil=True)
def _fill_bins(data: Any, spans: Any, places: Any, column: int, base: int, before: int, out: Any, fault: Any) -> int:
    """Copy sketches behind the ``before`` pairs that are there; how many are there then."""
    ends, keys, counts = out
    for record in range(len(spans)):
        first, last = spans[record]
        at, pairs = places[record, column, 0], places[record, column, 1]
        key_at = at + 8 * (last - first)
        count_at = key_at + 2 * pairs
        start = 0
        for row in range(first, last):
            end = np.int64(load64(data, at + 8 * (row - first)))
            previous, sound = ZERO_BIN - 1, True
            for i in range(start, end):
                key = np.int64(np.int16(np.uint16(load16(data, key_at + 2 * i))))
                count = load64(data, count_at + 8 * i)
                sound &= key > previous and count - np.uint64(1) < np.uint64(BIN_COUNT_MAX)
                previous = key
                keys[base + before + i] = key
                counts[base + before + i] = count
            if not sound or previous > BIN_MAX:
                _mark(fault, row, column)
            ends[row] = before + end
            start = end
        before += start
    return before


@njit(cache=True, nogil=True)
def _judge_texts(
    data: Any, spans: Any, places: Any, column: int, nullable: bool, required: bool, size_max: int, fault: Any
) -> None:
    for record in range(len(spans)):
        first, last = spans[record]
        nulls = places[record, column, 0]
        position = nulls + last - first if nullable else nulls
        for row in range(first, last):
            size, position = read_varint(data, position, position + 5)
            is_known = not nullable or data[nulls + row - first] == 0
            if (is_known and size > size_max) or (required and (size == 0 or not is_known)):
                _mark(fault, row, column)
            position += size


@njit(cache=True, nogil=True)
def _fill_texts(
    data: Any,
    spans: Any,
    places: Any,
    column: int,
    nullable: bool,
    base: int,
    end: int,
    ends: Any,
    out: Any,
    known: Any,
) -> tuple[int, bool]:
    """Copy texts behind the ``end`` bytes that are there, those of null rows left out; how many are there then, and
    whether there is a null.

    Copies run up to 7 bytes beyond a text; the next one overwrites them.
    """
    any_null = False
    for record in range(len(spans)):
        first, last = spans[record]
        nulls = places[record, column, 0]
        position = nulls + last - first if nullable else nulls
        for row in range(first, last):
            size, position = read_varint(data, position, position + 5)
            absent = nullable and data[nulls + row - first] != 0
            for i in range(0, 0 if absent else size, 8):
                store64(out, base + end + i, load64(data, position + i))
            if not absent:
                end += size
            if nullable:
                any_null |= absent
                known[row] = not absent
            ends[row] = end
            position += size
    return end, any_null


@njit(cache=True, nogil=True)
def _fill_numbers(data: Any, spans: Any, places: Any, column: int, shapes: Any, target: Any, fault: Any) -> None:
    """Copy and judge a column of numbers."""
    slot, null_slot = shapes.slot[column], shapes.null_slot[column]
    bounds = (shapes.low[column], shapes.span[column])
    nullable, known = shapes.shape[column] == NULLABLE, target.known[null_slot]
    if shapes.width[column] == 4:
        any_null = _fill_words(data, spans, places, column, nullable, bounds, target.n32[slot], known, fault)
    else:
        any_null = _fill_words(data, spans, places, column, nullable, bounds, target.n64[slot], known, fault)
    if any_null:
        target.has_null[null_slot] = True


@njit(cache=True, nogil=True)
def fill(
    data: Any, rows: Any, places: Any, shapes: Any, words: Any, target: Any, text_max: int, keep_texts: bool
) -> None:
    """Copy the columns of every record with rows into ``target``, behind one another.

    All columns of some records, then of the next: what is read for one column is near to hand for the others.
    """
    spans = np.empty((len(rows), 2), dtype=np.int64)
    first = 0
    for record in range(len(rows)):
        spans[record, 0], spans[record, 1] = first, first + max(rows[record], 0)
        for row in range(first, spans[record, 1]):
            target.record_of[row], target.row_of[row] = record, row - first
        first = spans[record, 1]
    filled = np.zeros(len(shapes.shape), dtype=np.int64)
    step = max(1, TOGETHER_BYTES * len(rows) // max(len(data), 1))
    for begin in range(0, len(rows), step):
        end = min(begin + step, len(rows))
        some = (spans[begin:end], places[begin:end], words.starts[:, begin:end])
        _fill_some(data, some, shapes, words.codes, target, filled, text_max, keep_texts)


@njit(cache=True, nogil=True)
def _fill_some(
    data: Any, some: Any, shapes: Any, codes: Any, target: Any, filled: Any, text_max: int, keep_texts: bool
) -> None:
    """All columns of some records. ``filled`` has the pairs or bytes that are there by column."""
    (spans, places, starts), fault = some, target.fault
    for column in range(len(shapes.shape)):
        kind, slot, null_slot = shapes.shape[column], shapes.slot[column], shapes.null_slot[column]
        if kind == LABEL:
            _fill_labels(data, spans, places, column, starts[slot], codes, target.codes[slot], fault)
        elif kind == BINS:
            base, out = target.sketch_base[slot], (target.sketch_ends[slot], target.keys, target.counts)
            filled[column] = _fill_bins(data, spans, places, column, base, filled[column], out, fault)
        elif kind in (FIXED, NULLABLE):
            _fill_numbers(data, spans, places, column, shapes, target, fault)
        else:
            nullable = kind == NULLABLE_TEXT
            _judge_texts(data, spans, places, column, nullable, shapes.required[column], text_max, fault)
            if keep_texts:
                base, ends, known = target.text_base[slot], target.text_ends[slot], target.known[null_slot]
                filled[column], any_null = _fill_texts(
                    data, spans, places, column, nullable, base, filled[column], ends, target.texts, known
                )
                if any_null:
                    target.has_null[null_slot] = True


@njit(cache=True, nogil=True)
def judge_times(
    at_ms: Any,
    record_of: Any,
    appended_ms: Any,
    fault: Any,
    allowed_lateness_ms: int,
    future_skew_ms: int,
    verdicts: Any,
) -> None:
    """Verdict of each row: rejected where it has a fault, else late, future or accepted by its record's append time."""
    for row in range(len(at_ms)):
        age = appended_ms[record_of[row]] - at_ms[row]
        if fault[row] >= 0:
            verdicts[row] = REJECTED
        elif age > allowed_lateness_ms:
            verdicts[row] = LATE
        elif -age > future_skew_ms:
            verdicts[row] = FUTURE
        else:
            verdicts[row] = ACCEPTED
