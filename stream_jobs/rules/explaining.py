"""A rule in plain words: what it looks at, when it fires and clears, which columns it reads, its cost. Pure."""

from __future__ import annotations

from math import isinf

from stream_jobs.rules import vocabulary
from stream_jobs.rules.kinds import KINDS, Slot
from stream_jobs.rules.model import Measure, Rule, Where, While
from stream_jobs.rules.units import duration_text, level_text
from stream_jobs.rules.writing import options_text


def explained(rule: Rule) -> list[tuple[str, str]]:
    """Headings with a text each, in the order of reading."""
    kind = KINDS[rule.kind]
    slots = {slot.name: slot for slot in kind.measures}
    return [
        ("what", f"{rule.kind}: {kind.meaning}"),
        ("says", f"{rule.severity}: {rule.summary}" + (f" ({rule.advice})" if rule.advice else "")),
        *((f"looks at {measure.name}", _looked(measure, slots.get(measure.name))) for measure in rule.measures),
        ("by", _series(rule)),
        ("judges", _judges(rule)),
        ("fires", _fires(rule)),
        (
            "clears",
            f"after {rule.clear_after} windows in a row ({_time(rule, rule.clear_after)}) within the leaving level",
        ),
        ("options", "; ".join(f"{name} = {value}" for name, value in options_text(rule).items()) or "none"),
        *((f"reads {measure.name}", _read(rule, measure)) for measure in rule.measures),
        ("costs", _costs(rule)),
        ("to change", _override(rule)),
        ("written at", rule.where_read),
    ]


def _looked(measure: Measure, slot: Slot | None) -> str:
    meaning = f" ({slot.meaning})" if slot else " (for a condition)"
    only = f", only where {' and '.join(map(_where, measure.where))}" if measure.where else ""
    return f"{measure.text} of {measure.topic}{f' in {measure.unit}' if measure.unit else ''}{meaning}{only}"


def _where(where: Where) -> str:
    values = ", ".join("null" if value is None else value for value in where.one_of)
    return f"{where.dimension} is {'not ' if where.negated else ''}{values}"


def _series(rule: Rule) -> str:
    return f"each {' x '.join(rule.by)} apart" if rule.by else "the whole fleet as one"


def _judges(rule: Rule) -> str:
    measures = {measure.name: measure for measure in rule.measures}
    count = f", where at least {rule.min_count} events came" if rule.min_count > 1 else ""
    whiles = "".join(f", while {_while(one, measures[one.measure])}" for one in rule.only_while)
    return f"every {_time(rule, 1)} of event time{count}{whiles}"


def _while(one: While, measure: Measure) -> str:
    ends = (("at least", one.low), ("at most", one.high))
    return f"{one.measure} is " + " and ".join(
        f"{words} {level_text(bound, measure.unit)}" for words, bound in ends if not isinf(bound)
    )


def _fires(rule: Rule) -> str:
    when = (
        f"when {rule.m} of the last {rule.n} windows are out of line"
        if rule.n > 1
        else "at the first window out of line"
    )
    return f"{when}: {_time(rule, rule.m)} after a sudden change at the soonest; notified again every {_again(rule)}"


def _again(rule: Rule) -> str:
    return duration_text(rule.renotify_ms / 1_000)


def _time(rule: Rule, windows: int) -> str:
    return duration_text(windows * rule.window_ms / 1_000)


def _read(rule: Rule, measure: Measure) -> str:
    grouping = vocabulary.answering(measure.topic, vocabulary.conditions(measure), rule.by)
    assert grouping is not None, "a rule that was read can be answered"
    return f"grouping set {grouping.name}, columns {', '.join(vocabulary.columns_read(measure))}"


def _costs(rule: Rule) -> str:
    state = KINDS[rule.kind].state_bytes + 16 + rule.n
    return f"one number per series, measure and window; about {state} bytes of state per series"


def _override(rule: Rule) -> str:
    option = next(iter(options_text(rule).items()), None)
    more = f", options: {{{option[0]}: {option[1]}}}" if option else ""
    return (
        f"a file with `include: defaults` and `rules: [{{name: {rule.name}{more}}}]`, "
        f"or `disable: [{rule.name}]`; then `fleetpulse rules check FILE`"
    )
