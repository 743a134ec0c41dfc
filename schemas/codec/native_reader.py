"""The tolerant reader of Native blocks: other column orders, other widths, unknown columns, anybody's block.

Nothing is allocated before the buffer was seen to hold it: every count is compared with the bytes that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Bins, Block, Column, Labels, Lists, Numbers, Texts
from schemas.codec.json_text import dumps
from schemas.codec.native_cursor import NUMBER_DTYPES, Cursor, Type, skip, type_of
from schemas.codec.native_fit import fit
from schemas.codec.parsed import Parsed, Problem
from schemas.codec.values import values_of
from schemas.errors import RejectedError
from schemas.fields import Field, Kind

COLUMNS_MAX = 4_096
"""More columns than this in one block are taken for nonsense (syntax)."""
TYPE_BYTES_MAX = 1_024
"""Likewise a longer type of a column; ours have up to 39. Types that were read are remembered."""


def parse(data: bytes, fields: Sequence[Field], rows_max: int | None = None) -> Parsed:
    """The block, with the rows whose values do not fit.

    Raises ``RejectedError``: syntax; too_many (rows above ``rows_max``); missing_field and wrong_type where a whole
    column is missing or of a type that does not fit.
    """
    cursor = Cursor(data)
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
        fitted[field.name] = _absent(field, rows) if column is None else fit(field, index, column, problems)
    return Parsed(Block(rows, fitted), problems, _shower(found))


def _read_columns(cursor: Cursor, columns: int, rows: int, by_name: dict[str, Field]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for _ in range(columns):
        name = cursor.text().decode("utf-8", "replace")
        sent = cursor.text()
        if len(sent) > TYPE_BYTES_MAX:
            raise RejectedError("syntax", f"a column's type has {len(sent)} bytes; at most {TYPE_BYTES_MAX}")
        kind = sent.decode("utf-8", "replace")
        field = by_name.get(name)
        if field is None:
            skip(cursor, kind, rows, 0)
            continue
        if name in found:
            raise RejectedError("syntax", f"column {name} is there twice")
        found[name] = _read(cursor, field, kind, rows)
    return found


def _read(cursor: Cursor, field: Field, kind: str, rows: int) -> Column:
    node = type_of(kind)
    column: Column | None = None
    if field.kind.item is not None:
        if node.name == "Array" and len(node.arguments) == 1:
            column = _read_lists(cursor, field.kind.item, node.arguments[0], rows)
    elif field.kind is Kind.BINS:
        if node.name == "Map" and len(node.arguments) == 2:
            column = _read_bins(cursor, node, rows)
    elif field.kind in (Kind.LABEL, Kind.TEXT, Kind.OPTIONAL_TEXT):
        column = _read_strings(cursor, node, rows)
    else:
        column = _read_numbers(cursor, node, rows)
    if column is None:
        raise RejectedError("wrong_type", f"{field.name} has type {kind[:80]}, must be {field.kind.value}")
    return column


def _read_numbers(cursor: Cursor, node: Type, rows: int) -> Numbers | None:
    known = None
    if node.name == "Nullable" and len(node.arguments) == 1:
        node = type_of(node.arguments[0])
        if node.name in NUMBER_DTYPES:
            known = cursor.array("<u1", rows) == 0
    if node.name not in NUMBER_DTYPES:
        return None
    return Numbers(cursor.array(NUMBER_DTYPES[node.name], rows), known)


def _read_strings(cursor: Cursor, node: Type, rows: int) -> Labels | Texts | None:
    if node.name == "LowCardinality" and node.arguments in (("String",), ("Nullable(String)",)):
        return _read_dictionary(cursor, rows, node.arguments[0] != "String")
    if node == Type("Nullable", ("String",)):
        known = cursor.array("<u1", rows) == 0
        return _read_texts(cursor, rows, known)
    return _read_texts(cursor, rows, None) if node == Type("String", ()) else None


def _read_texts(cursor: Cursor, rows: int, known: npt.NDArray[np.bool_] | None) -> Texts:
    texts = [cursor.text() for _ in range(rows)]
    if known is not None:
        texts = [text if is_known else b"" for text, is_known in zip(texts, known.tolist(), strict=True)]
    ends = np.cumsum(np.array([len(text) for text in texts], dtype=np.int64), dtype=np.int64)
    return Texts(b"".join(texts), ends, known)


def _read_dictionary(cursor: Cursor, rows: int, nullable: bool) -> Labels:
    """Labels whose word 0 is null; entry 0 of a dictionary without nulls is a word like any other."""
    if rows:
        cursor.dictionary_version()
    return _read_words(cursor, rows, nullable)


def _read_words(cursor: Cursor, rows: int, nullable: bool) -> Labels:
    if not rows:
        return Labels(np.empty(0, dtype=np.int32), [None])
    words, codes = cursor.dictionary(rows)
    if nullable:
        return _distinct(codes.astype(np.int32), [None, *words[1:]])
    return _distinct(codes.astype(np.int32) + np.int32(1), [None, *words])


def _distinct(codes: npt.NDArray[np.int32], words: list[bytes | None]) -> Labels:
    if len(set(words)) == len(words):
        return Labels(codes, words)
    places: dict[bytes | None, int] = {}
    remap = np.array([places.setdefault(word, len(places)) for word in words], dtype=np.int32)
    return Labels(remap[codes], list(places))


def _read_lists(cursor: Cursor, item: Kind, kind: str, rows: int) -> Lists | None:
    node, no_rows = type_of(kind), np.empty(0, dtype=np.int64)
    if item is not Kind.LABEL:
        ends, total = cursor.ends(rows) if rows else (no_rows, 0)
        numbers = _read_numbers(cursor, node, total)
        return None if numbers is None else Lists(ends, numbers)
    if node.name != "LowCardinality" or node.arguments not in (("String",), ("Nullable(String)",)):
        return None
    nullable = node.arguments[0] != "String"
    if not rows:
        return Lists(no_rows, _read_dictionary(cursor, 0, nullable))
    cursor.dictionary_version()
    ends, total = cursor.ends(rows)
    return Lists(ends, _read_words(cursor, total, nullable))


def _read_bins(cursor: Cursor, node: Type, rows: int) -> Bins | None:
    if any(argument not in NUMBER_DTYPES or argument.startswith("Float") for argument in node.arguments):
        return None
    ends, total = cursor.ends(rows)
    keys = cursor.array(NUMBER_DTYPES[node.arguments[0]], total)
    return Bins(ends, keys, cursor.array(NUMBER_DTYPES[node.arguments[1]], total))


def _absent(field: Field, rows: int) -> Column:
    if field.kind is Kind.LABEL:
        if field.required and rows:
            raise RejectedError("missing_field", f"column {field.name} is missing")
        return Labels(np.zeros(rows, dtype=np.int32), [None])
    if field.kind is Kind.BINS:
        return Bins(np.zeros(rows, dtype=np.int64), np.empty(0, dtype=np.int16), np.empty(0, dtype=np.uint64))
    if field.kind.item is not None:
        none = Labels(np.empty(0, np.int32), [None]) if field.kind.item is Kind.LABEL else Numbers(np.empty(0, "<i8"))
        return Lists(np.zeros(rows, dtype=np.int64), none)
    if rows and (field.required or not field.kind.optional) and not field.may_be_absent:
        raise RejectedError("missing_field", f"column {field.name} is missing")
    known = np.zeros(rows, dtype=bool) if field.kind.optional and rows else None
    if field.kind in (Kind.TEXT, Kind.OPTIONAL_TEXT):
        return Texts(b"", np.zeros(rows, dtype=np.int64), known)
    return Numbers(np.zeros(rows, dtype=field.kind.numpy), known)


def _shower(found: dict[str, Column]) -> Callable[[int], bytes]:
    """A function from row to the event as JSON, as it was sent (values that did not fit included)."""
    shown: dict[str, list[Any]] = {}

    def event_json(row: int) -> bytes:
        if not shown:
            shown.update({name: values_of(column) for name, column in found.items()})
        return dumps({name: values[row] for name, values in shown.items()})

    return event_json
