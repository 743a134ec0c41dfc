"""One rule of a file: its shape, and how its keys fit together. Pure.

Keys are validated in the order of the fields: a later one finds those before it in ``info.data`` unless they are
wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf
from string import Formatter
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    create_model,
    model_validator,
)

from schemas.contract.alerts import SEVERITIES
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, WINDOW_MS
from stream_jobs.rules import vocabulary
from stream_jobs.rules.kinds import KINDS, Form, Option
from stream_jobs.rules.measures import measure_of, unanswerable
from stream_jobs.rules.model import Function, Measure, Rule, While
from stream_jobs.rules.units import SHARE, family, level, level_text, seconds, split
from stream_jobs.yaml_files import fields
from stream_jobs.yaml_files.errors import WrongError, nearest, quoted
from stream_jobs.yaml_files.sections import Section
from stream_jobs.yaml_files.tree import Items, Table, Word

PAIRS_MAX = 8
RATE_MAX = 10_000.0
_NOT_ABOVE = (("leave_sigmas", "enter_sigmas"), ("leave_percent", "percent"), ("after_s", "forget_after_s"))


@dataclass(frozen=True, slots=True)
class Beside:
    """What else of a rule its options are checked against."""

    measures: Mapping[str, Measure]
    by: Sequence[str]


def options_of(kind: str, table: Table, beside: Beside) -> dict[str, Any]:
    """Every option of the kind by name. Raises ``ValidationError`` or ``WrongError``."""
    found = dict(_model(kind).model_validate(table, context=beside))
    wrong = [*_wrong(kind, found, table, beside.by), *_out_of_reach(kind, found, table, beside.measures)]
    return fields.none_wrong(found, wrong)


@cache
def _model(kind: str) -> type[Section]:
    fields: dict[str, Any] = {
        option.name: (Annotated[Any, BeforeValidator(partial(_option, option))], option.default)
        for option in KINDS[kind].options
    }
    return create_model(kind, __base__=Section, **fields)


def _option(option: Option, value: Any, info: ValidationInfo) -> Any:
    if value is None:
        return option.default
    beside: Any = info.context
    if option.form is Form.LEVEL:
        if option.of not in beside.measures:
            raise ValueError(f"needs the measure {option.of}; add it under measures")
        return level_of(value, beside.measures[option.of], signed=option.signed)
    if option.form is Form.FLAG:
        return fields.flag(value)
    if option.form is Form.CHOICE:
        return fields.chosen(value, option.choices)
    if option.form is Form.DIMENSION:
        return str(fields.word(value))
    if option.form is Form.PAIRS:
        return _pairs(value)
    if option.form is Form.WHOLE:
        return fields.number(value, option.low or 0, option.high or 10**9)
    return _number(option, fields.word(value))


def level_of(value: Any, measure: Measure, *, signed: bool = False) -> float:
    """A level in the unit of a measure, within what the measure can be."""
    text = fields.word(value)
    found = level(text, measure.unit)
    if found is None:
        raise ValueError(f"{quoted(text)}: {_unit_sentence(text, measure)}")
    low, high = vocabulary.bounds(measure)
    low = -high if signed else low
    if not low <= found <= high:
        ends = f"{level_text(low, measure.unit)} and {level_text(high, measure.unit)}"
        raise ValueError(f"{quoted(text)} is out of reach: {measure.text} lies between {ends}")
    return found


def _unit_sentence(text: str, measure: Measure) -> str:
    units = [one for one in family(measure.unit) if one]
    apart = split(text)
    if apart is None:
        return "must be a finite number" + (f" with a unit ({', '.join(units)})" if units else "")
    if not units:
        return f"{measure.text} has no unit; write the number alone"
    must = f"{measure.text} is in {measure.unit}"
    if not apart[1]:
        return f"{must}; write the unit: {', '.join(units)}"
    return f"{must}; unit {quoted(apart[1])} does not fit, {nearest(apart[1], units)}"


def _number(option: Option, text: str) -> float:
    if option.form is Form.SECONDS:
        found = seconds(text)
    elif option.form is Form.PERCENT:
        found = level(text.removesuffix("%"), "")
    elif option.form is Form.SHARE:
        found = _share(text)
    else:
        found = level(text, "")
    low = -RATE_MAX * 1e6 if option.low is None else option.low
    high = 1e12 if option.high is None else option.high
    if found is None or not low <= found <= high:
        raise ValueError(f"{quoted(text)} must be a {option.form.value} from {low:g} to {high:g}")
    return found


def _share(text: str) -> float | None:
    """Above 1 it must be written in percent: a bare ``15`` may be meant as 15 %, and would be 1,500 %."""
    found = level(text, SHARE)
    if found is not None and found > 1 and not text.endswith("%"):
        raise ValueError(f"{quoted(text)} could mean {text}% or {level_text(found, SHARE)}: write the one you mean")
    return found


def _pairs(value: Any) -> tuple[tuple[float, float, float], ...]:
    must = "must be a list of [long range, short range, rate], such as [1h, 5m, 14.4]"
    if not isinstance(value, Items) or not 1 <= len(value) <= PAIRS_MAX:
        raise ValueError(f"{must}, at most {PAIRS_MAX}")
    found = []
    for item in value:
        words = [one for one in item if isinstance(one, Word)] if isinstance(item, Items) else []
        if len(words) != 3:
            raise ValueError(must)
        long_s, short_s, rate = seconds(words[0]), seconds(words[1]), level(words[2], "")
        if long_s is None or short_s is None or rate is None:
            raise ValueError(must)
        if not 60 <= short_s < long_s <= 30 * 86_400 or not 0 < rate <= RATE_MAX:
            raise ValueError(f"{must}; 1m <= short < long <= 30d, rate above 0")
        found.append((long_s, short_s, rate))
    return tuple(found)


def _wrong(kind: str, found: Mapping[str, Any], table: Table, by: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options that do not fit one another, or the rule: leaving lies on the well side of entering."""
    for group in KINDS[kind].one_of:
        if sum(table.get(name) is not None for name in group) != 1:
            yield table.at, f"give {' or '.join(group)}, one of them"
    for option in KINDS[kind].options:
        if option.form is Form.DIMENSION and found[option.name] not in by:
            yield table.at_of(option.name), f"{option.name} = {found[option.name]} must be one of by: {', '.join(by)}"
    if kind == "straggler" and [*by] == [found["group"]]:
        said = f"each {found['group']} is a group of its own and has no peers"
        yield table.at_of("group"), f"group: {said}; add to by what tells peers apart, such as gpu_uuid"
    for less, more in _NOT_ABOVE:
        if less in found and found[less] > found[more]:
            yield table.at_of(less), f"{less} must not be above {more}, else it clears before it fires"
    most = 1 / (1 - found["objective"]) if kind == "burn_rate" else inf
    least = min((rate for _, _, rate in found.get("pairs", ())), default=0.0)
    if least > most:
        said = f"all requests burn {most:.4g} times the budget of objective {found['objective']:g}"
        yield table.at_of("pairs"), f"pairs: {least:g} is out of reach: {said}"
    leave, above, below = found.get("leave"), found.get("above"), found.get("below")
    above = found["min_slope_per_hour"] if kind == "trend" else above
    wrong_side = "leave lies on the wrong side: it must be at or"
    if leave is not None and above is not None and leave > above:
        yield table.at_of("leave"), f"{wrong_side} below the entering level"
    if leave is not None and below is not None and leave < below:
        yield table.at_of("leave"), f"{wrong_side} above the entering level"


def _out_of_reach(
    kind: str, found: Mapping[str, Any], table: Table, measures: Mapping[str, Measure]
) -> Iterator[tuple[str, str]]:
    """Entering levels that no value passes: ``above`` the most there can be, ``below`` the least."""
    for option in KINDS[kind].options:
        if option.form is Form.LEVEL and option.name in ("above", "below") and not option.signed:
            measure = measures[option.of]
            low, high = vocabulary.reach(measure)
            end, better = (high, "lower") if option.name == "above" else (low, "higher")
            if found[option.name] == end:
                said = f"{measure.text} is never {option.name} {level_text(end, measure.unit)}"
                yield table.at_of(option.name), f"{option.name}: {said}; write a {better} level"


BY_MAX = 8
WINDOWS_MAX = 64
MIN_COUNT_MAX = 10**9
RENOTIFY_MAX_MS = 7 * DAY_MS
SUMMARY_FIELDS = ("value", "baseline", "low", "high", "count", "note", "rule", "hosts")
"""What a summary may name beside labels."""
LATENCIES = {"ttft": "ttft_us", "tpot": "tpot_us", "e2e": "e2e_us"}
"""Objectives of a service class and the columns they bound."""
ONLY_CHECKED = Word("", "")
"""Stands for ``slo`` in a rule that was made only to check it."""
LABELS = tuple(dict.fromkeys(name for topic in vocabulary.TOPICS for name in vocabulary.dimensions(topic)))
_OF = re.compile(r"(?:(\d{1,4})\s+of\s+)?(\d{1,4})", re.ASCII)


def duration(low_ms: int, high_ms: int, step_ms: int = 1_000) -> PlainValidator:
    """Validates milliseconds of ``30s``, ``5m``, ``2h``, ``1d`` within bounds; the unit must be written."""

    def milliseconds(text: str) -> int | None:
        found_ms = (seconds(text) or 0) * 1_000
        fits = low_ms <= found_ms <= high_ms and not found_ms % step_ms and not text[-1].isdigit()
        return int(found_ms) if fits else None

    step = f"a multiple of {step_ms // 1_000}s" if step_ms > 1_000 else "whole seconds"
    bounds = f"from {low_ms // 1_000}s to {high_ms // 1_000}s"
    return fields.parsed(milliseconds, f"must be {step} with a unit (30s, 5m, 2h, 1d) {bounds}")


def _m_of_n(text: str) -> tuple[int, int] | None:
    """``3 of 5``; ``2`` is 2 of 2."""
    found = _OF.fullmatch(text)
    m, n = (int(found[1] or found[2]), int(found[2])) if found else (0, 0)
    return (m, n) if 1 <= m <= n <= WINDOWS_MAX else None


def _labels(by: tuple[Word, ...]) -> tuple[Word, ...]:
    if len(by) > BY_MAX or len(set(by)) != len(by):
        raise ValueError(f"must name at most {BY_MAX} dimensions, each once")
    for one in by:
        if one not in LABELS:
            raise ValueError(f"dimension {quoted(one)} is not known; {nearest(one, LABELS)}")
    return by


def table(value: Any) -> Table:
    """A mapping."""
    if not isinstance(value, Table):
        raise ValueError("must be a mapping (key: value)")
    return value


class MeasureEntry(Section):
    """A measure with a topic or conditions of its own."""

    metric: fields.Text
    topic: Annotated[str | None, fields.choice(vocabulary.TOPICS)] = None
    where: Annotated[Table | None, PlainValidator(table)] = None


def _value(value: Any, info: ValidationInfo) -> Measure:
    """What the rule looks at first; ``topic`` and ``where`` stand beside it."""
    if not {"topic", "where"} <= info.data.keys():
        return Measure("value", "", Function.COUNT)  # one of them is wrong, and the rule is not made
    by = info.data.get("by", ())
    found = measure_of("value", fields.word(value), by, info.data["topic"], info.data["where"])
    if why := unanswerable(found, by):
        raise WrongError((by[0].at if by else "", why))
    return found


def _other(value: Any, info: ValidationInfo) -> Measure:
    """Another measure, by its metric or as a mapping."""
    by = info.data.get("by", ())
    own = MeasureEntry.model_validate(value if isinstance(value, Table) else Table({Word("metric", ""): value}, ""))
    found = measure_of("", own.metric, by, own.topic, own.where)
    if why := unanswerable(found, by):
        raise ValueError(why)
    return found


Other = Annotated[Measure, PlainValidator(_other)]


def _of_kind(measures: Mapping[str, Measure], info: ValidationInfo) -> Mapping[str, Measure]:
    if "value" in measures:
        raise ValueError("value is what metric says; name it once")
    for slot in KINDS[info.data["kind"]].measures if "kind" in info.data else ():
        if slot.required and slot.name not in {*measures, "value"}:
            raise ValueError(f"{info.data['kind']} needs the measure {slot.name} ({slot.meaning}); add it")
    return measures


def _measures(info: ValidationInfo) -> dict[str, Measure] | None:
    """All of the rule by name; None where one of them, or the kind, is wrong."""
    data, needed = info.data, {"kind", "by", "topic", "where", "metric", "measures"}
    return {"value": data["metric"], **data["measures"]} if needed <= data.keys() else None


def _whiles(value: Any, info: ValidationInfo) -> tuple[While, ...]:
    """``{temperature: {below: 75C}}``: conditions on measures of the rule."""
    kind, measures = info.data.get("kind"), _measures(info)
    if table(value) and kind in KINDS and KINDS[kind].judges_absence:
        raise ValueError(f"{kind} judges series that are silent, of which no measure is known; leave while out")
    return () if measures is None else tuple(_while(key, ends, measures) for key, ends in table(value).items())


def _while(key: Word, bounds: Any, measures: Mapping[str, Measure]) -> While:
    if key not in measures:
        raise WrongError((key.at, f"no measure {quoted(key)}; {nearest(key, measures)}"))
    ends = {"above": -inf, "below": inf}
    for end, bound in table(bounds).items():
        try:
            ends[fields.chosen(end, ("above", "below"))] = level_of(bound, measures[key])
        except ValueError as error:
            raise WrongError((bounds.at_of(end), f"{key}.{end}: {error}")) from None
    low, high = ends.values()
    if not bounds or low >= high:
        raise WrongError((key.at, f"{key}: give above or below or both, above less than below"))
    return While(str(key), low, high)


def _options(value: Any, info: ValidationInfo) -> dict[str, Any]:
    given = Table({}, "") if value is None else table(value)
    measures = _measures(info)
    return {} if measures is None else options_of(info.data["kind"], given, Beside(measures, info.data["by"]))


def _min_count(value: Any, info: ValidationInfo) -> int:
    """0, so that none at all is judged, only where no row means that there was none."""
    least = 0 if "metric" in info.data and vocabulary.fills_with_zero(info.data["metric"]) else 1
    return fields.number(value, least, MIN_COUNT_MAX)


def _summary(value: Any) -> str:
    text = fields.sentence(value)
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{error}; write {{{{ for a brace") from None
    known = {*SUMMARY_FIELDS, *LABELS}
    for _, field, form, conversion in parts:
        if field is not None and (field not in known or form or conversion):
            raise ValueError(f"{{{field[:64]}}} is not known; {nearest(field, known)}")
    return text


def _slo(value: Any) -> bool:
    if value is ONLY_CHECKED:
        return True
    fields.chosen(value, LATENCIES)
    raise ValueError("makes the metric; leave metric out")


class RuleEntry(Section):
    """A rule. ``only_checked``: it is for service classes, and none has the objective."""

    name: fields.Name
    kind: Annotated[str, fields.choice(KINDS)]
    by: Annotated[fields.OneOrMore[fields.Text], AfterValidator(_labels)]
    topic: Annotated[str | None, fields.choice(vocabulary.TOPICS)] = None
    where: Annotated[Table | None, PlainValidator(table)] = None
    metric: Annotated[Measure, PlainValidator(_value)]
    measures: Annotated[Mapping[fields.Name, Other], AfterValidator(_of_kind)] = Field({}, validate_default=True)
    only_while: Annotated[tuple[While, ...], PlainValidator(_whiles)] = Field((), alias="while")
    options: Annotated[Any, PlainValidator(_options)] = Field(None, validate_default=True)
    window_ms: Annotated[int, duration(WINDOW_MS, HOUR_MS, WINDOW_MS)] = Field(WINDOW_MS, alias="window")
    m_of_n: Annotated[
        tuple[int, int], fields.parsed(_m_of_n, f"must be like `2` or `3 of 5` windows, at most {WINDOWS_MAX}")
    ] = Field((1, 1), alias="for")
    clear_after: Annotated[int, fields.whole(1, WINDOWS_MAX)] = 3
    min_count: Annotated[int, PlainValidator(_min_count)] = 1
    severity: Annotated[str, fields.choice(SEVERITIES)] = "warning"
    renotify_ms: Annotated[int, duration(MINUTE_MS, RENOTIFY_MAX_MS)] = Field(4 * HOUR_MS, alias="renotify")
    summary: Annotated[str, PlainValidator(_summary)] = ""
    advice: fields.Sentence = ""
    only_checked: Annotated[bool, PlainValidator(_slo)] = Field(False, alias="slo")
    enabled: fields.Flag = True

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        if self.kind == "burn_rate" and self.metric.unit != SHARE:
            better = "write a metric like share(status in error, timeout) or share(ttft_us > 800ms)"
            raise ValueError(f"burn_rate reads a share of bad requests, and {self.metric.text} is none; {better}")
        slots = [slot.name for slot in KINDS[self.kind].measures]
        why = f"is not read: {self.kind} reads {', '.join(slots)}; use it in while"
        unread = [name for name in self.measures if name not in {*slots, *(one.measure for one in self.only_while)}]
        return fields.none_wrong(self, [(name.at, f"measure {name} {why}") for name in unread])

    def rule(self) -> Rule:
        """As data."""
        made = {
            "name": str(self.name),
            "by": tuple(map(str, self.by)),
            "measures": (self.metric, *(replace(one, name=str(name)) for name, one in self.measures.items())),
            "m": self.m_of_n[0],
            "n": self.m_of_n[1],
            "summary": self.summary or f"{self.name}: {self.metric.text} is {{value}}",
            "where_read": self.place,
        }
        return Rule(**{key: value for key, value in self if key in Rule.__slots__} | made)
