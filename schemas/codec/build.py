"""Blocks from rows and rows from blocks, for places where a row is handled at a time: tests, command line, details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.codec.block import Block, Column
from schemas.codec.values import column_of, values_of
from schemas.errors import RejectedError
from schemas.fields import Field


def block_from_rows(fields: Sequence[Field], rows: Sequence[Mapping[str, Any]]) -> Block:
    """A block with one column per field, in their order. A name that a row lacks is null; other names are ignored.

    Raises ``RejectedError`` for a value that does not fit its field's kind; bounds and closed sets are not judged.
    """
    columns: dict[str, Column] = {}
    for index, field in enumerate(fields):
        column, problems = column_of(field, index, [row.get(field.name) for row in rows])
        if problems:
            raise RejectedError(problems[0].reason, f"row {problems[0].row}: {problems[0].detail}")
        columns[field.name] = column
    return Block(len(rows), columns)


def rows_of(fields: Sequence[Field], block: Block) -> list[dict[str, Any]]:
    """The rows as dictionaries of int, str, None and, for sketches, maps of bin index to count.

    Fields that the block has no column for are left out.
    """
    names = [field.name for field in fields if field.name in block.columns]
    columns = [values_of(block.columns[name]) for name in names]
    if not columns:
        return [{} for _ in range(block.rows)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
