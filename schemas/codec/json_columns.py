"""One JSON object of columns (ClickHouse JSONColumns): ``{"at_ms": [1, 2], "host": ["a", "b"]}``.

For scripts that care about speed. Unknown columns are ignored; a missing column is null in every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from schemas.codec.block import Block, Column
from schemas.codec.json_text import dumps, loads
from schemas.codec.parsed import Parsed, Problem
from schemas.codec.values import column_of, shown, values_of
from schemas.errors import RejectedError
from schemas.fields import Field


def encode(fields: Sequence[Field], block: Block) -> bytes:
    """The block as one JSON object of columns. Bytes that are no UTF-8 are replaced."""
    columns = {field.name: values_of(block.columns[field.name]) for field in fields}
    return orjson.dumps(columns, option=orjson.OPT_NON_STR_KEYS)


def decode(data: bytes, fields: Sequence[Field]) -> Block:
    """The block in this object. Raises ``RejectedError`` with the first thing that is wrong."""
    return parse(data, fields).sound()


def parse(data: bytes, fields: Sequence[Field], rows_max: int | None = None) -> Parsed:
    """The block and what is wrong with single rows.

    Raises ``RejectedError``: syntax, wrong_type (no object of arrays), column_lengths, too_many (above ``rows_max``).
    """
    found = _arrays(loads(data), {field.name for field in fields})
    lengths = {name: len(values) for name, values in found.items()}
    if len(set(lengths.values())) > 1:
        raise RejectedError("column_lengths", ", ".join(f"{name} has {n}" for name, n in lengths.items())[:500])
    rows = next(iter(lengths.values()), 0)
    if rows_max is not None and rows > rows_max:
        raise RejectedError("too_many", f"{rows} events; at most {rows_max} in one batch")
    problems: list[Problem] = []
    columns: dict[str, Column] = {}
    for index, field in enumerate(fields):
        columns[field.name], unfit = column_of(field, index, found.get(field.name) or [None] * rows)
        problems += unfit

    def event_json(row: int) -> bytes:
        return dumps({name: values[row] for name, values in found.items()})

    return Parsed(Block(rows, columns), problems, event_json)


def _arrays(value: Any, names: set[str]) -> dict[str, list[Any]]:
    if not isinstance(value, dict):
        raise RejectedError("wrong_type", f"{shown(value)}: must be a JSON object of arrays")
    found = {name: values for name, values in value.items() if name in names}
    for name, values in found.items():
        if not isinstance(values, list):
            raise RejectedError("wrong_type", f"{name} = {shown(values)}: must be an array")
    return found
