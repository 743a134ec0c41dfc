"""Rows of tables ``alerts`` and ``actions`` from topics whose records are JSON, a row each with the whole record in it.

What is no alert or command is left out: whoever may write to the topic must not be able to stop the sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.codec.block import Block
from schemas.codec.build import block_from_rows
from schemas.contract import alert_commands
from schemas.contract.alert_commands import Command
from schemas.contract.record import Record
from schemas.errors import RejectedError
from schemas.rows.tables import ACTIONS, ALERT_HISTORY, Table
from sinks.delivery.transition import transition_of

_COLUMNS = tuple(field.name for field in ALERT_HISTORY.fields if field.name != "record")


ACTION_OF = {"mute": "silence", "unmute": "unsilence", "ran": "run"}
_MS_MAX = 2**53


def block_of(table: Table, records: Sequence[Record]) -> tuple[Block, list[int]]:
    """A row of ``table``, one of the two, for each record that is one, in order, and which record each row came from;
    tombstones must be left out before."""
    row_of = _action if table is ACTIONS else _transition
    found = [(index, row) for index, record in enumerate(records) if (row := row_of(record)) is not None]
    return block_from_rows(table.fields, [row for _, row in found]), [index for index, _ in found]


def _action(record: Record) -> dict[str, Any] | None:
    try:
        value = record.value or b""
        command = alert_commands.decode(value)
        text = value.decode()
    except (RejectedError, UnicodeDecodeError):
        return None
    if command.until_ms > _MS_MAX:
        return None
    ran = command.command == "ran"
    return {
        "at_ms": record.timestamp_ms,
        "action": ACTION_OF[command.command],
        "done_by": command.by,
        "about": command.reason if ran else _labels(command),
        "reason": "" if ran else command.reason,
        "until_ms": command.until_ms if command.command == "mute" else None,
        "action_id": command.id,
        "record": text,
    }


def _labels(command: Command) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(command.labels.items()))


def _transition(record: Record) -> dict[str, Any] | None:
    try:
        transition = transition_of(record)
        text = transition.record.decode()
    except (RejectedError, UnicodeDecodeError):
        return None
    return {**{name: getattr(transition.alert, name) for name in _COLUMNS}, "record": text}
