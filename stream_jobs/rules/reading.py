"""One rule from its node: every mistake is collected, the rule comes back when there was none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

from schemas.alerts import SEVERITIES
from schemas.limits import DAY_MS, MINUTE_MS
from stream_jobs.rules import vocabulary
from stream_jobs.rules.kinds import KINDS, DetectorKind
from stream_jobs.rules.measures import answerable, measure_of
from stream_jobs.rules.model import Measure, Rule
from stream_jobs.rules.options import options_of, whiles_of
from stream_jobs.rules.scalars import WINDOWS_MAX, duration_ms, m_of_n, window_ms
from stream_jobs.yaml_files.nodes import Node, Scalar, Table
from stream_jobs.yaml_files.problems import Problems, WrongError, nearest, quoted
from stream_jobs.yaml_files.scalars import choice, flag, known_keys, listing, name, sentence, table, whole, word

RULE_KEYS = (
    "name",
    "kind",
    "metric",
    "topic",
    "where",
    "measures",
    "by",
    "while",
    "window",
    "for",
    "clear_after",
    "min_count",
    "severity",
    "renotify",
    "summary",
    "advice",
    "options",
    "slo",
    "enabled",
)
BY_MAX = 8
MIN_COUNT_MAX = 10**9
RENOTIFY_MAX_MS = 7 * DAY_MS
FIGURES = ("value", "baseline", "low", "high", "count", "note", "rule", "hosts")
"""What a summary may name beside labels."""
_LABELS = frozenset(name_ for topic in vocabulary.TOPICS for name_ in vocabulary.dimensions(topic))


@dataclass(frozen=True, slots=True)
class Read:
    """A rule and whether it judges."""

    rule: Rule
    enabled: bool


_SIMPLE: dict[str, Any] = {
    "severity": lambda node: {"severity": choice(node, "severity", SEVERITIES)},
    "advice": lambda node: {"advice": sentence(node, "advice")},
    "window": lambda node: {"window_ms": window_ms(node)},
    "for": lambda node: dict(zip(("m", "n"), m_of_n(node), strict=True)),
    "clear_after": lambda node: {"clear_after": whole(node, "clear_after", 1, WINDOWS_MAX)},
    "min_count": lambda node: {"min_count": whole(node, "min_count", 1, MIN_COUNT_MAX)},
    "renotify": lambda node: {"renotify_ms": duration_ms(node, "renotify", MINUTE_MS, RENOTIFY_MAX_MS)},
}
"""Keys that stand for themselves: the arguments of ``Rule`` they make."""


def read_rule(node: Table, told: Problems) -> Read | None:
    """The rule; None when anything was wrong with it."""
    mine = Problems()
    called = _called(node)
    for wrong in known_keys(node, "a rule", RULE_KEYS):
        mine.add(wrong.at, wrong.what)
    arguments: dict[str, Any] = {"severity": "warning", "where_read": node.at}
    for key, read in _SIMPLE.items():
        given = node.get(key)
        if given is not None:
            with mine.collected():
                arguments.update(read(given))
    enabled = True
    with mine.collected():
        arguments["name"] = name(_needed(node, "name"))
    with mine.collected():
        given = node.get("enabled")
        enabled = True if given is None else flag(given, "enabled")
    with mine.collected():
        arguments.update(_looking(node, mine))
    with mine.collected():
        arguments["summary"] = _summary(node, arguments)
    for line in mine.lines:
        at, _, what = line.partition(": ")
        told.add(at, what, called)
    return None if mine.lines else Read(Rule(**arguments), enabled)


def _called(node: Table) -> str:
    given = node.get("name")
    return given.text[:64] if isinstance(given, Scalar) and given.text.isprintable() and given.text else "(no name)"


def _needed(node: Table, key: str) -> Node:
    found = node.get(key)
    if found is None:
        raise WrongError(node.at, f"{key} is missing")
    return found


def _looking(node: Table, told: Problems) -> dict[str, Any]:
    """What the rule looks at and by which detector: kind, measures, by, options, conditions."""
    before = len(told.lines)
    kind = KINDS[choice(_needed(node, "kind"), "kind", tuple(KINDS))]
    by: tuple[str, ...] = ()
    with told.collected():
        by = _by(node)
    measures = _measures(node, kind, by, told)
    if len(told.lines) > before:
        return {}
    whiles = node.get("while")
    only_while = whiles_of(whiles, measures) if whiles is not None else ()
    with told.collected():
        _all_read(node, kind, measures, {condition.measure for condition in only_while})
    given = node.get("options")
    options = options_of(kind, None if given is None else table(given, "options"), measures, by, node.at, told)
    return {
        "kind": kind.name,
        "measures": tuple(measures.values()),
        "by": by,
        "options": options,
        "only_while": only_while,
    }


def _by(node: Table) -> tuple[str, ...]:
    given = _needed(node, "by")
    found = tuple(word(item, "by") for item in listing(given, "by"))
    if len(found) > BY_MAX or len(set(found)) != len(found):
        raise WrongError(given.at, f"by must name at most {BY_MAX} dimensions, each once")
    for one in found:
        if one not in _LABELS:
            raise WrongError(given.at, f"dimension {quoted(one)} is not known; {nearest(one, _LABELS)}")
    return found


def _measures(node: Table, kind: DetectorKind, by: tuple[str, ...], told: Problems) -> dict[str, Measure]:
    found: dict[str, Measure] = {}
    nodes: dict[str, Node] = {"value": _needed(node, "metric")}
    more = node.get("measures")
    for key, inner in table(more, "measures").pairs if more is not None else ():
        nodes[name(key, "measure")] = inner
    topic, where = node.get("topic"), node.get("where")
    if topic is not None and not isinstance(topic, Scalar):
        raise WrongError(topic.at, "topic must be a word")
    for called, inner in nodes.items():
        first = called == "value"
        with told.collected():
            beside = (topic, None if where is None else table(where, "where")) if first else (None, None)
            measure = measure_of(called, inner, by, *beside)
            answerable(measure, by, node.key("by").at if first and node.get("by") is not None else inner.at)
            found[called] = measure
    if "value" in (key.text for key, _ in (more.pairs if isinstance(more, Table) else ())):
        raise WrongError(nodes["value"].at, "measures: value is what metric says; name it once")
    for slot in kind.measures:
        if slot.required and slot.name not in nodes:
            raise WrongError(
                node.at, f"{kind.name} needs the measure {slot.name} ({slot.meaning}); add it under measures"
            )
    return found


def _all_read(node: Table, kind: DetectorKind, measures: Mapping[str, Measure], conditions: set[str]) -> None:
    slots = [slot.name for slot in kind.measures]
    for called in measures:
        if called not in slots and called not in conditions:
            more = table(_needed(node, "measures"), "measures")
            raise WrongError(
                more.key(called).at,
                f"measure {called} is read by nobody: {kind.name} reads {', '.join(slots)}; use it in while",
            )


def _summary(node: Table, arguments: Mapping[str, Any]) -> str:
    given = node.get("summary")
    if given is None:
        measures = arguments.get("measures")
        return f"{arguments.get('name', '')}: {measures[0].text if measures else ''} is {{value}}"
    text = sentence(given, "summary")
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise WrongError(given.at, f"summary: {error}; write {{{{ for a brace") from None
    known = {*FIGURES, *_LABELS}
    for _, field, form, conversion in parts:
        if field is not None and (field not in known or form or conversion):
            raise WrongError(given.at, f"summary: {{{field[:64]}}} is not known; {nearest(field, known)}")
    return text
