"""ClickHouse Native blocks (as over HTTP, revision 0) by numpy: our own default on every topic.

Layout: varint columns, varint rows, then per column: name, type (both varint length and bytes), data; a block without
rows has no data. Numbers are plain little-endian arrays; ``Nullable(T)`` a byte per row (1 = null), then the values;
``String`` varint length and bytes per row; ``LowCardinality`` 8 bytes version 1, 8 bytes ``0x600 | index width``
(0 to 3 for 1 to 8 bytes), count and texts of the dictionary (entry 0 stands for null), count of rows, indexes;
``Map`` end offsets (UInt64), keys, values; ``Array`` end offsets, then its items as a column of their own (of labels
the version stands before the offsets, and without items nothing behind them).
Source: ClickHouse ``NativeWriter``, ``SerializationLowCardinality``,
``SerializationArray``; checked against the real server in the integration tests.

Everything we write is *canonical*: columns and types exactly as the field table has them. ``decode`` reads more than
that (``schemas.codec.native_reader``); whole fetches of canonical blocks are read by ``schemas.codec.native_walk``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Bins, Block, Column, Labels, Lists, Numbers, Texts
from schemas.codec.native_cursor import INDEX_DTYPES
from schemas.codec.native_reader import parse
from schemas.fields import Field, Kind

_DICTIONARY_VERSION = (1).to_bytes(8, "little")
_DICTIONARY_FLAGS = 0x600  # additional keys follow, and they are the whole dictionary
_SHORT = tuple(bytes((size,)) for size in range(0x80))
"""Whole numbers as varints of one byte."""
_COPIED_BYTES_MAX = 4_096
"""Arrays up to this are copied into the pieces of a block: that costs less than a view of them."""
Piece: TypeAlias = bytes | memoryview


def encode(fields: Sequence[Field], block: Block) -> bytes:
    """The block as canonical Native bytes; every field must have its column."""
    return b"".join(pieces(fields, block))


def pieces(fields: Sequence[Field], block: Block) -> list[Piece]:
    """The same bytes in pieces, the large ones views of the block's own arrays, which must not change meanwhile: what
    is only sent away need not be copied first."""
    parts: list[Piece] = [varint(len(fields)), varint(block.rows)]
    _append(parts, fields, block)
    return parts


def decode(data: bytes, fields: Sequence[Field]) -> Block:
    """The block in these bytes: columns in any order, missing optional ones null, unknown ones skipped.

    Other widths of integers are taken where every value fits; labels also from ``String`` with or without
    ``Nullable`` and ``LowCardinality``. Raises ``RejectedError`` (syntax, missing_field, wrong_type, out_of_range);
    allocates no more than a small multiple of ``len(data)``.
    """
    return parse(data, fields).sound()


def concat(fields: Sequence[Field], blocks: Sequence[Block]) -> Block:
    """The rows of all blocks in order: numbers concatenated, dictionaries remapped, texts and sketches joined."""
    columns = {field.name: _joined(field, [block.columns[field.name] for block in blocks]) for field in fields}
    return Block(sum(block.rows for block in blocks), columns)


@lru_cache(maxsize=4_096)
def column_prefix(field: Field) -> bytes:
    """Name and type as they stand before a column's data."""
    name, kind = field.name.encode(), field.kind.value.encode()
    return varint(len(name)) + name + varint(len(kind)) + kind


def varint(value: int) -> bytes:
    """Unsigned LEB128."""
    if 0 <= value < len(_SHORT):
        return _SHORT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _append(parts: list[Piece], fields: Sequence[Field], block: Block) -> None:
    for field in fields:
        parts.append(column_prefix(field))
        if block.rows:
            _append_column(parts, field, block.columns[field.name], block.rows)


def _append_column(parts: list[Piece], field: Field, column: Column, rows: int) -> None:
    if isinstance(column, Numbers):
        assert len(column.values) == rows, field.name
        if field.kind.optional:
            parts.append(_null_map(column.known, rows))
        parts.append(_piece(np.ascontiguousarray(column.values, dtype=field.kind.numpy)))
    elif isinstance(column, Labels):
        assert len(column.codes) == rows, field.name
        parts.append(_DICTIONARY_VERSION)
        _append_labels(parts, column, rows)
    elif isinstance(column, Lists):
        assert len(column.ends) == rows, field.name
        _append_lists(parts, field, column)
    elif isinstance(column, Texts):
        assert len(column.ends) == rows, field.name
        if field.kind is Kind.OPTIONAL_TEXT:
            parts.append(_null_map(column.known, rows))
        parts.append(_prefixed_texts(column))
    else:
        assert len(column.ends) == rows, field.name
        parts.append(_piece(np.ascontiguousarray(column.ends, dtype="<i8")))
        parts.append(_piece(np.ascontiguousarray(column.keys, dtype="<i2")))
        parts.append(_piece(np.ascontiguousarray(column.counts, dtype="<u8")))


def _null_map(known: npt.NDArray[np.bool_] | None, rows: int) -> Piece:
    return bytes(rows) if known is None else _piece((~known).view(np.uint8))


def _piece(array: npt.NDArray[Any]) -> Piece:
    """The bytes of a contiguous array."""
    return array.tobytes() if array.nbytes <= _COPIED_BYTES_MAX else array.data.cast("B")


def _append_labels(parts: list[Piece], column: Labels, rows: int) -> None:
    codes, words = column.codes, column.words
    if len(words) > rows + 1:
        codes, words = _words_in_use(codes, words)
    width = 0 if len(words) <= 0x100 else 1 if len(words) <= 0x10000 else 2
    parts += ((_DICTIONARY_FLAGS | width).to_bytes(8, "little"), _u64(len(words)))
    for word in words:
        if not word:
            parts.append(_SHORT[0])
        elif (size := len(word)) < len(_SHORT):  # nearly all; a fleet's names are many
            parts += (_SHORT[size], word)
        else:
            parts += (varint(size), word)
    parts += (_u64(rows), _piece(codes.astype(INDEX_DTYPES[width])))


def _append_lists(parts: list[Piece], field: Field, column: Lists) -> None:
    ends, items = _piece(np.ascontiguousarray(column.ends, dtype="<i8")), column.items
    total = int(column.ends[-1])
    if isinstance(items, Labels):
        assert len(items.codes) == total, field.name
        parts += (_DICTIONARY_VERSION, ends)
        if total:
            _append_labels(parts, items, total)
        return
    assert len(items.values) == total, field.name
    parts.append(ends)
    if field.kind is Kind.LIST_OPTIONAL_INT64:
        parts.append(_null_map(items.known, total))
    parts.append(_piece(np.ascontiguousarray(items.values, dtype="<i8")))


def _words_in_use(codes: npt.NDArray[Any], words: list[bytes | None]) -> tuple[npt.NDArray[Any], list[bytes | None]]:
    used, codes = np.unique(codes, return_inverse=True)
    if len(used) and used[0] == 0:
        return codes, [words[code] for code in used]
    return codes + 1, [None, *(words[code] for code in used)]


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def _prefixed_texts(column: Texts) -> Piece:
    ends = column.ends
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1]
    lengths = ends - starts
    if lengths.max() < 0x80:
        out = np.empty(len(column.data) + len(ends), dtype=np.uint8)
        heads = starts + np.arange(len(ends))
        is_body = np.ones(len(out), dtype=bool)
        is_body[heads] = False
        out[heads] = lengths
        out[is_body] = np.frombuffer(column.data, dtype=np.uint8)
        return _piece(out)
    data = column.data
    pieces = (varint(b - a) + data[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True))
    return b"".join(pieces)


def _joined(field: Field, columns: Sequence[Column]) -> Column:
    if field.kind is Kind.LABEL:
        return _joined_labels([column for column in columns if isinstance(column, Labels)])
    if field.kind.item is not None:
        lists = [column for column in columns if isinstance(column, Lists)]
        items = _joined(replace(field, kind=field.kind.item), [column.items for column in lists])
        assert isinstance(items, Numbers | Labels)
        return Lists(_joined_ends([column.ends for column in lists]), items)
    if field.kind is Kind.BINS:
        sketches = [column for column in columns if isinstance(column, Bins)]
        return Bins(
            _joined_ends([column.ends for column in sketches]),
            _joined_arrays([column.keys for column in sketches], "<i2"),
            _joined_arrays([column.counts for column in sketches], "<u8"),
        )
    if field.kind in (Kind.TEXT, Kind.OPTIONAL_TEXT):
        texts = [column for column in columns if isinstance(column, Texts)]
        ends = _joined_ends([column.ends for column in texts])
        known = _joined_known([(column.known, len(column.ends)) for column in texts])
        return Texts(b"".join(column.data for column in texts), ends, known)
    numbers = [column for column in columns if isinstance(column, Numbers)]
    known = _joined_known([(column.known, len(column.values)) for column in numbers])
    return Numbers(_joined_arrays([column.values for column in numbers], field.kind.numpy), known)


def _joined_arrays(arrays: Sequence[npt.NDArray[Any]], dtype: str) -> npt.NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=dtype)


def _joined_ends(ends: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    shifted, total = [], 0
    for part in ends:
        shifted.append(part + total)
        total += int(part[-1]) if len(part) else 0
    return np.concatenate(shifted) if shifted else np.empty(0, dtype=np.int64)


def _joined_known(parts: Sequence[tuple[npt.NDArray[np.bool_] | None, int]]) -> npt.NDArray[np.bool_] | None:
    if all(known is None for known, _ in parts):
        return None
    return np.concatenate([np.ones(rows, dtype=bool) if known is None else known for known, rows in parts])


def _joined_labels(columns: Sequence[Labels]) -> Labels:
    if columns and all(column.words is columns[0].words for column in columns):
        return Labels(np.concatenate([column.codes for column in columns]), columns[0].words)
    codes: dict[bytes | None, int] = {None: 0}
    parts = []
    for column in columns:
        remap = np.array([codes.setdefault(word, len(codes)) for word in column.words], dtype=np.int32)
        parts.append(remap[column.codes])
    return Labels(np.concatenate(parts) if parts else np.empty(0, dtype=np.int32), list(codes))
