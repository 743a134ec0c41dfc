"""What stands in a rule file beside rules: mutes, service classes, GPU events. Mistakes are collected."""

from __future__ import annotations

from datetime import UTC, datetime

from schemas.alert_commands import LABELS_MAX, MUTE_MS_MAX, TEXT_CHARS_MAX, Command
from schemas.alerts import SEVERITIES
from schemas.event_fields import GPU_EVENT_KINDS, HOUR_US
from schemas.event_fields import SEVERITIES as TOLD
from schemas.limits import DAY_MS, MINUTE_MS, WINDOW_MS
from stream_jobs.rules import vocabulary
from stream_jobs.rules.ruleset import GpuEvent, SloClass
from stream_jobs.rules.scalars import duration_ms
from stream_jobs.rules.units import level
from stream_jobs.yaml_files.nodes import Node, Scalar, Table
from stream_jobs.yaml_files.problems import Problems, WrongError, nearest, quoted
from stream_jobs.yaml_files.scalars import choice, known_keys, listing, sentence, table, whole, word

ENTRIES_MAX = 1_000
LATENCIES = {"ttft": "ttft_us", "tpot": "tpot_us", "e2e": "e2e_us"}
"""Objectives of a service class and the columns they bound."""
MUTE_LABELS = tuple(
    dict.fromkeys(
        [
            *(name for topic in vocabulary.TOPICS for name in vocabulary.dimensions(topic)),
            "rule",
            "severity",
            "fingerprint",
            "budget",
            "team",
        ]
    )
)
_LASTS_MS = 30 * MINUTE_MS
_CODE_MAX = 100_000


def entries(node: Node | None, what: str, told: Problems) -> list[Table]:
    """The mappings of a list."""
    found: list[Table] = []
    if node is None or (isinstance(node, Scalar) and node.null):
        return found
    with told.collected():
        items = listing(node, what)
        if len(items) > ENTRIES_MAX:
            raise WrongError(node.at, f"{what}: at most {ENTRIES_MAX} entries")
        for item in items:
            with told.collected():
                found.append(table(item, f"an entry of {what}"))
    return found


def mutes_of(node: Node | None, told: Problems) -> tuple[Command, ...]:
    """``- {labels: {host: gpu-007}, until: 2026-12-01T06:00:00Z, reason: new fans}``."""
    found = []
    for number, entry in enumerate(entries(node, "mutes", told), 1):
        with told.collected():
            found.append(_mute(entry, number))
    return tuple(found)


def _mute(node: Table, number: int) -> Command:
    _only(node, "a mute", ("labels", "from", "until", "reason"))
    labels = _labels(_there(node, "labels"))
    until_ms = _moment(_there(node, "until"), "until")
    begin = node.get("from")
    from_ms = max(0, until_ms - MUTE_MS_MAX) if begin is None else _moment(begin, "from")
    if not 0 < until_ms - from_ms <= MUTE_MS_MAX:
        raise WrongError(node.at, f"a mute must end after it begins, {MUTE_MS_MAX // DAY_MS} days later at most")
    reason = sentence(_there(node, "reason"), "reason")[:TEXT_CHARS_MAX]
    return Command("mute", f"rules-{number}", labels, from_ms, until_ms, reason, "rules")


def _labels(node: Node) -> dict[str, str]:
    pairs = table(node, "labels").pairs
    if not 1 <= len(pairs) <= LABELS_MAX:
        raise WrongError(node.at, f"a mute needs 1 to {LABELS_MAX} labels")
    for key, _ in pairs:
        if key.text not in MUTE_LABELS:
            raise WrongError(key.at, f"label {quoted(key.text)} is not known; {nearest(key.text, MUTE_LABELS)}")
    return {key.text: word(value, key.text)[:TEXT_CHARS_MAX] for key, value in pairs}


def _moment(node: Node, what: str) -> int:
    """Ms since the epoch of an ISO time with its zone."""
    text = word(node, what)
    said = f"{what} = {quoted(text)} must be a time with its zone, such as 2026-12-01T06:00:00Z"
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise WrongError(node.at, said)
        return max(0, round(found.astimezone(UTC).timestamp() * 1_000))
    except (ValueError, OverflowError):
        raise WrongError(node.at, said) from None


def slo_classes_of(node: Node | None, told: Problems) -> tuple[SloClass, ...]:
    """``interactive: {ttft: 800ms, tpot: 60ms, share: 99%}`` by class."""
    found = []
    if node is None or (isinstance(node, Scalar) and node.null):
        return ()
    with told.collected():
        for key, value in table(node, "slo_classes").pairs:
            with told.collected():
                found.append(_slo_class(key, table(value, f"slo class {quoted(key.text)}")))
    return tuple(found[:ENTRIES_MAX])


def _slo_class(key: Scalar, node: Table) -> SloClass:
    _only(node, f"slo class {quoted(key.text)}", (*LATENCIES, "share"))
    given = {name: node.get(name) for name in LATENCIES}
    limits = {f"{name}_us": None if value is None else _latency(value, name) for name, value in given.items()}
    if not any(limits.values()):
        raise WrongError(node.at, f"slo class {quoted(key.text)} needs an objective: {', '.join(LATENCIES)}")
    share_node = _there(node, "share")
    share = level(word(share_node, "share"), "share")
    if share is None or not 0.5 <= share < 1:
        raise WrongError(share_node.at, "share must be at least 50% and below 100%, such as 99%")
    return SloClass(word(key, "slo class")[:TEXT_CHARS_MAX], share, **limits)


def _latency(node: Node, what: str) -> int:
    text = word(node, what)
    found = level(text, "us")
    if found is None or not 0 < found <= HOUR_US or found != int(found):
        raise WrongError(node.at, f"{what} = {quoted(text)} must be a time with a unit above 0: 800ms, 2s")
    return int(found)


_EVENT_KEYS = ("kind", "code", "told", "severity", "advice", "ended_by", "lasts")


def gpu_events_of(node: Node | None, told: Problems) -> tuple[GpuEvent, ...]:
    """``- {kind: xid, code: [79], severity: critical, advice: ..., lasts: 30m}``; the first that covers counts."""
    found = []
    for entry in entries(node, "gpu_events", told):
        with told.collected():
            found.append(_gpu_event(entry))
    return tuple(found)


def _gpu_event(node: Table) -> GpuEvent:
    _only(node, "a gpu event", _EVENT_KEYS)
    severity = choice(_there(node, "severity"), "severity", (*SEVERITIES, "none"))
    lasts, advice, code = node.get("lasts"), node.get("advice"), node.get("code")
    _there(node, "kind")
    return GpuEvent(
        kinds=_choices(node, "kind", GPU_EVENT_KINDS),
        codes=tuple(whole(one, "code", 0, _CODE_MAX) for one in listing(code, "code")) if code is not None else (),
        told=_choices(node, "told", TOLD),
        severity=None if severity == "none" else severity,
        advice="" if advice is None else sentence(advice, "advice"),
        ended_by=_choices(node, "ended_by", GPU_EVENT_KINDS),
        lasts_ms=_LASTS_MS if lasts is None else duration_ms(lasts, "lasts", WINDOW_MS, 30 * DAY_MS),
    )


def _choices(node: Table, key: str, names: tuple[str, ...]) -> tuple[str, ...]:
    given = node.get(key)
    return () if given is None else tuple(choice(one, key, names) for one in listing(given, key))


def _only(node: Table, what: str, keys: tuple[str, ...]) -> None:
    for wrong in known_keys(node, what, keys):
        raise wrong


def _there(node: Table, key: str) -> Node:
    found = node.get(key)
    if found is None:
        raise WrongError(node.at, f"{key} is missing")
    return found
