"""A batch of a few plain rows, encoded without arrays: the agent's usual case, several times cheaper there.

A host sends one row of itself and eight of its GPUs a second, fifty columns each: what numpy costs to set up for a
column is then most of the work. The bytes are those of ``native.encode``. Whatever is not plain (a value that
is no ``int``, ``str`` or None, a number out of its kind's range, a sketch, many rows) is left to ``BatchBuilder``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from producers.batch import Batch, key_of
from producers.collector import Row
from schemas.codec.native import column_prefix, varint
from schemas.contract import headers
from schemas.fields import Event, Field, Kind

ROWS_MAX = 128
BYTES_MAX = 256 * 1024
KEPT_LENGTH_MAX = 4_096
"""Characters of all labels of a column that is kept encoded: with the labels it takes 50 KiB at most."""

_FORMATS = {
    Kind.INT64: "q",
    Kind.UINT32: "I",
    Kind.UINT64: "Q",
    Kind.OPTIONAL_UINT32: "I",
    Kind.OPTIONAL_UINT64: "Q",
    Kind.OPTIONAL_INT32: "i",
    Kind.OPTIONAL_INT64: "q",
}
_WHOLE, _WHOLE_OR_NULL, _STR_OR_NULL = {int}, {int, type(None)}, {str, type(None)}
_LABELS_HEAD = (1).to_bytes(8, "little") + (0x600).to_bytes(8, "little")
"""Version of the dictionary, and flags of one-byte indexes."""

Values = tuple[Any, ...]


class NotPlain(Exception):
    """These values need the general way."""


class _TooLongToKeep(Exception):
    """These labels are encoded each time."""


def batches_of_few(event: Event, rows: Sequence[Row]) -> list[Batch] | None:
    """The rows as batches, one per key; None when they are not plain or not few."""
    if len(rows) > ROWS_MAX:
        return None
    by_key: dict[bytes, list[Row]] = {}
    for row in rows:
        by_key.setdefault(key_of(event, row), []).append(row)
    try:
        values = {key: encoded(event, part) for key, part in by_key.items()}
    except (NotPlain, struct.error, UnicodeEncodeError):
        return None
    if any(len(value) > BYTES_MAX for value in values.values()):
        return None
    return [
        Batch(event.topic, event.schema, headers.NATIVE, key, len(by_key[key]), value) for key, value in values.items()
    ]


def encoded(event: Event, rows: Sequence[Row]) -> bytes:
    """One Native block of the rows. Raises ``NotPlain``, ``struct.error`` or ``UnicodeEncodeError``."""
    table = _table(event)
    parts = [table.head, varint(len(rows))]
    for name, prefix, encode in table.columns:
        parts.append(prefix)
        parts.append(encode(tuple([row.get(name) for row in rows])))
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class _Table:
    """What is the same in every block of an event. ``columns``: name, prefix and encoder."""

    fields: tuple[Field, ...]
    head: bytes
    columns: tuple[tuple[str, bytes, Callable[[Values], bytes]], ...]


_TABLES: dict[str, _Table] = {}
"""By topic: to look an event's fields up by themselves is to walk all of them."""


def _table(event: Event) -> _Table:
    table = _TABLES.get(event.topic)
    if table is None or table.fields is not event.fields:
        columns = tuple((field.name, column_prefix(field), _encoder(field)) for field in event.fields)
        table = _TABLES[event.topic] = _Table(event.fields, varint(len(event.fields)), columns)
    return table


def _encoder(field: Field) -> Callable[[Values], bytes]:
    if field.kind is Kind.LABEL:
        return _labels
    if field.kind is Kind.OPTIONAL_TEXT:
        return _optional_texts
    if field.kind in (Kind.TEXT, Kind.BINS):
        return _not_plain
    return _optional_numbers(_FORMATS[field.kind]) if field.kind.optional else _numbers(_FORMATS[field.kind])


def _not_plain(_values: Values) -> bytes:
    raise NotPlain


def _numbers(kind: str) -> Callable[[Values], bytes]:
    def encode(values: Values) -> bytes:
        if set(map(type, values)) != _WHOLE:
            raise NotPlain
        return struct.pack(f"<{len(values)}{kind}", *values)

    return encode


def _optional_numbers(kind: str) -> Callable[[Values], bytes]:
    size = struct.calcsize(f"<{kind}")

    def encode(values: Values) -> bytes:
        types, rows = set(map(type, values)), len(values)
        if types == _WHOLE:
            return bytes(rows) + struct.pack(f"<{rows}{kind}", *values)
        if not types <= _WHOLE_OR_NULL:
            raise NotPlain
        if int not in types:
            return b"\1" * rows + bytes(rows * size)
        nulls = bytes([value is None for value in values])
        return nulls + struct.pack(f"<{rows}{kind}", *[value or 0 for value in values])

    return encode


def _labels(values: Values) -> bytes:
    try:
        return _kept_labels(values)
    except _TooLongToKeep:
        return _encoded_labels(values)


@lru_cache(maxsize=1_024)
def _kept_labels(values: Values) -> bytes:
    """Labels of a host hardly change: a column of them is encoded once. Others may come from outside: a model that a
    span names may have as many bytes as the body."""
    if not set(map(type, values)) <= _STR_OR_NULL:
        raise NotPlain
    if sum(map(len, filter(None, values))) > KEPT_LENGTH_MAX:
        raise _TooLongToKeep
    return _encoded_labels(values)


def _encoded_labels(values: Values) -> bytes:
    codes: dict[str | None, int] = {None: 0}
    indexes = bytes([codes.setdefault(word, len(codes)) for word in values])
    words = [b"" if word is None else word.encode() for word in codes]
    dictionary = b"".join(varint(len(word)) + word for word in words)
    return b"".join((_LABELS_HEAD, _u64(len(words)), dictionary, _u64(len(values)), indexes))


def _optional_texts(values: Values) -> bytes:
    if not set(map(type, values)) <= _STR_OR_NULL:
        raise NotPlain
    texts = [b"" if value is None else value.encode() for value in values]
    return bytes([value is None for value in values]) + b"".join(varint(len(text)) + text for text in texts)


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")
