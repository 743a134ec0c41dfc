"""Options of a detector, checked against the table of kinds; defaults filled in. Raises ``WrongError``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stream_jobs.rules import vocabulary
from stream_jobs.rules.kinds import DetectorKind, Form, Option
from stream_jobs.rules.model import Measure, While
from stream_jobs.rules.units import family, level, level_text, seconds, split
from stream_jobs.yaml_files.nodes import Listing, Node, Scalar, Table
from stream_jobs.yaml_files.problems import Problems, WrongError, nearest, quoted
from stream_jobs.yaml_files.scalars import choice, flag, known_keys, table, whole, word

PAIRS_MAX = 8
RATE_MAX = 10_000.0


def options_of(
    kind: DetectorKind, node: Table | None, measures: Mapping[str, Measure], by: Sequence[str], at: str, told: Problems
) -> dict[str, Any]:
    """Every option of the kind by name. All mistakes are collected in ``told``."""
    found: dict[str, Any] = {option.name: option.default for option in kind.options}
    for wrong in known_keys(node, f"options of {kind.name}", tuple(found)) if node else ():
        told.add(wrong.at, wrong.what)
    for option in kind.options:
        given = node.get(option.name) if node else None
        if given is not None and _given(node, option.name):
            with told.collected():
                found[option.name] = _option(option, given, measures, by)
    for group in kind.one_of:
        if sum(_given(node, name) for name in group) != 1:
            told.add(node.at if node else at, f"options: give {' or '.join(group)}, one of them")
    for option in kind.options:
        if option.form is Form.DIMENSION and found[option.name] not in by:
            told.add(at, f"{option.name} = {found[option.name]} must be one of by: {', '.join(by)}")
    with told.collected():
        _relations(kind, found, node, at)
    return found


def _given(node: Table | None, name: str) -> bool:
    found = node.get(name) if node else None
    return found is not None and not (isinstance(found, Scalar) and found.null)


def _option(option: Option, node: Node, measures: Mapping[str, Measure], by: Sequence[str]) -> Any:
    if option.form is Form.LEVEL:
        if option.of not in measures:
            raise WrongError(node.at, f"{option.name} needs the measure {option.of}; add it under measures")
        return level_of(option.name, node, measures[option.of], signed=option.signed)
    if option.form is Form.FLAG:
        return flag(node, option.name)
    if option.form is Form.CHOICE:
        return choice(node, option.name, option.choices)
    if option.form is Form.DIMENSION:
        return word(node, option.name)
    if option.form is Form.PAIRS:
        return _pairs(node)
    if option.form is Form.WHOLE:
        return whole(node, option.name, option.low or 0, option.high or 10**9)
    return _number(option, node)


def level_of(name: str, node: Node, measure: Measure, *, signed: bool = False) -> float:
    """A level in the unit of a measure, within what the measure can be."""
    text = word(node, name)
    found = level(text, measure.unit)
    if found is None:
        raise WrongError(node.at, f"{name} = {quoted(text)}: {_unit_sentence(text, measure)}")
    low, high = vocabulary.bounds(measure)
    if signed:
        low = -high
    if not low <= found <= high:
        raise WrongError(
            node.at,
            f"{name} = {quoted(text)} is out of reach: {measure.text} lies between "
            f"{level_text(low, measure.unit)} and {level_text(high, measure.unit)}",
        )
    return found


def _unit_sentence(text: str, measure: Measure) -> str:
    words = family(measure.unit)
    units = [one for one in words if one]
    apart = split(text)
    if apart is None:
        return "must be a finite number" + (f" with a unit ({', '.join(units)})" if units else "")
    if not units:
        return f"{measure.text} has no unit; write the number alone"
    must = f"{measure.text} is in {measure.unit}"
    if not apart[1]:
        return f"{must}; write the unit: {', '.join(units)}"
    return f"{must}; unit {quoted(apart[1])} does not fit, {nearest(apart[1], units)}"


def _number(option: Option, node: Node) -> float:
    text = word(node, option.name)
    found = _read(option.form, text)
    low = -RATE_MAX * 1e6 if option.low is None else option.low
    high = 1e12 if option.high is None else option.high
    if found is None or not low <= found <= high:
        raise WrongError(
            node.at, f"{option.name} = {quoted(text)} must be a {option.form.value} from {low:g} to {high:g}"
        )
    return found


def _read(form: Form, text: str) -> float | None:
    if form is Form.SECONDS:
        return seconds(text)
    unit = {Form.SHARE: "share", Form.PERCENT: "percent"}.get(form, "")
    if unit == "percent":
        return level(text.removesuffix("%"), "")
    return level(text, unit)


def _pairs(node: Node) -> tuple[tuple[float, float, float], ...]:
    said = "pairs must be a list of [long range, short range, rate], such as [1h, 5m, 14.4]"
    if not isinstance(node, Listing) or not 1 <= len(node.items) <= PAIRS_MAX:
        raise WrongError(node.at, f"{said}, at most {PAIRS_MAX}")
    found = []
    for item in node.items:
        words = [one.text for one in item.items if isinstance(one, Scalar)] if isinstance(item, Listing) else []
        if len(words) != 3:
            raise WrongError(item.at, said)
        long_s, short_s, rate = seconds(words[0]), seconds(words[1]), level(words[2], "")
        if long_s is None or short_s is None or rate is None:
            raise WrongError(item.at, said)
        if not 60 <= short_s < long_s <= 30 * 86_400 or not 0 < rate <= RATE_MAX:
            raise WrongError(item.at, f"{said}; 1m <= short < long <= 30d, rate above 0")
        found.append((long_s, short_s, rate))
    return tuple(found)


_NOT_ABOVE = (
    ("leave_sigmas", "enter_sigmas"),
    ("leave_percent", "percent"),
    ("after_s", "forget_after_s"),
)


def _relations(kind: DetectorKind, found: Mapping[str, Any], node: Table | None, at: str) -> None:
    """Leaving lies on the well side of entering, and silence is forgotten after it was told."""

    def where(name: str) -> str:
        return node.key(name).at if node and node.get(name) else at

    for less, more in _NOT_ABOVE:
        if less in found and found[less] > found[more]:
            raise WrongError(where(less), f"{less} must not be above {more}, else it clears before it fires")
    leave = found.get("leave")
    if leave is None:
        return
    above, below = found.get("above"), found.get("below")
    if kind.name == "trend":
        above = found["min_slope_per_hour"]
    if above is not None and leave > above:
        raise WrongError(where("leave"), "leave lies on the wrong side: it must be at or below the entering level")
    if below is not None and leave < below:
        raise WrongError(where("leave"), "leave lies on the wrong side: it must be at or above the entering level")


def whiles_of(node: Node, measures: Mapping[str, Measure]) -> tuple[While, ...]:
    """``{temperature: {below: 75C}}``: conditions on other measures of the rule."""
    found = []
    for key, bounds in table(node, "while").pairs:
        name = key.text
        if name not in measures:
            raise WrongError(key.at, f"while: no measure {quoted(name)}; {nearest(name, measures)}")
        inner = table(bounds, f"while {name}")
        for wrong in known_keys(inner, f"while {name}", ("above", "below")):
            raise wrong
        low, high = (
            None if (one := inner.get(end)) is None else level_of(end, one, measures[name])
            for end in ("above", "below")
        )
        if low is None and high is None:
            raise WrongError(key.at, f"while {name}: give above or below or both")
        if low is not None and high is not None and low >= high:
            raise WrongError(key.at, f"while {name}: above must be less than below")
        found.append(While(name, float("-inf") if low is None else low, float("inf") if high is None else high))
    return tuple(found)
