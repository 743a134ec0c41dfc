"""The tolerant reader of Native blocks: other column orders, other widths, unknown columns, anybody's block.

Nothing is allocated before the buffer was seen to hold it: every count is compared with the bytes that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.block import Bins, Block, Column, Labels, Numbers, Texts
from schemas.errors import RejectedError
from schemas.fields import Field, Kind
from schemas.json_text import dumps
from schemas.parsed import Parsed, Problem
from schemas.values import values_of

COLUMNS_MAX = 4_096
"""More columns than this in one block are taken for nonsense (syntax)."""
_NESTING_MAX = 8
_INDEX_DTYPES = ("<u1", "<u2", "<u4", "<u8")
_NUMBERS = {
    **{f"Int{8 * width}": f"<i{width}" for width in (1, 2, 4, 8)},
    **{f"UInt{8 * width}": f"<u{width}" for width in (1, 2, 4, 8)},
    "Float32": "<f4",
    "Float64": "<f8",
}
_SKIPPED_BYTES = {
    **{"Bool": 1, "Enum8": 1, "Enum16": 2, "Date": 2, "Date32": 4, "DateTime": 4, "DateTime64": 8, "UUID": 16},
    **{"IPv4": 4, "IPv6": 16, "Int128": 16, "UInt128": 16, "Int256": 32, "UInt256": 32, "BFloat16": 2},
}
"""Bytes per value of fixed-width types that are skipped in unknown columns and refused in known ones."""


@dataclass(frozen=True, slots=True)
class Type:
    """A ClickHouse type: its name and what stands in its parentheses."""

    name: str
    arguments: tuple[str, ...]


@lru_cache(maxsize=4_096)
def type_of(text: str) -> Type:
    """The type taken apart one level deep; ``Map(Int16, UInt64)`` is Map of two arguments."""
    name, paren, rest = text.partition("(")
    if not paren:
        return Type(text.strip(), ())
    if not rest.endswith(")"):
        raise RejectedError("syntax", f"column type {text[:80]!r} is not closed")
    return Type(name.strip(), tuple(_arguments(rest[:-1])))


def _arguments(text: str) -> list[str]:
    parts, depth, start, quoted = [], 0, 0, False
    for position, character in enumerate(text):
        if character == "'":
            quoted = not quoted
        elif not quoted and character in "()":
            depth += 1 if character == "(" else -1
        elif character == "," and depth == 0 and not quoted:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return parts


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """An unsigned LEB128 number of at most 63 bits and the position after it. Raises ``RejectedError('syntax')``."""
    value = shift = 0
    while position < len(data) and shift < 63:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise RejectedError("syntax", f"byte {position}: a number is cut off or too long")


class _Cursor:
    """A position in the bytes; whatever it takes has been seen to be there."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def number(self) -> int:
        value, self.position = read_varint(self.data, self.position)
        return value

    def take(self, size: int) -> bytes:
        start = self.advance(size)
        return self.data[start : self.position]

    def advance(self, size: int) -> int:
        start, end = self.position, self.position + size
        if size < 0 or end > len(self.data):
            raise RejectedError("syntax", f"byte {start}: {size} more bytes are announced than the block has")
        self.position = end
        return start

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def array(self, dtype: str, count: int) -> npt.NDArray[Any]:
        start = self.advance(np.dtype(dtype).itemsize * count)
        return np.frombuffer(self.data, dtype=dtype, count=count, offset=start)

    def text(self) -> bytes:
        return self.take(self.number())


def parse(data: bytes, fields: Sequence[Field], rows_max: int | None = None) -> Parsed:
    """The block, with the rows whose values do not fit.

    Raises ``RejectedError``: syntax; too_many (rows above ``rows_max``); missing_field and wrong_type where a whole
    column is missing or of a type that does not fit.
    """
    cursor = _Cursor(data)
    columns, rows = cursor.number(), cursor.number()
    if columns > COLUMNS_MAX or rows > len(data):
        raise RejectedError("syntax", f"{columns} columns of {rows} rows cannot stand in {len(data)} bytes")
    if rows_max is not None and rows > rows_max:
        raise RejectedError("too_many", f"{rows} events; at most {rows_max} in one batch")
    by_name = {field.name: field for field in fields}
    found = _read_columns(cursor, columns, rows, by_name)
    if cursor.position != len(data):
        raise RejectedError("syntax", f"{len(data) - cursor.position} bytes follow the block")
    problems: list[Problem] = []
    fitted: dict[str, Column] = {}
    for index, field in enumerate(fields):
        column = found.get(field.name)
        fitted[field.name] = _absent(field, rows) if column is None else _fit(field, index, column, problems)
    return Parsed(Block(rows, fitted), problems, _shower(found))


def _read_columns(cursor: _Cursor, columns: int, rows: int, by_name: dict[str, Field]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for _ in range(columns):
        name = cursor.text().decode("utf-8", "replace")
        kind = cursor.text().decode("utf-8", "replace")
        field = by_name.get(name)
        if field is None:
            _skip(cursor, kind, rows, 0)
            continue
        if name in found:
            raise RejectedError("syntax", f"column {name} is there twice")
        found[name] = _read(cursor, field, kind, rows)
    return found


def _read(cursor: _Cursor, field: Field, kind: str, rows: int) -> Column:
    node = type_of(kind)
    column: Column | None = None
    if field.kind is Kind.BINS:
        if node.name == "Map" and len(node.arguments) == 2:
            column = _read_bins(cursor, node, rows)
    elif field.kind in (Kind.LABEL, Kind.TEXT, Kind.OPTIONAL_TEXT):
        column = _read_strings(cursor, node, rows)
    else:
        column = _read_numbers(cursor, node, rows)
    if column is None:
        raise RejectedError("wrong_type", f"{field.name} has type {kind[:80]}, must be {field.kind.value}")
    return column


def _read_numbers(cursor: _Cursor, node: Type, rows: int) -> Numbers | None:
    known = None
    if node.name == "Nullable" and len(node.arguments) == 1:
        node = type_of(node.arguments[0])
        if node.name in _NUMBERS:
            known = cursor.array("<u1", rows) == 0
    if node.name not in _NUMBERS:
        return None
    return Numbers(cursor.array(_NUMBERS[node.name], rows), known)


def _read_strings(cursor: _Cursor, node: Type, rows: int) -> Labels | Texts | None:
    if node.name == "LowCardinality" and node.arguments in (("String",), ("Nullable(String)",)):
        return _read_dictionary(cursor, rows, node.arguments[0] != "String")
    if node == Type("Nullable", ("String",)):
        known = cursor.array("<u1", rows) == 0
        return _read_texts(cursor, rows, known)
    return _read_texts(cursor, rows, None) if node == Type("String", ()) else None


def _read_texts(cursor: _Cursor, rows: int, known: npt.NDArray[np.bool_] | None) -> Texts:
    texts = [cursor.text() for _ in range(rows)]
    if known is not None:
        texts = [text if is_known else b"" for text, is_known in zip(texts, known.tolist(), strict=True)]
    ends = np.cumsum(np.array([len(text) for text in texts], dtype=np.int64), dtype=np.int64)
    return Texts(b"".join(texts), ends, known)


def _read_dictionary(cursor: _Cursor, rows: int, nullable: bool) -> Labels:
    """Labels whose word 0 is null; entry 0 of a dictionary without nulls is a word like any other."""
    if not rows:
        return Labels(np.empty(0, dtype=np.int32), [None])
    version, flags, count = cursor.u64(), cursor.u64(), cursor.u64()
    if version != 1 or flags & ~0xFF != 0x600 or flags & 0xFF > 3 or count > len(cursor.data):
        raise RejectedError("syntax", f"byte {cursor.position}: not a LowCardinality dictionary")
    words: list[bytes | None] = [cursor.text() for _ in range(count)]
    if cursor.u64() != rows:
        raise RejectedError("column_lengths", "a LowCardinality column has another number of rows than its block")
    codes = cursor.array(_INDEX_DTYPES[flags & 0xFF], rows)
    if int(codes.max()) >= count:
        raise RejectedError("syntax", f"byte {cursor.position}: an index points outside its dictionary")
    if nullable:
        return _distinct(codes.astype(np.int32), [None, *words[1:]])
    return _distinct(codes.astype(np.int32) + np.int32(1), [None, *words])


def _distinct(codes: npt.NDArray[np.int32], words: list[bytes | None]) -> Labels:
    if len(set(words)) == len(words):
        return Labels(codes, words)
    places: dict[bytes | None, int] = {}
    remap = np.array([places.setdefault(word, len(places)) for word in words], dtype=np.int32)
    return Labels(remap[codes], list(places))


def _read_bins(cursor: _Cursor, node: Type, rows: int) -> Bins | None:
    if any(argument not in _NUMBERS or argument.startswith("Float") for argument in node.arguments):
        return None
    ends, total = _ends(cursor, rows)
    keys = cursor.array(_NUMBERS[node.arguments[0]], total)
    return Bins(ends, keys, cursor.array(_NUMBERS[node.arguments[1]], total))


def _ends(cursor: _Cursor, rows: int) -> tuple[npt.NDArray[np.int64], int]:
    ends = cursor.array("<u8", rows)
    total = int(ends[-1]) if rows else 0
    if total > len(cursor.data) or np.any(ends[1:] < ends[:-1]):
        raise RejectedError("syntax", f"byte {cursor.position}: offsets of a map or array do not rise")
    return ends.astype(np.int64), total


def _skip(cursor: _Cursor, kind: str, rows: int, depth: int) -> None:
    """Pass over the data of an unknown column."""
    node = type_of(kind)
    if not rows:
        return
    if depth > _NESTING_MAX:
        raise RejectedError("syntax", f"column type {kind[:80]!r} is nested too deep")
    if node.name in _NUMBERS:
        cursor.advance(np.dtype(_NUMBERS[node.name]).itemsize * rows)
    elif node.name in _SKIPPED_BYTES:
        cursor.advance(_SKIPPED_BYTES[node.name] * rows)
    elif node.name == "String":
        for _ in range(rows):
            cursor.advance(cursor.number())
    elif node.name == "LowCardinality":
        if _read_strings(cursor, node, rows) is None:
            raise _unskippable(kind)
    else:
        _skip_nested(cursor, node, kind, rows, depth)


def _skip_nested(cursor: _Cursor, node: Type, kind: str, rows: int, depth: int) -> None:
    arguments = node.arguments
    if any("LowCardinality" in argument for argument in arguments):
        raise _unskippable(kind)  # its dictionaries' prefixes stand before the outer data
    if node.name == "FixedString" and len(arguments) == 1 and arguments[0].isdigit() and len(arguments[0]) < 9:
        cursor.advance(int(arguments[0]) * rows)
    elif node.name == "Nullable" and len(arguments) == 1:
        cursor.advance(rows)
        _skip(cursor, arguments[0], rows, depth + 1)
    elif node.name in ("Array", "Map") and len(arguments) == (1 if node.name == "Array" else 2):
        _, total = _ends(cursor, rows)
        for argument in arguments:
            _skip(cursor, argument, total, depth + 1)
    elif node.name == "Tuple" and arguments:
        for argument in arguments:
            name, _, rest = argument.partition(" ")
            _skip(cursor, rest if rest and "(" not in name else argument, rows, depth + 1)
    elif node.name == "Decimal" and arguments[:1] and arguments[0].isdigit() and len(arguments[0]) < 3:
        digits = int(arguments[0])
        cursor.advance((4 if digits < 10 else 8 if digits < 19 else 16 if digits < 39 else 32) * rows)
    else:
        raise _unskippable(kind)


def _unskippable(kind: str) -> RejectedError:
    return RejectedError("wrong_type", f"an unknown column of type {kind[:80]} cannot be skipped; leave it out")


def _absent(field: Field, rows: int) -> Column:
    if field.kind is Kind.LABEL:
        if field.required and rows:
            raise RejectedError("missing_field", f"column {field.name} is missing")
        return Labels(np.zeros(rows, dtype=np.int32), [None])
    if field.kind is Kind.BINS:
        return Bins(np.zeros(rows, dtype=np.int64), np.empty(0, dtype=np.int16), np.empty(0, dtype=np.uint64))
    if rows and (field.required or not field.kind.optional):
        raise RejectedError("missing_field", f"column {field.name} is missing")
    known = np.zeros(rows, dtype=bool) if field.kind.optional and rows else None
    if field.kind in (Kind.TEXT, Kind.OPTIONAL_TEXT):
        return Texts(b"", np.zeros(rows, dtype=np.int64), known)
    return Numbers(np.zeros(rows, dtype=field.kind.numpy), known)


def _fit(field: Field, index: int, column: Column, problems: list[Problem]) -> Column:
    """The column in the shape and width of its field; rows that do not fit become problems."""
    if isinstance(column, Numbers):
        return _fit_numbers(field, index, column, problems)
    if isinstance(column, Bins):
        return _fit_bins(field, index, column, problems)
    if field.kind is Kind.LABEL:
        return column if isinstance(column, Labels) else _labels_of(column)
    texts = column if isinstance(column, Texts) else _texts_of(column)
    if field.kind is Kind.TEXT and texts.known is not None:
        if field.required:
            _note(problems, ~texts.known, index, "missing_field", f"{field.name} is null")
        return Texts(texts.data, texts.ends)
    return texts


def _fit_numbers(field: Field, index: int, column: Numbers, problems: list[Problem]) -> Numbers:
    values, known = column.values, column.known
    target = np.dtype(field.kind.numpy)
    if known is not None and known.all():
        known = None
    if not field.kind.optional and known is not None:
        _note(problems, ~known, index, "missing_field", f"{field.name} is null")
    unfit = np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "f":
        values, unfit = _whole(field, index, values, known, problems)
    elif values.dtype != target:
        low, high = (int(np.iinfo(target).min), int(np.iinfo(target).max))
        own = np.iinfo(values.dtype)
        unfit = (values < max(low, int(own.min))) | (values > min(high, int(own.max)))
        bad = unfit if known is None else unfit & known
        _note_values(problems, bad, index, "out_of_range", field, values, f"must fit {field.kind.value}")
    hidden = unfit if known is None else unfit | ~known
    if hidden.any():
        values = np.where(hidden, values.dtype.type(0), values)
    return Numbers(values.astype(target, copy=False), known if field.kind.optional else None)


def _whole(
    field: Field, index: int, values: npt.NDArray[Any], known: npt.NDArray[np.bool_] | None, problems: list[Problem]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Floats as whole numbers of the field's width, and which rows are none."""
    present = np.ones(len(values), dtype=bool) if known is None else known
    limits = np.iinfo(np.dtype(field.kind.numpy))
    finite = np.isfinite(values)
    whole = np.where(finite, values.astype(np.float64), 0.0)
    fractional = whole != np.floor(whole)
    # The upper bound is exclusive: 2^64 - 1 has no float of its own.
    outside = ~finite | (whole < float(limits.min)) | (whole >= float(int(limits.max) + 1))
    _note_values(problems, present & outside, index, "out_of_range", field, values, f"must fit {field.kind.value}")
    _note_values(
        problems, present & fractional & ~outside, index, "wrong_type", field, values, "must be a whole number"
    )
    unfit = outside | fractional
    return np.where(unfit, 0.0, whole).astype(field.kind.numpy), unfit


def _fit_bins(field: Field, index: int, column: Bins, problems: list[Problem]) -> Bins:
    keys, counts = column.keys, column.counts
    bad = np.zeros(len(keys), dtype=bool)
    if keys.dtype != np.dtype("<i2"):
        wide = keys.astype(np.float64)
        bad |= (wide < -(2**15)) | (wide >= 2**15)
    if counts.dtype.kind == "i":
        bad |= counts < 0
    if not bad.any():
        return Bins(column.ends, keys.astype(np.int16, copy=False), counts.astype(np.uint64, copy=False))
    rows = np.searchsorted(column.ends, np.flatnonzero(bad), side="right")
    unfit = np.zeros(len(column.ends), dtype=bool)
    unfit[rows] = True
    _note(problems, unfit, index, "bad_bins", f"{field.name}: a bin index or count does not fit {field.kind.value}")
    lengths = np.diff(column.ends, prepend=0)
    keep = ~np.repeat(unfit, lengths)
    ends = np.cumsum(np.where(unfit, 0, lengths), dtype=np.int64)
    return Bins(ends, keys[keep].astype(np.int16), counts[keep].astype(np.uint64))


def _note(problems: list[Problem], rows: npt.NDArray[np.bool_], index: int, reason: str, detail: str) -> None:
    problems.extend(Problem(int(row), index, reason, detail) for row in np.flatnonzero(rows))


def _note_values(
    problems: list[Problem],
    rows: npt.NDArray[np.bool_],
    index: int,
    reason: str,
    field: Field,
    values: npt.NDArray[Any],
    bound: str,
) -> None:
    for row in np.flatnonzero(rows).tolist():
        problems.append(Problem(row, index, reason, f"{field.name} = {values[row].item()}: {bound}"))


def _labels_of(texts: Texts) -> Labels:
    codes: dict[bytes | None, int] = {None: 0}
    known = None if texts.known is None else texts.known.tolist()
    column, start = np.zeros(len(texts.ends), dtype=np.int32), 0
    for row, end in enumerate(texts.ends.tolist()):
        if known is None or known[row]:
            column[row] = codes.setdefault(texts.data[start:end], len(codes))
        start = end
    return Labels(column, list(codes))


def _texts_of(labels: Labels) -> Texts:
    words = [word or b"" for word in labels.words]
    codes = labels.codes.tolist()
    ends = np.cumsum(np.array([len(words[code]) for code in codes], dtype=np.int64), dtype=np.int64)
    known = labels.codes != 0
    return Texts(b"".join(words[code] for code in codes), ends, None if known.all() else known)


def _shower(found: dict[str, Column]) -> Callable[[int], bytes]:
    """A function from row to the event as JSON, as it was sent (values that did not fit included)."""
    shown: dict[str, list[Any]] = {}

    def event_json(row: int) -> bytes:
        if not shown:
            shown.update({name: values_of(column) for name, column in found.items()})
        return dumps({name: values[row] for name, values in shown.items()})

    return event_json
