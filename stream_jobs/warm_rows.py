"""Rows of any table, to run a job on tiny input: what is compiled ahead of time must not be waited for later.

numba keeps what it compiled on disk (``NUMBA_CACHE_DIR``); with that in place warming takes well under a second.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.codec import native
from schemas.codec.build import block_from_rows
from schemas.contract.record import Record
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.fields import Field, Kind, Table

MANY = 100
"""Events and values of a row: more than rules ask for before they judge."""


def row_of(fields: Sequence[Field], **given: object) -> dict[str, object]:
    """A row that is accepted; ``given`` are values of columns, those that there are."""
    return {field.name: given[field.name] if field.name in given else _value(field) for field in fields}


def _value(field: Field) -> object:
    if field.kind is Kind.BINS:
        return {0: MANY}
    if field.kind in (Kind.LABEL, Kind.TEXT, Kind.OPTIONAL_TEXT):
        return field.allowed[0] if field.allowed else "warm"
    return MANY if field.high is None else min(MANY, field.high)


def encoded(fields: Sequence[Field], *rows: dict[str, object]) -> bytes:
    """Rows as Native."""
    return native.encode(fields, block_from_rows(fields, rows))


def partials_record(table: Table, topic: str, number: int, at_ms: int, watermark_ms: int, **given: object) -> Record:
    """A record of ``window.partials`` with one row, about partition 0 of a source topic."""
    headers = (
        ("schema", table.schema.encode()),
        ("source-topic", topic.encode()),
        ("source-partition", b"0"),
        ("offsets", b"%d-%d" % (number, number + 1)),
        ("number", b"%d" % number),
        ("watermark", b"%d" % watermark_ms),
    )
    return Record(
        WINDOW_PARTIALS, 0, number, at_ms, None, encoded(table.fields, row_of(table.fields, **given)), headers
    )
