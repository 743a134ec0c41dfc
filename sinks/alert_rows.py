"""Rows of table ``alerts`` from records of topic ``alerts``: one per transition, the whole record as JSON in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.block import Block
from schemas.build import block_from_rows
from schemas.errors import ContractError, RejectedError
from schemas.record import Record
from schemas.tables import ALERT_HISTORY
from sinks.delivery.intake import transition_of

_COLUMNS = tuple(field.name for field in ALERT_HISTORY.fields if field.name != "record")


def block_of(records: Sequence[Record]) -> Block:
    """A row for each record, in order; tombstones must be left out before. Raises ``ContractError`` for a record that
    is no alert: the alert job alone writes there."""
    return block_from_rows(ALERT_HISTORY.fields, [_row(record) for record in records])


def _row(record: Record) -> dict[str, Any]:
    try:
        transition = transition_of(record)
        text = transition.record.decode()
    except (RejectedError, UnicodeDecodeError) as error:
        where = f"{record.topic}[{record.partition}] offset {record.offset}"
        raise ContractError(f"{where} cannot be read as an alert: {error}; who wrote it?") from error
    return {**{name: getattr(transition.alert, name) for name in _COLUMNS}, "record": text}
