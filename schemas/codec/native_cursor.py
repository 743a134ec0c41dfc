"""Bytes of a Native block, taken one by one: nothing is read or allocated before it was seen to be there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.errors import RejectedError

NUMBER_DTYPES = {
    **{f"Int{8 * width}": f"<i{width}" for width in (1, 2, 4, 8)},
    **{f"UInt{8 * width}": f"<u{width}" for width in (1, 2, 4, 8)},
    "Float32": "<f4",
    "Float64": "<f8",
}
INDEX_DTYPES = ("<u1", "<u2", "<u4", "<u8")
"""Widths of a dictionary's indexes, by the number that stands in its flags."""
WORDS_SPARE_MAX = 8_192
"""A dictionary may hold this many words more than its column has rows (ClickHouse's own limit of a shared one)."""
_NESTING_MAX = 8
_LIST_OF_LABELS = "Array(LowCardinality(Nullable(String)))"
"""The one nested type that we write whose dictionary's version stands before its offsets."""
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


class Cursor:
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

    def dictionary_version(self) -> None:
        """Pass the version of a LowCardinality column; in an array it stands before the offsets."""
        if self.u64() != 1:
            raise RejectedError("syntax", f"byte {self.position}: not a LowCardinality dictionary")

    def dictionary(self, rows: int) -> tuple[list[bytes], npt.NDArray[Any]]:
        """Words and indexes of a LowCardinality column, after its version; entry 0 stands for null or empty."""
        flags, count = self.u64(), self.u64()
        if flags & ~0xFF != 0x600 or flags & 0xFF > 3:
            raise RejectedError("syntax", f"byte {self.position}: not a LowCardinality dictionary")
        if count > rows + WORDS_SPARE_MAX:
            raise RejectedError("syntax", f"a dictionary of {count} words for {rows} rows; leave out what is not used")
        words = [self.text() for _ in range(count)]
        if self.u64() != rows:
            raise RejectedError("column_lengths", "a LowCardinality column has another number of rows than its block")
        codes = self.array(INDEX_DTYPES[flags & 0xFF], rows)
        if int(codes.max()) >= count:
            raise RejectedError("syntax", f"byte {self.position}: an index points outside its dictionary")
        return words, codes

    def skip_texts(self, count: int) -> None:
        """Pass over ``count`` texts; there may be millions in an array of an unknown column."""
        data, position, end = self.data, self.position, len(self.data)
        for _ in range(count):
            if position >= end:
                break
            size = data[position]
            position += 1
            if size >= 0x80:
                size, position = read_varint(data, position - 1)
            position += size
        else:
            self.position = position
            self.advance(0)
            return
        raise RejectedError("syntax", f"byte {position}: {count} texts are announced, the block ends before")

    def ends(self, rows: int) -> tuple[npt.NDArray[np.int64], int]:
        """End offsets of maps or arrays, and the last of them."""
        ends = self.array("<u8", rows)
        total = int(ends[-1]) if rows else 0
        if total > len(self.data) or np.any(ends[1:] < ends[:-1]):
            raise RejectedError("syntax", f"byte {self.position}: offsets of a map or array do not rise")
        return ends.astype(np.int64), total


def skip(cursor: Cursor, kind: str, rows: int, depth: int) -> None:
    """Pass over the data of an unknown column."""
    node = type_of(kind)
    if not rows:
        return
    if depth > _NESTING_MAX:
        raise RejectedError("syntax", f"column type {kind[:80]!r} is nested too deep")
    if node.name in NUMBER_DTYPES:
        cursor.advance(np.dtype(NUMBER_DTYPES[node.name]).itemsize * rows)
    elif node.name in _SKIPPED_BYTES:
        cursor.advance(_SKIPPED_BYTES[node.name] * rows)
    elif node.name == "String":
        cursor.skip_texts(rows)
    elif node.name == "LowCardinality":
        if node.arguments not in (("String",), ("Nullable(String)",)):
            raise _unskippable(kind)
        cursor.dictionary_version()
        cursor.dictionary(rows)
    elif kind == _LIST_OF_LABELS:
        cursor.dictionary_version()
        _, total = cursor.ends(rows)
        if total:
            cursor.dictionary(total)
    else:
        _skip_nested(cursor, node, kind, rows, depth)


def _skip_nested(cursor: Cursor, node: Type, kind: str, rows: int, depth: int) -> None:
    arguments = node.arguments
    if any("LowCardinality" in argument for argument in arguments):
        raise _unskippable(kind)  # its dictionaries' prefixes stand before the outer data
    if node.name == "FixedString" and len(arguments) == 1 and (size := _number(arguments[0], 8)) is not None:
        cursor.advance(size * rows)
    elif node.name == "Nullable" and len(arguments) == 1:
        cursor.advance(rows)
        skip(cursor, arguments[0], rows, depth + 1)
    elif node.name in ("Array", "Map") and len(arguments) == (1 if node.name == "Array" else 2):
        _, total = cursor.ends(rows)
        for argument in arguments:
            skip(cursor, argument, total, depth + 1)
    elif node.name == "Tuple" and arguments:
        for argument in arguments:
            name, _, rest = argument.partition(" ")
            skip(cursor, rest if rest and "(" not in name else argument, rows, depth + 1)
    elif node.name == "Decimal" and arguments and (digits := _number(arguments[0], 2)) is not None:
        cursor.advance((4 if digits < 10 else 8 if digits < 19 else 16 if digits < 39 else 32) * rows)
    else:
        raise _unskippable(kind)


def _number(text: str, digits_max: int) -> int | None:
    """A whole number of a type's arguments; None for what is none, or has more digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits_max else None


def _unskippable(kind: str) -> RejectedError:
    return RejectedError("wrong_type", f"an unknown column of type {kind[:80]} cannot be skipped; leave it out")
