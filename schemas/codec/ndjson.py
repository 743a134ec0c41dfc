"""One JSON object per line (ClickHouse JSONEachRow): for anyone with a JSON library.

A broken line costs its own event only. Empty lines are skipped; unknown names are ignored; of a name that stands
twice in an object the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

import orjson

from schemas.codec.block import Block, Column
from schemas.codec.build import rows_of
from schemas.codec.json_text import loads
from schemas.codec.parsed import Parsed, Problem
from schemas.codec.values import column_of, shown
from schemas.errors import RejectedError
from schemas.fields import Field

_LINE = re.compile(rb"\S[^\n]*")
_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS


def encode(fields: Sequence[Field], block: Block) -> bytes:
    """The block as lines of JSON; nulls are written out. Bytes that are no UTF-8 are replaced."""
    return b"".join(orjson.dumps(row, option=_OPTIONS) for row in rows_of(fields, block))


def decode(data: bytes, fields: Sequence[Field]) -> Block:
    """The block in these lines. Raises ``RejectedError`` with the first thing that is wrong in any of them."""
    return parse(data, fields).sound()


def lines_of(data: bytes, rows_max: int | None = None) -> list[bytes]:
    """The lines that are not blank. Raises ``RejectedError('too_many')`` above ``rows_max`` of them."""
    matches = _LINE.finditer(data)
    lines = [match[0] for match in (matches if rows_max is None else islice(matches, rows_max + 1))]
    if rows_max is not None and len(lines) > rows_max:
        raise RejectedError("too_many", f"more than {rows_max} events in one batch")
    return lines


def parse(data: bytes, fields: Sequence[Field], rows_max: int | None = None) -> Parsed:
    """The block and what is wrong with single lines. Raises ``RejectedError('too_many')`` above ``rows_max`` lines."""
    lines = lines_of(data, rows_max)
    problems: list[Problem] = []
    rows = [_row(number, line, problems) for number, line in enumerate(lines)]
    broken = {problem.row for problem in problems}
    columns: dict[str, Column] = {}
    for index, field in enumerate(fields):
        column, unfit = column_of(field, index, [row.get(field.name) for row in rows])
        columns[field.name] = column
        problems += [problem for problem in unfit if problem.row not in broken] if broken else unfit
    return Parsed(Block(len(lines), columns), problems, lines.__getitem__)


def _row(number: int, line: bytes, problems: list[Problem]) -> dict[str, Any]:
    try:
        row = loads(line)
    except RejectedError as error:
        problems.append(Problem(number, -1, "syntax", error.detail))
        return {}
    if isinstance(row, dict):
        return row
    problems.append(Problem(number, -1, "wrong_type", f"{shown(row)}: must be a JSON object"))
    return {}
