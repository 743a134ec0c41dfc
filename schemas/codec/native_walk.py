"""Many canonical Native blocks into one block, by a compiled walk: no per-record cost in Python.

The records' bytes are joined into one buffer. ``measure`` proves structure and bounds of each and returns which are no
canonical blocks; ``fill`` copies all columns of all records behind one another and judges values on the way. Between
the two ``schemas.codec.native_words`` gives codes to the words of all dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from schemas.codec import native_fill, native_kernels
from schemas.codec.block import Bins, Block, Column, Labels, Numbers, Texts
from schemas.codec.native import concat, encode
from schemas.codec.native_layout import Layout, layout_of
from schemas.codec.native_reader import parse
from schemas.codec.native_words import Dictionaries, WordList, any_word
from schemas.fields import Field

_SPARE = bytes(8)


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
    reads null. ``record_of`` and ``row_of`` (int32) say where a row came from.
    """

    block: Block
    fault: npt.NDArray[np.int16]
    record_of: npt.NDArray[np.int32]
    row_of: npt.NDArray[np.int32]


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
    data, rows, places, shapes = measured.data, measured.rows, measured.places, layout.shapes
    sums = np.empty(len(layout.fields) + 1, dtype=np.int64)
    native_kernels.survey(rows, places, shapes, sums)
    totals = sums.tolist()
    assert totals[-1] > 0, "nothing to fill"
    coded, target = dictionaries.code(measured.joined, data, rows, places), _target(layout, totals, texts=texts)
    codes = native_fill.Codes(coded.starts, coded.codes)
    native_fill.fill(data, rows, places, shapes, codes, target, text_bytes_max, texts)
    block = Block(totals[-1], _columns(layout, target, coded.words, texts=texts))
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
        known=np.ones((max(sizes["nullable"], 1), rows), dtype=bool),
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


def _columns(layout: Layout, target: native_fill.Target, words: list[WordList], *, texts: bool) -> dict[str, Column]:
    """The arrays that ``fill`` wrote, cut into columns."""
    columns: dict[str, Column] = {}
    has_null = target.has_null.tolist()
    numbers = {**{"<u4": target.n32, "<i4": target.n32.view("<i4"), "<u8": target.n64, "<i8": target.n64.view("<i8")}}
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
