"""An alert in words: what every shape shows people, in one place.

Labels come from whoever sends telemetry. What is shown of them, and of texts they stand in, is one line of printable
characters: no label begins a line of its own, turns the direction of writing or speaks to a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from schemas.alerts import Alert, Member

MEMBERS_SHOWN_MAX = 20
_SOURCES = ("gpu_uuid", "engine_id", "placement_group", "host", "model", "tenant", "cluster")
"""Labels that say where, the narrowest first."""


def time_text(at_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def number_text(value: float | None, unit: str = "") -> str | None:
    """A value with its unit, six digits; None when unknown."""
    return None if value is None else f"{value:.6g} {plain(unit)}".strip()


def range_text(alert: Alert) -> str | None:
    """The range expected; None where there is none."""
    low, high = number_text(alert.low, alert.unit), number_text(alert.high, alert.unit)
    if low is not None and high is not None:
        return f"{low} to {high}"
    if high is not None:
        return f"up to {high}"
    return None if low is None else f"{low} or more"


def plain(text: str) -> str:
    """The text as one line: white space of any kind as a space, other characters that do not print as U+FFFD."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def summary_of(alert: Alert) -> str:
    """Its sentence; without one the rule stands for it."""
    return plain(alert.summary or alert.rule)


def labels_text(labels: Mapping[str, str]) -> str:
    """``name=value`` pairs by name."""
    return plain(", ".join(f"{name}={value}" for name, value in sorted(labels.items())))


def members_text(members: tuple[Member, ...]) -> str | None:
    """A line for each of the first members and one for how many there are beyond; None without any."""
    lines = [_member_text(member) for member in members[:MEMBERS_SHOWN_MAX]]
    if len(members) > MEMBERS_SHOWN_MAX:
        lines.append(f"and {len(members) - MEMBERS_SHOWN_MAX} more")
    return "\n".join(lines) or None


def _member_text(member: Member) -> str:
    state = "over" if member.until_ms is not None else member.severity
    return f"[{state}] {plain(member.summary or member.rule)} ({labels_text(member.labels)})"


def source_of(alert: Alert) -> str:
    """Where it is: the narrowest label that says so; ``fleet`` without one."""
    return plain(next((alert.labels[name] for name in _SOURCES if alert.labels.get(name)), "fleet"))


def facts_of(alert: Alert) -> dict[str, str]:
    """What is known beyond summary and labels, by name, in order; ``members`` alone has several lines."""
    facts = {
        "value": number_text(alert.value, alert.unit),
        "expected": range_text(alert),
        "baseline": number_text(alert.baseline, alert.unit),
        "advice": plain(alert.advice),
        "note": plain(alert.note),
        "members": members_text(alert.members),
    }
    return {name: text for name, text in facts.items() if text}


def cut(text: str, characters_max: int) -> str:
    """At most so many characters, the last one an ellipsis where it was longer."""
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"
