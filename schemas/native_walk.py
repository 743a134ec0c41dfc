"""Many canonical Native blocks into one block, by a compiled walk: no per-record cost in Python but its dictionaries.

The records' bytes are joined into one buffer. ``measure`` proves structure and bounds of each and tells which are no
canonical blocks; ``fill`` copies all columns of all records behind one another and judges values on the way. Between
the two Python sees every *distinct* dictionary once per batch, and a cache remembers those of earlier batches: the
same host sends the same words every second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas import native_kernels as kernels
from schemas.block import Bins, Block, Column, Labels, Numbers, Texts
from schemas.fields import Field, Kind
from schemas.native import concat, encode
from schemas.native_layout import BINS, TEXT, Layout, layout_of
from schemas.native_reader import parse, read_varint

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
        self._new: list[dict[bytes, tuple[Words, list[bool]]]] = [{} for _ in self._fields]
        self._old = self._new
        self._entries = self._bytes = 0

    def words(self, label: int, data: bytes, count: int) -> tuple[Words, list[bool]]:
        """The ``count`` words in ``data`` (entry 0 is null), and for each whether it is refused."""
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

    def _read(self, label: int, data: bytes, count: int) -> tuple[Words, list[bool]]:
        words: Words = []
        position = 0
        for _ in range(count):
            size, position = read_varint(data, position)
            words.append(data[position : position + size])
            position += size
        words[0] = None
        field = self._fields[label]
        return words, [not self._judge(field, word) for word in words]


def measure(fields: tuple[Field, ...], values: Sequence[bytes]) -> Measured:
    """The structure of each record, proven; nothing of a value is judged yet."""
    layout = layout_of(fields)
    joined = b"".join((*values, _SPARE))
    data = np.frombuffer(joined, dtype=np.uint8)
    ends = np.cumsum(np.fromiter(map(len, values), dtype=np.int64, count=len(values)))
    rows = np.empty(len(values), dtype=np.int64)
    places = np.empty((len(values), len(fields), 4), dtype=np.int64)
    kernels.measure(data, ends, layout.prefixes, layout.prefix_ends, layout.shape, layout.width, rows, places)
    return Measured(layout, joined, data, rows, places)


def fill(measured: Measured, dictionaries: Dictionaries, text_bytes_max: int, *, texts: bool = True) -> Filled:
    """The rows of all records with ``rows`` above 0 (there must be one).

    Without ``texts`` those columns are judged but left out.
    """
    layout, rows, places, sizes = measured.layout, measured.rows, measured.places, measured.layout.sizes
    taken = rows > 0
    total = int(rows[taken].sum())
    assert total > 0, "nothing to fill"
    words, which, remap_base, remap = _remapped(measured, dictionaries)
    sketch_base, pairs = _bases(layout, places, taken, BINS, 0)
    text_base, text_bytes = _bases(layout, places, taken, TEXT, len(_SPARE) if texts else None)
    n32 = np.empty((sizes["n32"], total), dtype=np.uint32)
    n64 = np.empty((sizes["n64"], total), dtype=np.uint64)
    known = np.empty((max(sizes["nullable"], 1), total), dtype=bool)
    codes = np.empty((sizes["labels"], total), dtype=np.int32)
    sketch_ends = np.empty((sizes["sketches"], total), dtype=np.int64)
    keys, counts = np.empty(pairs, dtype=np.int16), np.empty(pairs, dtype=np.uint64)
    text_ends = np.empty((sizes["texts"], total), dtype=np.int64)
    text_data = np.empty(text_bytes, dtype=np.uint8)
    fault = np.full(total, -1, dtype=np.int16)
    record_of, row_of = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.int32)
    kernels.fill(
        measured.data,
        rows,
        places,
        layout.shape,
        layout.width,
        layout.signed,
        layout.slot,
        layout.null_slot,
        layout.low,
        layout.span,
        layout.required,
        which,
        remap_base,
        remap,
        text_bytes_max,
        texts,
        n32,
        n64,
        known,
        codes,
        sketch_ends,
        sketch_base,
        keys,
        counts,
        text_ends,
        text_base,
        text_data,
        fault,
        record_of,
        row_of,
    )
    columns = _Columns(layout, total, n32, n64, known, codes, words, sketch_ends, sketch_base, keys, counts)
    block = Block(total, columns.all(text_ends, text_base, text_data if texts else None))
    return Filled(block, fault, record_of, row_of)


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


def _remapped(
    measured: Measured, dictionaries: Dictionaries
) -> tuple[list[Words], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Per label column: the words of all records; per distinct dictionary where its codes begin in ``remap``."""
    layout, rows = measured.layout, measured.rows
    labels, records = len(layout.label_columns), len(rows)
    table = np.empty(1 << (2 * records).bit_length(), dtype=np.int64)
    first = np.empty((labels, records), dtype=np.int64)
    which = np.empty((labels, records), dtype=np.int64)
    kernels.unique_dictionaries(measured.data, rows, measured.places, layout.label_columns, table, first, which)
    base = np.zeros((labels, records), dtype=np.int64)
    remap: list[int] = []
    words: list[Words] = []
    joined = measured.joined
    for label, column in enumerate(layout.label_columns.tolist()):
        codes: dict[bytes | None, int] = {None: 0}
        firsts = first[label]
        places = measured.places[firsts[firsts >= 0], column].tolist()
        for number, (begin, end, count, _) in enumerate(places):
            base[label, number] = len(remap)
            found, refused = dictionaries.words(label, joined[begin:end], count)
            if True in refused:
                remap += [
                    kernels.BAD_WORD if bad else codes.setdefault(word, len(codes))
                    for word, bad in zip(found, refused, strict=True)
                ]
            else:
                remap += [codes.setdefault(word, len(codes)) for word in found]
        words.append(list(codes))
    return words, which, base, np.array(remap, dtype=np.int32)


def _bases(
    layout: Layout, places: npt.NDArray[np.int64], taken: npt.NDArray[np.bool_], shape: int, spare: int | None
) -> tuple[npt.NDArray[np.int64], int]:
    """Where each sketch (or text) column begins in the common array, and that array's length (0 without ``spare``)."""
    texts = shape == TEXT
    columns = np.flatnonzero(layout.shape >= TEXT) if texts else np.flatnonzero(layout.shape == BINS)
    if spare is None:
        return np.zeros(len(columns), dtype=np.int64), 0
    sizes = places[:, columns, 1][taken].sum(axis=0) + spare
    ends = np.cumsum(sizes, dtype=np.int64)
    return ends - sizes, int(ends[-1]) if len(ends) else 0


@dataclass(frozen=True, slots=True)
class _Columns:
    """The arrays that ``fill`` wrote, to be cut into columns."""

    layout: Layout
    rows: int
    n32: npt.NDArray[np.uint32]
    n64: npt.NDArray[np.uint64]
    known: npt.NDArray[np.bool_]
    codes: npt.NDArray[np.int32]
    words: list[Words]
    sketch_ends: npt.NDArray[np.int64]
    sketch_base: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int16]
    counts: npt.NDArray[np.uint64]

    def all(
        self,
        text_ends: npt.NDArray[np.int64],
        text_base: npt.NDArray[np.int64],
        text_data: npt.NDArray[np.uint8] | None,
    ) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        all_known: list[bool] = np.all(self.known, axis=1).tolist()
        slots, null_slots = self.layout.slot.tolist(), self.layout.null_slot.tolist()
        for field, slot, null_slot in zip(self.layout.fields, slots, null_slots, strict=True):
            known = None if null_slot < 0 or all_known[null_slot] else self.known[null_slot]
            if field.kind is Kind.LABEL:
                columns[field.name] = Labels(self.codes[slot], self.words[slot])
            elif field.kind is Kind.BINS:
                columns[field.name] = self._bins(slot)
            elif field.kind.numpy:
                dtype = field.kind.numpy
                array: npt.NDArray[Any] = self.n32[slot] if dtype.endswith("4") else self.n64[slot]
                columns[field.name] = Numbers(array.view(dtype), known)
            elif text_data is not None:
                begin, ends = text_base[slot], text_ends[slot]
                data = text_data[begin : begin + ends[-1]].tobytes()
                columns[field.name] = Texts(data, ends, known)
        return columns

    def _bins(self, slot: int) -> Bins:
        ends, begin = self.sketch_ends[slot], self.sketch_base[slot]
        return Bins(ends, self.keys[begin : begin + ends[-1]], self.counts[begin : begin + ends[-1]])
