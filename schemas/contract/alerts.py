"""The alert contract: what a record of topic ``alerts`` says. JSON, for machines; one record is the whole state.

The topic is compacted and keyed by ``fingerprint``: reading it gives every alert that is open. An alert stands for one
cause; what else that cause did are its ``members``. ``transition_id`` is ``<fingerprint>-<opened_ms>-<number>`` and
the same whenever the same input is judged again, so it serves as an idempotency key. Times are ms since the epoch,
event time. Schema ``alerts/1``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import orjson

from schemas.errors import RejectedError

SCHEMA = "alerts/1"
TRANSITIONS = ("opened", "updated", "resolved")
SEVERITIES = ("info", "warning", "critical")
_TIME_MS_MAX = 253_402_300_799_000
"""End of the year 9999, the last one of RFC 3339."""
TEXT_CHARACTERS_MAX = 65_536
LABELS_MAX = 64
MEMBERS_MAX = 1_000
"""Far above what the alert job writes; what is beyond was written by somebody else."""
_NUMBER_MAX = 2**31 - 1
_COUNT_MAX = 2**63 - 1
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Member:
    """Something else that the same cause did."""

    rule: str
    severity: str
    labels: Mapping[str, str]
    since_ms: int
    until_ms: int | None
    """None while it goes on."""
    value: float | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """State of an alert after a transition. ``value`` lies outside ``[low, high]`` while it fires, where there is a
    range; all four are of the headline, the likeliest cause among the members seen so far. Once that clears they,
    ``count`` and ``summary`` are those of its worst window."""

    fingerprint: str
    """16 hex digits, of the rule and labels that opened it."""
    transition: str
    number: int
    """Of this transition within the alert: 1 opens it."""
    rule: str
    """Of the headline."""
    severity: str
    """The worst so far."""
    summary: str
    advice: str
    labels: Mapping[str, str]
    opened_ms: int
    """When it was opened: end of the window, or time of the event."""
    since_ms: int
    """When it began."""
    at_ms: int
    """Of this transition."""
    resolved_ms: int | None = None
    value: float | None = None
    baseline: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    count: int = 0
    note: str = ""
    """A likely cause in words."""
    muted_until_ms: int | None = None
    """Nobody is to be woken before this."""
    members: tuple[Member, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """By kind: ``requests``, ``gpu``, ``explained_by``, ``touched``, ``budget``, ``deployment`` (how-to/alerts.md)."""

    @property
    def transition_id(self) -> str:
        """Id of this transition, the same in every run over the same input."""
        return f"{self.fingerprint}-{self.opened_ms}-{self.number}"


def encode(alert: Alert) -> bytes:
    """As JSON with sorted keys: equal alerts give equal bytes. ``OPT_SERIALIZE_NUMPY`` is off: only plain values."""
    value = {"schema": SCHEMA, "transition_id": alert.transition_id, **asdict(alert)}
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def decode(data: bytes) -> Alert:
    """The alert. Fields we do not know are left out. Raises ``RejectedError`` for what is none."""
    try:
        found = orjson.loads(data)
        members = tuple(_known(Member, one) for one in found.pop("members", ()))
        alert: Alert = _known(Alert, {**found, "members": members})
    except (orjson.JSONDecodeError, TypeError, AttributeError) as error:
        raise RejectedError("syntax", f"no alert: {error}") from error
    if alert.transition not in TRANSITIONS:
        raise RejectedError("not_allowed", f"transition {alert.transition!r}, must be one of {', '.join(TRANSITIONS)}")
    return alert


def decode_valid(data: bytes) -> Alert:
    """The alert. Raises ``RejectedError`` for what is none, for one whose fields are of other types or beyond their
    bounds, and for a fingerprint that is not 16 hex digits: it becomes part of a header."""
    alert = decode(data)
    for names, valid, what in _CHECKS:
        for name in names:
            if not valid(getattr(alert, name)):
                raise RejectedError("wrong_type", f"{name} = {getattr(alert, name)!r}, must be {what}"[:200])
    if alert.severity not in SEVERITIES or not _FINGERPRINT.fullmatch(alert.fingerprint):
        raise RejectedError("not_allowed", f"severity {alert.severity!r} of fingerprint {alert.fingerprint!r}"[:200])
    if not _labels(alert.labels) or len(alert.members) > MEMBERS_MAX or not all(_member(m) for m in alert.members):
        raise RejectedError("wrong_type", f"labels must map text to text, at most {LABELS_MAX}, also those of members")
    return alert


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_CHARACTERS_MAX


def _time(value: Any) -> bool:
    return _whole(value) and 0 <= value <= _TIME_MS_MAX


def _maybe_time(value: Any) -> bool:
    return value is None or _time(value)


def _labels(value: Any) -> bool:
    if not isinstance(value, Mapping) or len(value) > LABELS_MAX:
        return False
    return all(_text(x) for pair in value.items() for x in pair)


def _member(member: Any) -> bool:
    texts = (member.rule, member.severity, member.summary)
    times = _time(member.since_ms) and _maybe_time(member.until_ms)
    return times and _labels(member.labels) and all(_text(text) for text in texts)


_CHECKS: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (
        ("fingerprint", "rule", "severity", "summary", "advice", "unit", "note"),
        _text,
        f"text of at most {TEXT_CHARACTERS_MAX} characters",
    ),
    (("number",), lambda value: _whole(value) and 1 <= value <= _NUMBER_MAX, "a whole number from 1"),
    (("count",), lambda value: _whole(value) and 0 <= value <= _COUNT_MAX, "a whole number from 0"),
    (("evidence",), lambda value: isinstance(value, Mapping), "an object"),
    (("opened_ms", "since_ms", "at_ms"), _time, "ms since the epoch"),
    (("resolved_ms", "muted_until_ms"), _maybe_time, "ms since the epoch, or null"),
    (
        ("value", "baseline", "low", "high"),
        lambda value: value is None or isinstance(value, int | float),
        "a number, or null",
    ),
)


def _known(kind: Any, found: Mapping[str, Any]) -> Any:
    names = {one.name for one in fields(kind)}
    return kind(**{name: value for name, value in found.items() if name in names})
