"""Measures as people write them: ``p95(ttft_us)``, ``ratio(throttled_us, interval_ms)``, ``share(status in error)``.

The topic follows from the columns named, and from the labels where a column stands in several; where that leaves more
than one it must be said. Raises ``WrongError``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schemas.grouping import sets_of
from stream_jobs.rules import vocabulary
from stream_jobs.rules.model import Function, Measure, Where
from stream_jobs.rules.units import family, level
from stream_jobs.yaml_files.nodes import Listing, Node, Scalar, Table
from stream_jobs.yaml_files.problems import WrongError, nearest, quoted
from stream_jobs.yaml_files.scalars import choice, known_keys, table, word

_CALL = re.compile(r"([a-z]+)(\d{1,2}(?:\.\d{1,3})?)?\s*\(([^()]*)\)", re.ASCII)
_MATCH = re.compile(r"(\S+?)\s*(?:\b(not\s+in|in)\b|(!=|=))\s*(.+)", re.ASCII | re.DOTALL)
_ABOVE = re.compile(r"(\S+?)\s*>\s*(.+)", re.DOTALL)
_PLAIN = {one.value: one for one in Function if one not in (Function.PERCENTILE, Function.ABOVE)}
_SYNTAX = (
    "write p95(ttft_us), mean(temperature_c), min(), max(), last(), sum(preemptions), rate(output_tokens), rate(), "
    "count(), share(status in error, timeout), share(ttft_us > 800ms) or ratio(throttled_us, interval_ms)"
)
MEASURE_KEYS = ("metric", "topic", "where")
VALUES_MAX = 50


@dataclass(frozen=True, slots=True)
class _Call:
    """A metric before its topic is known."""

    function: Function
    fields: tuple[str, ...]
    q: float = 0.0
    match: Where | None = None
    limit: str = ""


def measure_of(name: str, node: Node, by: Sequence[str], topic: Scalar | None, where: Table | None) -> Measure:
    """A measure. ``topic`` and ``where`` stand beside it in the rule; a measure written as a mapping has its own."""
    if isinstance(node, Table):
        for wrong in known_keys(node, f"measure {name}", MEASURE_KEYS):
            raise wrong
        own_topic, own_where = node.get("topic"), node.get("where")
        metric = node.get("metric")
        if metric is None or (own_topic is not None and not isinstance(own_topic, Scalar)):
            raise WrongError(node.at, f"measure {name} needs a metric, and a topic as a word")
        return measure_of(name, metric, by, own_topic, None if own_where is None else table(own_where, "where"))
    text = " ".join(word(node, "metric").split())
    call = _call(text, node.at)
    wanted = [*by, *([key.text for key, _ in where.pairs] if where else [])]
    found = _topic(call, text, wanted, node.at, topic)
    field, over = (*call.fields, "", "")[:2]
    measure = Measure(
        name,
        found,
        call.function,
        field,
        over,
        q=call.q,
        match=call.match and replace(call.match, one_of=_checked(found, call.match, node.at)),
        where=conditions(where, found) if where else (),
        text=text,
        unit=vocabulary.unit_of(found, call.function, field, over),
    )
    return replace(measure, limit=_limit(call, measure, node.at)) if call.limit else measure


def _call(text: str, at: str) -> _Call:
    found = _CALL.fullmatch(text)
    if found is None:
        raise WrongError(at, f"metric {quoted(text)} cannot be read; {_SYNTAX}")
    name, digits, inner = found[1], found[2], found[3].strip()
    if digits is not None:
        if name != "p" or not 0 < float(digits) < 100:
            raise WrongError(at, f"metric {quoted(text)}: a percentile is p1 to p99.999")
        return _Call(Function.PERCENTILE, _fields(inner, 1, text, at), q=float(digits) / 100)
    function = _PLAIN.get(name)
    if function is None:
        raise WrongError(at, f"metric {quoted(text)}: no function {quoted(name)}; {nearest(name, ['p95', *_PLAIN])}")
    if function is Function.SHARE:
        return _share(inner, text, at)
    if function is Function.COUNT:
        return _Call(function, _fields(inner, 0, text, at))
    if function is Function.RATE and not inner:
        return _Call(function, ())
    return _Call(function, _fields(inner, 2 if function is Function.RATIO else 1, text, at))


def _fields(inner: str, count: int, text: str, at: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in inner.split(",")) if inner else ()
    if len(names) != count:
        raise WrongError(at, f"metric {quoted(text)} must name {count} column{'s' * (count != 1)}; {_SYNTAX}")
    return names


def _share(inner: str, text: str, at: str) -> _Call:
    above = _ABOVE.fullmatch(inner)
    if above:
        return _Call(Function.ABOVE, (above[1],), limit=above[2])
    found = _MATCH.fullmatch(inner)
    if found is None:
        raise WrongError(at, f"metric {quoted(text)}: write share(status in error, timeout) or share(ttft_us > 800ms)")
    values = tuple(None if part.strip() == "null" else part.strip() for part in found[4].split(","))
    negated = found[3] == "!=" or (found[2] or "").startswith("not")
    return _Call(Function.SHARE, (), match=Where(found[1], values, negated))


def _topic(call: _Call, text: str, wanted: Sequence[str], at: str, said: Scalar | None) -> str:
    topics = (choice(said, "topic", vocabulary.TOPICS),) if said else vocabulary.TOPICS
    fitting = [topic for topic in topics if all(name in vocabulary.columns(topic) for name in call.fields)]
    if not fitting:
        raise WrongError(at, _no_column(call, topics))
    taking = [topic for topic in fitting if _takes(call, topic)]
    if not taking:
        raise WrongError(at, _does_not_take(call, fitting[0], text))
    named = [*wanted, *([call.match.dimension] if call.match else [])]
    if len(taking) == 1:
        return taking[0]
    missing = {topic: len(set(named) - set(vocabulary.dimensions(topic))) for topic in taking}
    knowing = [topic for topic in taking if missing[topic] == min(missing.values())]
    if len(knowing) == 1:
        return knowing[0]
    every = {name for topic in taking for name in vocabulary.dimensions(topic)}
    unknown = [name for name in named if name not in every]
    if unknown:
        raise WrongError(at, f"dimension {quoted(unknown[0])} is not known; {nearest(unknown[0], every)}")
    raise WrongError(at, f"metric {quoted(text)} may be of {' or '.join(knowing)}; say which: topic: {knowing[0]}")


def _takes(call: _Call, topic: str) -> bool:
    known = vocabulary.columns(topic)
    if call.function is Function.RATIO and len({known[name].role for name in call.fields}) > 1:
        return False
    return all(call.function in vocabulary.functions_of(known[name]) for name in call.fields)


def _no_column(call: _Call, topics: Sequence[str]) -> str:
    every = {name for topic in topics for name in vocabulary.columns(topic)}
    unknown = [name for name in call.fields if name not in every]
    if unknown:
        return f"column {quoted(unknown[0])} is not known; {nearest(unknown[0], every)}"
    return f"columns {' and '.join(call.fields)} are not of one topic"


def _does_not_take(call: _Call, topic: str, text: str) -> str:
    field = vocabulary.columns(topic)[call.fields[0]]
    if call.function is Function.RATIO and call.function in vocabulary.functions_of(field):
        return f"metric {quoted(text)}: a ratio is of two amounts or of two levels, not of one of each"
    fitting = [_written(one) for one in vocabulary.functions_of(field)]
    return f"metric {quoted(text)}: {field.name} ({field.role.value}) takes {', '.join(fitting)}"


def _written(function: Function) -> str:
    special = {Function.PERCENTILE: "p95", Function.ABOVE: "share(... > ...)"}
    return special.get(function, function.value)


def _limit(call: _Call, measure: Measure, at: str) -> float:
    field = vocabulary.columns(measure.topic)[measure.field]
    found = level(call.limit, field.unit)
    if found is None or not 0 <= found <= (field.high or vocabulary.ANY_MAX):
        raise WrongError(
            at, f"metric {quoted(measure.text)}: {quoted(call.limit)} must be a number with {_units(field.unit)}"
        )
    return found


def _units(unit: str) -> str:
    words = [word_ for word_ in family(unit) if word_]
    return f"a unit ({', '.join(words)})" if "" not in family(unit) else "no unit"


def conditions(node: Table, topic: str) -> tuple[Where, ...]:
    """``{status: ok, start: [warm, null], error_kind: {not: [client]}}`` on dimensions of a topic."""
    known = vocabulary.dimensions(topic)
    found = []
    for key, value in node.pairs:
        if key.text not in known:
            raise WrongError(key.at, f"dimension {quoted(key.text)} is not one of {topic}; {nearest(key.text, known)}")
        negated = isinstance(value, Table)
        inner = value.get("not") if isinstance(value, Table) else value
        if inner is None or (isinstance(value, Table) and len(value.pairs) != 1):
            raise WrongError(key.at, f"where {key.text}: write a value, a list, or {{not: ...}}")
        where = Where(key.text, _values(inner, key.text), negated)
        found.append(replace(where, one_of=_checked(topic, where, key.at)))
    return tuple(found)


def _values(node: Node, dimension: str) -> tuple[str | None, ...]:
    items = node.items if isinstance(node, Listing) else (node,)
    if not 1 <= len(items) <= VALUES_MAX or not all(isinstance(item, Scalar) for item in items):
        raise WrongError(node.at, f"where {dimension}: 1 to {VALUES_MAX} words")
    return tuple(None if item.null else item.text for item in items if isinstance(item, Scalar))


def _checked(topic: str, where: Where, at: str) -> tuple[str | None, ...]:
    closed = vocabulary.allowed(topic, where.dimension) if where.dimension in vocabulary.dimensions(topic) else ()
    for value in where.one_of:
        if closed and value is not None and value not in closed:
            raise WrongError(at, f"{where.dimension} is never {quoted(value)}; {nearest(value, closed)}")
    return tuple(dict.fromkeys(where.one_of))


def answerable(measure: Measure, by: Sequence[str], at: str) -> None:
    """Raise unless one grouping set keeps all dimensions that the measure needs. Of ``by`` only what a rule looks at
    first needs all: another measure holds for every series with the labels it knows."""
    first = measure.name == "value"
    wanted = tuple(dict.fromkeys([*(by if first else ()), *vocabulary.conditions(measure)]))
    grouping = vocabulary.answering(measure.topic, wanted, by)
    if grouping is not None and (first or not by or set(by) & set(grouping.dimensions)):
        return
    known = vocabulary.dimensions(measure.topic)
    for name in wanted:
        if name not in known:
            raise WrongError(at, f"dimension {quoted(name)} is not one of {measure.topic}; {nearest(name, known)}")
    together = "; ".join(f"{one.name}: {', '.join(one.dimensions)}" for one in sets_of(measure.topic))
    raise WrongError(
        at, f"{measure.topic} has no rows by {', '.join(wanted or by)} together; what can be had: {together}"
    )
