"""Options of a detector as a model made of the table of kinds; defaults filled in. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, create_model

from stream_jobs.rules import vocabulary
from stream_jobs.rules.kinds import KINDS, Form, Option
from stream_jobs.rules.model import Measure
from stream_jobs.rules.units import family, level, level_text, seconds, split
from stream_jobs.yaml_files import fields
from stream_jobs.yaml_files.errors import nearest, quoted
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
    return fields.none_wrong(found, [*_wrong(kind, found, table, beside.by)])


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
    else:
        found = level(text, "share" if option.form is Form.SHARE else "")
    low = -RATE_MAX * 1e6 if option.low is None else option.low
    high = 1e12 if option.high is None else option.high
    if found is None or not low <= found <= high:
        raise ValueError(f"{quoted(text)} must be a {option.form.value} from {low:g} to {high:g}")
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
    for less, more in _NOT_ABOVE:
        if less in found and found[less] > found[more]:
            yield table.at_of(less), f"{less} must not be above {more}, else it clears before it fires"
    leave, above, below = found.get("leave"), found.get("above"), found.get("below")
    above = found["min_slope_per_hour"] if kind == "trend" else above
    wrong_side = "leave lies on the wrong side: it must be at or"
    if leave is not None and above is not None and leave > above:
        yield table.at_of("leave"), f"{wrong_side} below the entering level"
    if leave is not None and below is not None and leave < below:
        yield table.at_of("leave"), f"{wrong_side} above the entering level"
