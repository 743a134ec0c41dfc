"""From a record of topic ``alerts`` to a transition; what is of the wrong form is refused here and nowhere later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.alerts import SEVERITIES, decode
from schemas.errors import RejectedError
from schemas.record import Record
from sinks.delivery.backlog import Transition

_TIME_MS_MAX = 253_402_300_799_000
"""End of the year 9999: what RFC 3339 can say."""
_TEXTS = ("fingerprint", "rule", "severity", "summary", "advice", "unit", "note")
_TIMES = ("opened_ms", "since_ms", "at_ms")
_MAYBE_TIMES = ("resolved_ms", "muted_until_ms")
_MAYBE_NUMBERS = ("value", "baseline", "low", "high")


def transition_of(record: Record) -> Transition:
    """The transition. Raises ``RejectedError`` for a value that is no alert, or one whose fields are of other types."""
    value = record.value or b""
    alert = decode(value)
    for names, good, what in _CHECKS:
        for name in names:
            if not good(getattr(alert, name)):
                raise RejectedError("wrong_type", f"{name} = {getattr(alert, name)!r}, must be {what}"[:200])
    if alert.severity not in SEVERITIES or not alert.fingerprint:
        raise RejectedError("not_allowed", f"severity {alert.severity!r} of fingerprint {alert.fingerprint!r}"[:200])
    if not _labels(alert.labels) or not all(_member(one) for one in alert.members):
        raise RejectedError("wrong_type", "labels must map text to text, also those of members")
    return Transition(alert, value, record.partition, record.offset, record.timestamp_ms)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _time(value: Any) -> bool:
    return _whole(value) and 0 <= value <= _TIME_MS_MAX


def _labels(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(x, str) for pair in value.items() for x in pair)


def _member(member: Any) -> bool:
    texts = (member.rule, member.severity, member.summary)
    return _labels(member.labels) and all(isinstance(text, str) for text in texts)


_CHECKS: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (_TEXTS, lambda value: isinstance(value, str), "text"),
    (("number",), _whole, "a whole number"),
    (_TIMES, _time, "ms since the epoch"),
    (_MAYBE_TIMES, lambda value: value is None or _time(value), "ms since the epoch, or null"),
    (_MAYBE_NUMBERS, lambda value: value is None or isinstance(value, int | float), "a number, or null"),
)


def tells_to_forget(record: Record) -> str | None:
    """The fingerprint that a tombstone takes from the topic; None for any other record."""
    return None if record.value or record.key is None else record.key.decode("utf-8", "replace")
