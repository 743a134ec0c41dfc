"""Many canonical Native blocks into one block, by a compiled walk: no per-record cost in Python but its dictionaries.

The records' bytes are joined into one buffer. ``measure`` proves structure and bounds of each and tells which are no
canonical blocks; ``fill`` copies all columns of all records behind one another and judges values on the way. Between
the two Python sees every *distinct* dictionary once per batch, and a cache remembers those of earlier batches: the
same host sends the same words every second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, count

import numpy as np
import numpy.typing as npt

from schemas import native_fill, native_kernels
from schemas.block import Bins, Block, Column, Labels, Numbers, Texts
from schemas.fields import Field, Kind
from schemas.native import concat, encode
from schemas.native_cursor import read_varint
from schemas.native_layout import Layout, layout_of
from schemas.native_reader import parse

_SPARE = bytes(8)
_CACHE_ENTRIES_MAX = 32_768
_CACHE_BYTES_MAX = 16 * 1024 * 1024
_WORD_BYTES = 64
"""What a remembered word costs beside its bytes."""

Words = list[bytes | None]
Judge = Callable[[Field, bytes | None], bool]
"""Whether a word may stand in a label column; must be a function of its arguments alone."""


def any_word(field: Field, word: bytes | None) -> bool:
    """The judge of blocks that need no judgement."""
    return True


@dataclass(frozen=True, slots=True)
class Measured:
    """Joined records. ``rows`` (int64) is -1 where a record is no canonical block of the layout."""

    layout: Layout
    joined: bytes
    data: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Filled:
    """The rows of all records in order.

    ``fault`` (int16) is the first column, in wire order, whose value may not stand there, else -1; a refused word
    reads null. ``record_of`` and ``row_of`` (int32) tell where a row came from.
    """

    block: Block
    fault: npt.NDArray[np.int16]
    record_of: npt.NDArray[np.int32]
    row_of: npt.NDArray[np.int32]


class Dictionaries:
    """Dictionaries seen before, by their bytes: the words of each and which of them are refused.

    Two generations, so that what is in use stays; bounded by entries and bytes. One per event type, limits and judge.
    """

    def __init__(self, fields: Sequence[Field], judge: Judge) -> None:
        self._fields = [field for field in fields if field.kind is Kind.LABEL]
        self._judge = judge
        self._new: list[dict[bytes, tuple[Words, list[int]]]] = [{} for _ in self._fields]
        self._old = self._new
        self._entries = self._bytes = 0

    def words(self, label: int, data: bytes, count: int) -> tuple[Words, list[int]]:
        """The ``count`` words in ``data`` (entry 0 is null), and the places of those refused."""
        found = self._new[label].get(data)
        if found is not None:
            return found
        found = self._old[label].get(data) or self._read(label, data, count)
        if self._entries >= _CACHE_ENTRIES_MAX or self._bytes > _CACHE_BYTES_MAX:
            self._old, self._new = self._new, [{} for _ in self._fields]
            self._entries = self._bytes = 0
        self._new[label][data] = found
        self._entries += 1
        self._bytes += len(data) + _WORD_BYTES * count
        return found

    def _read(self, label: int, data: bytes, count: int) -> tuple[Words, list[int]]:
        words: Words = []
        position = 0
        for _ in range(count):
            size, position = read_varint(data, position)
            words.append(data[position : position + size])
            position += size
        words[0] = None
        field = self._fields[label]
        refused = [place for place, word in enumerate(words) if not self._judge(field, word)]
        for place in refused:
            words[place] = None  # so that it takes no code
        return words, refused


def measure(fields: tuple[Field, ...], values: Sequence[bytes]) -> Measured:
    """The structure of each record, proven; nothing of a value is judged yet."""
    layout = layout_of(fields)
    joined = b"".join((*values, _SPARE))
    data = np.frombuffer(joined, dtype=np.uint8)
    ends = np.fromiter(accumulate(map(len, values)), dtype=np.int64, count=len(values))
    rows = np.empty(len(values), dtype=np.int64)
    places = np.empty((len(values), len(fields), 4), dtype=np.int64)
    native_kernels.measure(data, ends, layout.shapes, rows, places)
    return Measured(layout, joined, data, rows, places)


def fill(measured: Measured, dictionaries: Dictionaries, text_bytes_max: int, *, texts: bool = True) -> Filled:
    """The rows of all records with ``rows`` above 0 (there must be one).

    Without ``texts`` those columns are judged but left out.
    """
    layout = measured.layout
    words, lists, totals = _words(measured, dictionaries)
    assert totals[-1] > 0, "nothing to fill"
    target = _target(layout, totals, texts=texts)
    native_fill.fill(measured.data, measured.rows, measured.places, layout.shapes, words, target, text_bytes_max, texts)
    block = Block(totals[-1], _columns(layout, target, lists, texts=texts))
    return Filled(block, target.fault, target.record_of, target.row_of)


def decode_many(fields: tuple[Field, ...], values: Sequence[bytes]) -> Block:
    """The rows of all these Native blocks in order, trusted: bounds and closed sets are not judged.

    For topics between our own jobs. Blocks that are not canonical are read by the tolerant reader; raises
    ``RejectedError`` where that cannot read one.
    """
    measured = measure(fields, values)
    if (measured.rows < 0).any():
        strange = measured.rows < 0
        values = [
            encode(fields, parse(value, fields).sound()) if is_strange else value
            for value, is_strange in zip(values, strange.tolist(), strict=True)
        ]
        measured = measure(fields, values)
    if not (measured.rows > 0).any():
        return concat(fields, [parse(value, fields).sound() for value in values])
    return fill(measured, Dictionaries(fields, any_word), np.iinfo(np.int64).max).block


def _words(measured: Measured, dictionaries: Dictionaries) -> tuple[native_fill.Words, list[Words], list[int]]:
    """Codes for every distinct dictionary, the words of each label column, and the totals of ``survey``."""
    layout, records = measured.layout, len(measured.rows)
    labels = layout.sizes["labels"]
    which = np.empty((labels, records), dtype=np.int64)
    found = np.empty((labels * records, 4), dtype=np.int64)
    table = np.empty(1 << (2 * records).bit_length(), dtype=np.int64)
    totals = np.empty(len(layout.fields) + 1, dtype=np.int64)
    distinct = native_kernels.survey(
        measured.data, measured.rows, measured.places, layout.shapes, table, which, found, totals
    )
    words = [_numbering() for _ in range(labels)]
    base: list[int] = []
    codes: list[int] = []
    for label, begin, end, size in found[:distinct].tolist():
        base.append(len(codes))
        texts, refused = dictionaries.words(label, measured.joined[begin:end], size)
        codes.extend(map(words[label].__getitem__, texts))
        for place in refused:
            codes[base[-1] + place] = native_fill.BAD_WORD
    arrays = native_fill.Words(which, np.array(base, dtype=np.int64), np.array(codes, dtype=np.int32))
    return arrays, [list(known) for known in words], totals.tolist()


def _numbering() -> defaultdict[bytes | None, int]:
    """Words to codes in order of their first use, null first; a look-up of a new word gives it the next code."""
    numbering: defaultdict[bytes | None, int] = defaultdict(count(1).__next__)
    numbering[None] = 0
    return numbering


def _target(layout: Layout, totals: list[int], *, texts: bool) -> native_fill.Target:
    """Room for all rows; texts of a column are followed by spare bytes."""
    rows, sizes = totals[-1], layout.sizes
    pairs = [total for place, total in zip(layout.places, totals, strict=False) if place.group == "sketches"]
    bytes_ = [
        total + len(_SPARE) for place, total in zip(layout.places, totals, strict=False) if place.group == "texts"
    ]
    pair_ends, byte_ends = list(accumulate(pairs, initial=0)), list(accumulate(bytes_, initial=0))
    return native_fill.Target(
        n32=np.empty((sizes["n32"], rows), dtype=np.uint32),
        n64=np.empty((sizes["n64"], rows), dtype=np.uint64),
        known=np.empty((max(sizes["nullable"], 1), rows), dtype=bool),
        has_null=np.zeros(max(sizes["nullable"], 1), dtype=bool),
        codes=np.empty((sizes["labels"], rows), dtype=np.int32),
        sketch_ends=np.empty((sizes["sketches"], rows), dtype=np.int64),
        sketch_base=np.array(pair_ends[:-1], dtype=np.int64),
        keys=np.empty(pair_ends[-1], dtype=np.int16),
        counts=np.empty(pair_ends[-1], dtype=np.uint64),
        text_ends=np.empty((sizes["texts"], rows), dtype=np.int64),
        text_base=np.array(byte_ends[:-1], dtype=np.int64),
        texts=np.empty(byte_ends[-1] if texts else 0, dtype=np.uint8),
        fault=np.full(rows, -1, dtype=np.int16),
        record_of=np.empty(rows, dtype=np.int32),
        row_of=np.empty(rows, dtype=np.int32),
    )


def _columns(layout: Layout, target: native_fill.Target, words: list[Words], *, texts: bool) -> dict[str, Column]:
    """The arrays that ``fill`` wrote, cut into columns."""
    columns: dict[str, Column] = {}
    has_null = target.has_null.tolist()
    numbers = {
        **{"<u4": target.n32, "<i4": target.n32.view("<i4"), "<u8": target.n64, "<i8": target.n64.view("<i8")},
    }
    for name, group, slot, null_slot, dtype in layout.places:
        known = target.known[null_slot] if null_slot >= 0 and has_null[null_slot] else None
        if dtype:
            columns[name] = Numbers(numbers[dtype][slot], known)
        elif group == "labels":
            columns[name] = Labels(target.codes[slot], words[slot])
        elif group == "sketches":
            ends, begin = target.sketch_ends[slot], target.sketch_base[slot]
            end = begin + ends[-1]
            columns[name] = Bins(ends, target.keys[begin:end], target.counts[begin:end])
        elif texts:
            ends, begin = target.text_ends[slot], target.text_base[slot]
            columns[name] = Texts(target.texts[begin : begin + ends[-1]].tobytes(), ends, known)
    return columns
