"""Measures as people write them: ``p95(ttft_us)``, ``ratio(throttled_us, interval_ms)``, ``share(status in error)``.

The topic follows from the columns named, and from the labels where a column stands in several; where that leaves more
than one it must be written. Functions raise ``ValueError`` with what is wrong and what would be right. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.events.grouping import sets_of
from stream_jobs.rules import vocabulary
from stream_jobs.rules.model import Function, Measure, Where
from stream_jobs.rules.units import family, level
from stream_jobs.yaml_files.errors import WrongError, nearest, quoted
from stream_jobs.yaml_files.tree import Items, Table, Word

_CALL = re.compile(r"([a-z]+)(\d{1,2}(?:\.\d{1,3})?)?\s*\(([^()]*)\)", re.ASCII)
_MATCH = re.compile(r"(\S+?)\s*(?:\b(not\s+in|in)\b|(!=|=))\s*(.+)", re.ASCII | re.DOTALL)
_ABOVE = re.compile(r"(\S+?)\s*>\s*(.+)", re.DOTALL)
_PLAIN = {one.value: one for one in Function if one not in (Function.PERCENTILE, Function.ABOVE)}
_FIELDS = {Function.COUNT: 0, Function.RATIO: 2}
"""How many columns a function is of, where that is not one."""
_SYNTAX = (
    "write p95(ttft_us), mean(temperature_c), min(), max(), last(), sum(preemptions), rate(output_tokens), rate(), "
    "count(), share(status in error, timeout), share(ttft_us > 800ms), known(memory_engine_bytes) or "
    "ratio(throttled_us, interval_ms)"
)
VALUES_MAX = 50


@dataclass(frozen=True, slots=True)
class _Call:
    """A metric before its topic is known."""

    text: str
    function: Function
    fields: tuple[str, ...] = ()
    q: float = 0.0
    match: Where | None = None
    limit: str = ""


def measure_of(name: str, text: str, by: Sequence[str], topic: str | None, where: Table | None) -> Measure:
    """The measure of a metric. ``by`` helps to find its topic where that is not written."""
    call = _call(" ".join(text.split()))
    found = topic_of(call, [*by, *(where or ())], topic)
    field, over = (*call.fields, "", "")[:2]
    measure = Measure(
        name,
        found,
        call.function,
        field,
        over,
        q=call.q,
        match=call.match and _checked(found, call.match),
        where=_conditions(where, found) if where else (),
        text=call.text,
        unit=vocabulary.unit_of(found, call.function, field, over),
    )
    return replace(measure, limit=_limit(call, measure)) if call.limit else measure


def _call(text: str) -> _Call:
    found = _CALL.fullmatch(text)
    if found is None:
        raise ValueError(f"{quoted(text)} cannot be read; {_SYNTAX}")
    name, digits, inner = found[1], found[2], found[3].strip()
    if digits is not None:
        if name != "p" or not 0 < float(digits) < 100:
            raise ValueError(f"{quoted(text)}: a percentile is p1 to p99.999")
        return _Call(text, Function.PERCENTILE, _fields(inner, 1, text), q=float(digits) / 100)
    function = _PLAIN.get(name)
    if function is None:
        raise ValueError(f"{quoted(text)}: no function {quoted(name)}; {nearest(name, ['p95', *_PLAIN])}")
    if function is Function.SHARE:
        return _share(inner, text)
    if function is Function.RATE and not inner:
        return _Call(text, function)
    return _Call(text, function, _fields(inner, _FIELDS.get(function, 1), text))


def _fields(inner: str, count: int, text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in inner.split(",")) if inner else ()
    if len(names) != count:
        raise ValueError(f"{quoted(text)} must name {count} column{'s' * (count != 1)}; {_SYNTAX}")
    return names


def _share(inner: str, text: str) -> _Call:
    above = _ABOVE.fullmatch(inner)
    if above:
        return _Call(text, Function.ABOVE, (above[1],), limit=above[2])
    found = _MATCH.fullmatch(inner)
    if found is None:
        raise ValueError(f"{quoted(text)}: write share(status in error, timeout) or share(ttft_us > 800ms)")
    values = tuple(None if part.strip() == "null" else part.strip() for part in found[4].split(","))
    negated = found[3] == "!=" or (found[2] or "").startswith("not")
    return _Call(text, Function.SHARE, match=Where(found[1], values, negated))


def topic_of(call: _Call, wanted: Sequence[str], topic: str | None) -> str:
    """The topic that has the columns and takes the function; of several the one that knows most labels ``wanted``."""
    topics = (topic,) if topic else vocabulary.TOPICS
    fitting = [one for one in topics if all(name in vocabulary.columns(one) for name in call.fields)]
    if not fitting:
        raise ValueError(_no_column(call, topics))
    taking = [one for one in fitting if _takes(call, one)]
    if not taking:
        raise ValueError(_does_not_take(call, fitting[0]))
    named = [*wanted, *([call.match.dimension] if call.match else [])]
    missing = {one: len(set(named) - set(vocabulary.dimensions(one))) for one in taking}
    knowing = [one for one in taking if missing[one] == min(missing.values())]
    if len(knowing) == 1:
        return knowing[0]
    every = {name for one in taking for name in vocabulary.dimensions(one)}
    for name in named:
        if name not in every:
            raise ValueError(f"dimension {quoted(name)} is not known; {nearest(name, every)}")
    raise ValueError(f"{quoted(call.text)} may be of {' or '.join(knowing)}; write which: topic: {knowing[0]}")


def _takes(call: _Call, topic: str) -> bool:
    known = vocabulary.columns(topic)
    if call.function is Function.RATIO and len({known[name].role for name in call.fields}) > 1:
        return False
    return all(call.function in vocabulary.functions_of(known[name]) for name in call.fields)


def _no_column(call: _Call, topics: Sequence[str]) -> str:
    every = {name for topic in topics for name in vocabulary.columns(topic)}
    for name in call.fields:
        if name not in every:
            return f"column {quoted(name)} is not known; {nearest(name, every)}"
    return f"columns {' and '.join(call.fields)} are not of one topic"


def _does_not_take(call: _Call, topic: str) -> str:
    field = vocabulary.columns(topic)[call.fields[0]]
    if call.function is Function.RATIO and call.function in vocabulary.functions_of(field):
        return f"{quoted(call.text)}: a ratio is of two amounts or of two levels, not of one of each"
    special = {Function.PERCENTILE: "p95", Function.ABOVE: "share(... > ...)"}
    fitting = [special.get(one, one.value) for one in vocabulary.functions_of(field)]
    return f"{quoted(call.text)}: {field.name} ({field.role.value}) takes {', '.join(fitting)}"


def _limit(call: _Call, measure: Measure) -> float:
    field = vocabulary.columns(measure.topic)[measure.field]
    found = level(call.limit, field.unit)
    if found is None or not 0 <= found <= (field.high or vocabulary.ANY_MAX):
        units = [unit for unit in family(field.unit) if unit]
        must = "no unit" if "" in family(field.unit) else f"a unit ({', '.join(units)})"
        raise ValueError(f"{quoted(call.text)}: {quoted(call.limit)} must be a number with {must}")
    return found


def _conditions(table: Table, topic: str) -> tuple[Where, ...]:
    """``{status: ok, start: [warm, null], error_kind: {not: [client]}}`` on dimensions of a topic."""
    known = vocabulary.dimensions(topic)
    found = []
    for key, value in table.items():
        try:
            if key not in known:
                raise ValueError(f"dimension {quoted(key)} is not one of {topic}; {nearest(key, known)}")
            found.append(_checked(topic, _condition(key, value)))
        except ValueError as error:
            raise WrongError((key.at, str(error))) from None
    return tuple(found)


def _condition(dimension: str, value: Any) -> Where:
    negated = isinstance(value, Table)
    if negated and list(value) != ["not"]:
        raise ValueError(f"where {dimension}: write a value, a list, or {{not: ...}}")
    inner = value["not"] if negated else value
    items = inner if isinstance(inner, Items) else [inner]
    if not 1 <= len(items) <= VALUES_MAX or not all(item is None or isinstance(item, Word) for item in items):
        raise ValueError(f"where {dimension}: 1 to {VALUES_MAX} words")
    return Where(str(dimension), tuple(None if item is None else str(item) for item in items), negated)


def _checked(topic: str, where: Where) -> Where:
    """With each value once, and none that the dimension never has."""
    closed = vocabulary.allowed(topic, where.dimension) if where.dimension in vocabulary.dimensions(topic) else ()
    for value in where.one_of:
        if closed and value is not None and value not in closed:
            raise ValueError(f"{where.dimension} is never {quoted(value)}; {nearest(value, closed)}")
    return replace(where, one_of=tuple(dict.fromkeys(where.one_of)))


def unanswerable(measure: Measure, by: Sequence[str]) -> str:
    """Why no grouping set keeps all dimensions that the measure needs; empty where one does. Of ``by`` only what a rule
    looks at first needs all: another measure holds for every series with the labels it knows."""
    first = measure.name == "value"
    wanted = tuple(dict.fromkeys([*(by if first else ()), *vocabulary.conditions(measure)]))
    grouping = vocabulary.answering(measure.topic, wanted, by)
    if grouping is not None and (first or not by or set(by) & set(grouping.dimensions)):
        return ""
    known = vocabulary.dimensions(measure.topic)
    for name in wanted:
        if name not in known:
            return f"dimension {quoted(name)} is not one of {measure.topic}; {nearest(name, known)}"
    together = "; ".join(f"{one.name}: {', '.join(one.dimensions)}" for one in sets_of(measure.topic))
    return f"{measure.topic} has no rows by {', '.join(wanted or by)} together; what can be had: {together}"
