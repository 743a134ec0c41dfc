"""A transition of an alert, read from a record of topic ``alerts``. Malformed records are rejected here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.contract.alerts import SEVERITIES, Alert, decode
from schemas.contract.record import Record
from schemas.errors import RejectedError

_TIME_MS_MAX = 253_402_300_799_000
"""End of the year 9999, the last one of RFC 3339."""
RECORD_BYTES_MAX = 1_048_576
TEXT_CHARACTERS_MAX = 65_536
LABELS_MAX = 64
MEMBERS_MAX = 1_000
"""Far above what the alert job writes; what is beyond was written by somebody else."""
_NUMBER_MAX = 2**31 - 1
_COUNT_MAX = 2**63 - 1
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_TEXTS = ("fingerprint", "rule", "severity", "summary", "advice", "unit", "note")
_TIMES = ("opened_ms", "since_ms", "at_ms")
_MAYBE_TIMES = ("resolved_ms", "muted_until_ms")
_MAYBE_NUMBERS = ("value", "baseline", "low", "high")


@dataclass(frozen=True, slots=True)
class Transition:
    """A record of topic ``alerts``: the alert in it, its bytes, its offset, when it was appended."""

    alert: Alert
    record: bytes
    partition: int
    offset: int
    appended_ms: int

    @property
    def resolved(self) -> bool:
        return self.alert.transition == "resolved"


def transition_of(record: Record) -> Transition:
    """The transition. Raises ``RejectedError`` for a value that is no alert, one whose fields are of other types or
    beyond their bounds, and a fingerprint that is not 16 hex digits: it becomes part of a header."""
    value = record.value or b""
    if len(value) > RECORD_BYTES_MAX:
        raise RejectedError("too_long", f"{len(value)} bytes, at most {RECORD_BYTES_MAX}")
    alert = decode(value)
    for names, valid, what in _CHECKS:
        for name in names:
            if not valid(getattr(alert, name)):
                raise RejectedError("wrong_type", f"{name} = {getattr(alert, name)!r}, must be {what}"[:200])
    if alert.severity not in SEVERITIES or not _FINGERPRINT.fullmatch(alert.fingerprint):
        raise RejectedError("not_allowed", f"severity {alert.severity!r} of fingerprint {alert.fingerprint!r}"[:200])
    if not _labels(alert.labels) or len(alert.members) > MEMBERS_MAX or not all(_member(m) for m in alert.members):
        raise RejectedError("wrong_type", f"labels must map text to text, at most {LABELS_MAX}, also those of members")
    return Transition(alert, value, record.partition, record.offset, record.timestamp_ms)


def deleted_fingerprint(record: Record) -> str | None:
    """The fingerprint that a tombstone deletes from the topic; None for any other record."""
    return None if record.value or record.key is None else record.key.decode("utf-8", "replace")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_CHARACTERS_MAX


def _time(value: Any) -> bool:
    return _whole(value) and 0 <= value <= _TIME_MS_MAX


def _labels(value: Any) -> bool:
    if not isinstance(value, Mapping) or len(value) > LABELS_MAX:
        return False
    return all(_text(x) for pair in value.items() for x in pair)


def _member(member: Any) -> bool:
    texts = (member.rule, member.severity, member.summary)
    return _labels(member.labels) and all(_text(text) for text in texts)


_CHECKS: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (_TEXTS, _text, f"text of at most {TEXT_CHARACTERS_MAX} characters"),
    (("number",), lambda value: _whole(value) and 1 <= value <= _NUMBER_MAX, "a whole number from 1"),
    (("count",), lambda value: _whole(value) and 0 <= value <= _COUNT_MAX, "a whole number from 0"),
    (("evidence",), lambda value: isinstance(value, Mapping), "an object"),
    (_TIMES, _time, "ms since the epoch"),
    (_MAYBE_TIMES, lambda value: value is None or _time(value), "ms since the epoch, or null"),
    (_MAYBE_NUMBERS, lambda value: value is None or isinstance(value, int | float), "a number, or null"),
)
