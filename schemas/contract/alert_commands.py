"""Commands of people to the alert job: a record of topic ``alert.commands``, as JSON. Schema ``alert.commands/1``.

``mute`` keeps alerts whose labels agree from waking anybody until ``until_ms``; they live and are recorded all the
same. ``unmute`` ends a mute before its time. Besides the labels of an alert (dimensions such as ``host``, ``model`` or
``gpu_uuid``; of GPU events ``kind`` and ``code``; of budgets ``budget`` and ``team``) ``rule``, ``severity`` and
``fingerprint`` may be named; no label at all means every alert.

``ran`` does nothing: it says that a person runs what changes stored results (``reason`` is the command line), and is
written before that begins. The topic is the audit of what people do: append-only, kept for ever, the time of every
record the broker's. Jobs of 0.1.0 reject ``ran`` and go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from schemas.contract.recurrence import spans_of, zone_of
from schemas.errors import RejectedError
from schemas.fields import Role
from schemas.limits import DAY_MS
from schemas.rows.tables import PARTIALS

SCHEMA = "alert.commands/1"
COMMANDS = ("mute", "unmute", "ran")
MUTE_MS_MAX = 90 * DAY_MS
"""Longest time from a mute's beginning to its end: nobody remembers a mute for ever."""
RECURRING_MS_MAX = 366 * DAY_MS
"""The same of one that comes again; what is to last is written in the file of rules."""
AHEAD_MS_MAX = 90 * DAY_MS
"""How long before it begins a silence may be sent."""
LABELS_MAX = 16
LABEL_BYTES_MAX = 256
TEXT_CHARS_MAX = 256
NAMES = frozenset(one.name for table in PARTIALS.values() for one in table.fields if one.role is Role.DIMENSION) - {
    "grouping"
} | {"rule", "severity", "fingerprint", "kind", "code", "budget", "team"}
"""What a mute's labels may be called: what an alert can have."""


@dataclass(frozen=True, slots=True)
class Command:
    """``id`` names the mute. Times are ms since the epoch; ``from_ms`` may lie ahead (planned maintenance). ``every``:
    between them it is in force only in these spans of the week (``recurrence``), on the clock of ``zone``."""

    command: str
    id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    from_ms: int = 0
    until_ms: int = 0
    reason: str = ""
    by: str = ""
    every: str = ""
    zone: str = "UTC"


def encode(command: Command) -> bytes:
    """As JSON with sorted keys."""
    return orjson.dumps({"schema": SCHEMA, **plain(command)}, option=orjson.OPT_SORT_KEYS)


def plain(command: Command) -> dict[str, Any]:
    """As plain values. One that does not come again has the fields that it had in 0.1.0, whose jobs may read it."""
    found = asdict(command)
    if not command.every:
        del found["every"], found["zone"]
    return found


def decode(data: bytes) -> Command:
    """The command, checked. Fields we do not know are left out. Raises ``RejectedError`` for what is none."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RejectedError("syntax", f"no command: {error}") from error
    if not isinstance(found, dict):
        raise RejectedError("syntax", "a command is a JSON object")
    if found.get("command") not in COMMANDS:
        raise RejectedError("not_allowed", f"command {found.get('command')!r}, must be one of {', '.join(COMMANDS)}")
    texts = {name: _text(found, name) for name in ("command", "id", "reason", "by", "every")}
    if not texts["id"]:
        raise RejectedError("missing_field", "id is missing")
    from_ms, until_ms = _time(found, "from_ms"), _time(found, "until_ms")
    zone = _text(found, "zone") or "UTC"
    command = Command(**texts, labels=_labels(found), from_ms=from_ms, until_ms=until_ms, zone=zone)
    most_ms = RECURRING_MS_MAX if command.every else MUTE_MS_MAX
    if command.command == "mute" and not 0 < command.until_ms - command.from_ms <= most_ms:
        raise RejectedError("out_of_range", f"a mute ends after it begins, {most_ms // DAY_MS} days at most")
    if command.every:
        _check_recurrence(command)
    return command


def _check_recurrence(command: Command) -> None:
    try:
        spans_of(command.every)
        zone_of(command.zone)
    except ValueError as error:
        raise RejectedError("not_allowed", f"every {command.every!r}, zone {command.zone!r}: {error}") from error


def _text(found: Mapping[str, object], name: str) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise RejectedError("wrong_type", f"{name} must be a text")
    if len(value) > TEXT_CHARS_MAX:
        raise RejectedError("too_long", f"{name} has {len(value)} characters; at most {TEXT_CHARS_MAX}")
    return value


def _labels(found: Mapping[str, object]) -> dict[str, str]:
    labels = found.get("labels", {})
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise RejectedError("wrong_type", "labels must be an object of texts")
    if len(labels) > LABELS_MAX:
        raise RejectedError("too_many", f"{len(labels)} labels; at most {LABELS_MAX}")
    for name, value in labels.items():
        if name not in NAMES:
            raise RejectedError("not_allowed", f"label {name[:TEXT_CHARS_MAX]!r}, which no alert has")
        if len(value.encode()) > LABEL_BYTES_MAX:
            raise RejectedError("too_long", f"label {name} has {len(value.encode())} bytes; at most {LABEL_BYTES_MAX}")
    return labels


def check_begin(command: Command, now_ms: int) -> None:
    """Raises ``RejectedError`` for a mute that begins further ahead of now than anybody plans."""
    if command.command == "mute" and command.from_ms > now_ms + AHEAD_MS_MAX:
        raise RejectedError("out_of_range", f"a mute begins within {AHEAD_MS_MAX // DAY_MS} days")


def _time(found: Mapping[str, object], name: str) -> int:
    value = found.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RejectedError("wrong_type", f"{name} must be ms since the epoch")
    return value
