"""Rows of table ``alerts`` from records of topic ``alerts``: one per transition, the whole record as JSON in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.codec.block import Block
from schemas.codec.build import block_from_rows
from schemas.contract.record import Record
from schemas.errors import RejectedError
from schemas.rows.tables import ALERT_HISTORY
from sinks.delivery.transition import transition_of

_COLUMNS = tuple(field.name for field in ALERT_HISTORY.fields if field.name != "record")


def block_of(records: Sequence[Record]) -> tuple[Block, list[int]]:
    """A row for each record that is an alert, in order, and which record each row came from; tombstones must be left
    out before. What is no alert is left out: whoever may write to the topic must not be able to stop the sink."""
    found = [(index, row) for index, record in enumerate(records) if (row := _row(record)) is not None]
    return block_from_rows(ALERT_HISTORY.fields, [row for _, row in found]), [index for index, _ in found]


def _row(record: Record) -> dict[str, Any] | None:
    try:
        transition = transition_of(record)
        text = transition.record.decode()
    except (RejectedError, UnicodeDecodeError):
        return None
    return {**{name: getattr(transition.alert, name) for name in _COLUMNS}, "record": text}
