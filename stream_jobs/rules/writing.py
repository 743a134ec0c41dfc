"""A set of rules as YAML: what is in force, with every default filled in; and a rule in plain words. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isinf
from typing import Any

import yaml

from schemas.contract.alert_commands import Command
from stream_jobs.rules import vocabulary
from stream_jobs.rules.kinds import KINDS, Form, Option, Slot
from stream_jobs.rules.model import GpuEvent, Measure, Rule, RuleSet, SloClass, Where, While
from stream_jobs.rules.units import duration_text, level_text


def as_yaml(found: RuleSet) -> str:
    """The set as a file: reading it gives the same rules, silences, classes and events."""
    return yaml.safe_dump(as_plain(found), default_flow_style=None, sort_keys=False, allow_unicode=True, width=120)


def as_plain(found: RuleSet) -> dict[str, Any]:
    """The set as mappings and lists of words, as they are written."""
    rules = [*(as_rule(rule) for rule in found.rules), *(as_rule(rule) | {"enabled": False} for rule in found.disabled)]
    return {
        "rules": rules,
        "silences": [_silence(one) for one in found.silences],
        "slo_classes": {one.name: _slo_class(one) for one in found.slo_classes},
        "gpu_events": [_gpu_event(event) for event in found.gpu_events],
    }


def as_rule(rule: Rule) -> dict[str, Any]:
    """A rule as it would be written."""
    value = rule.value
    measures = {measure.name: measure for measure in rule.measures}
    written: dict[str, Any] = {
        "name": rule.name,
        "kind": rule.kind,
        "metric": value.text,
        "topic": value.topic,
        "where": {where.dimension: _where(where) for where in value.where},
        "measures": {measure.name: _measure(measure) for measure in rule.measures[1:]},
        "while": {one.measure: _while(one, measures[one.measure]) for one in rule.only_while},
        "by": list(rule.by),
        "window": duration_text(rule.window_ms / 1_000),
        "for": for_text(rule),
        "clear_after": rule.clear_after,
        "min_count": rule.min_count,
        "severity": rule.severity,
        "renotify": duration_text(rule.renotify_ms / 1_000),
        "summary": rule.summary,
        "advice": rule.advice,
        "options": options_text(rule),
    }
    return {key: found for key, found in written.items() if found not in ({}, "")}


def for_text(rule: Rule) -> str:
    """``3 of 5``."""
    return f"{rule.m} of {rule.n}"


def options_text(rule: Rule) -> dict[str, Any]:
    """Options that are set, with units."""
    measures = {measure.name: measure for measure in rule.measures}
    return {
        option.name: option_text(option, rule.options[option.name], measures.get(option.of))
        for option in KINDS[rule.kind].options
        if rule.options[option.name] is not None and (option.form is not Form.LEVEL or option.of in measures)
    }


def option_text(option: Option, value: Any, measure: Measure | None = None) -> Any:
    """An option's value as it would be written; levels in the unit of ``measure``, without one the bare number."""
    if option.form is Form.LEVEL:
        return level_text(float(value), measure.unit if measure else "")
    if option.form is Form.SHARE:
        return level_text(float(value), "share")
    if option.form is Form.SECONDS:
        return duration_text(float(value))
    if option.form is Form.PAIRS:
        return [[duration_text(long_s), duration_text(short_s), rate] for long_s, short_s, rate in value]
    return value


def _where(where: Where) -> Any:
    return {"not": list(where.one_of)} if where.negated else list(where.one_of)


def _measure(measure: Measure) -> dict[str, Any]:
    written: dict[str, Any] = {"metric": measure.text, "topic": measure.topic}
    if measure.where:
        written["where"] = {where.dimension: _where(where) for where in measure.where}
    return written


def _while(one: While, measure: Measure) -> dict[str, str]:
    ends = (("above", one.low), ("below", one.high))
    return {end: level_text(bound, measure.unit) for end, bound in ends if not isinf(bound)}


def _silence(one: Command) -> dict[str, Any]:
    moments = {"from": _moment(one.from_ms), "until": _moment(one.until_ms)}
    again = {"every": one.every, "zone": one.zone} if one.every else {}
    return {"labels": dict(one.labels), **moments, **again, "reason": one.reason}


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def _slo_class(one: SloClass) -> dict[str, str]:
    limits = {"ttft": one.ttft_us, "tpot": one.tpot_us, "e2e": one.e2e_us}
    written = {name: level_text(float(limit), "us") for name, limit in limits.items() if limit is not None}
    return written | {"share": level_text(one.share, "share")}


def _gpu_event(event: GpuEvent) -> dict[str, Any]:
    written: dict[str, Any] = {
        "kind": list(event.kinds),
        "code": list(event.codes),
        "reported": list(event.reported),
        "severity": event.severity or "none",
        "advice": event.advice,
        "ended_by": list(event.ended_by),
        "lasts": duration_text(event.lasts_ms / 1_000),
    }
    return {key: value for key, value in written.items() if value not in ([], "")}


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
    only = f", only where {' and '.join(map(_where_text, measure.where))}" if measure.where else ""
    return f"{measure.text} of {measure.topic}{f' in {measure.unit}' if measure.unit else ''}{meaning}{only}"


def _where_text(where: Where) -> str:
    values = ", ".join("null" if value is None else value for value in where.one_of)
    return f"{where.dimension} is {'not ' if where.negated else ''}{values}"


def _series(rule: Rule) -> str:
    return f"each {' x '.join(rule.by)} apart" if rule.by else "the whole fleet as one"


def _judges(rule: Rule) -> str:
    measures = {measure.name: measure for measure in rule.measures}
    count = f", where at least {rule.min_count} events came" if rule.min_count > 1 else ""
    count = count if rule.min_count else ", also where no event came"
    whiles = "".join(f", while {_while_text(one, measures[one.measure])}" for one in rule.only_while)
    return f"every {_time(rule, 1)} of event time{count}{whiles}"


def _while_text(one: While, measure: Measure) -> str:
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
