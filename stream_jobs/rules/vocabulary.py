"""What a rule may name: columns with the functions that fit them, dimensions, and which of them go together.

Everything follows from the tables of events and grouping sets: a new column or set is known here at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from schemas.events.event_fields import AMOUNT_MAX
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import GroupingSet, derived_of, sets_of
from schemas.fields import Field, Role
from schemas.rows.tables import GROUPED
from stream_jobs.rules.model import Function, Measure
from stream_jobs.rules.units import PER_SECOND, SHARE, quotient

FITTING: dict[Role, tuple[Function, ...]] = {
    Role.SKETCH: (Function.PERCENTILE, Function.MEAN, Function.MIN, Function.MAX, Function.ABOVE),
    Role.SKETCH_BINS: (Function.PERCENTILE, Function.ABOVE),
    Role.GAUGE: (Function.MEAN, Function.MIN, Function.MAX, Function.LAST, Function.RATIO, Function.KNOWN),
    Role.DIFFERENCE: (Function.SUM, Function.RATE, Function.RATIO),
}
"""Which functions a column of a role takes."""

ENDS: dict[Function, tuple[str, ...]] = {
    Function.PERCENTILE: ("bins",),
    Function.ABOVE: ("bins",),
    Function.MEAN: ("sum", "count"),
    Function.MIN: ("min",),
    Function.MAX: ("max",),
    Function.LAST: ("last",),
    Function.KNOWN: ("count",),
    Function.SUM: ("sum",),
    Function.RATE: ("sum",),
}
"""Which columns of finals a function of a field reads."""

SHARES = frozenset({Function.SHARE, Function.ABOVE, Function.KNOWN})
RATIO_MAX = 10.0
"""No share of one thing in another is larger: a bare ``85`` where 85 % was meant is refused."""
ANY_MAX = 1e12
_OPEN = frozenset({Function.RATIO, Function.SUM, Function.RATE, Function.COUNT})
"""Functions that may pass their upper bound: it only shows what is written by mistake."""

TOPICS: tuple[str, ...] = tuple(event.topic for event in GROUPED)


def columns(topic: str) -> dict[str, Field]:
    """The columns a measure may name, by name."""
    return {field.name: field for field in BY_TOPIC[topic].of(*FITTING)}


def functions_of(field: Field) -> tuple[Function, ...]:
    """The functions that a column takes."""
    return FITTING[field.role]


def dimensions(topic: str) -> tuple[str, ...]:
    """Every dimension that some grouping set of the topic keeps, in their order."""
    return tuple(dict.fromkeys(name for grouping in sets_of(topic) for name in grouping.dimensions))


def allowed(topic: str, dimension: str) -> tuple[str, ...]:
    """The closed set of a dimension's values; empty when anything may come."""
    for derived in derived_of(topic):
        if derived.name == dimension:
            return derived.words
    return BY_TOPIC[topic].field(dimension).allowed


def answering(topic: str, wanted: Iterable[str], by: Iterable[str] = ()) -> GroupingSet | None:
    """The grouping set that keeps all dimensions wanted and most of ``by``, among those the smallest; None when none
    keeps what is wanted."""
    needed, liked = set(wanted), set(by)
    fitting = [one for one in sets_of(topic) if needed <= set(one.dimensions)]
    return min(fitting, key=lambda one: (-len(liked & set(one.dimensions)), len(one.dimensions)), default=None)


def conditions(measure: Measure) -> tuple[str, ...]:
    """The dimensions that a measure's own conditions need."""
    match = (measure.match.dimension,) if measure.match else ()
    return tuple(dict.fromkeys([*(where.dimension for where in measure.where), *match]))


def fills_with_zero(measure: Measure) -> bool:
    """True where no row means zero: no event is a count of none, and so is its rate."""
    return measure.function is Function.COUNT or (measure.function is Function.RATE and not measure.field)


def columns_read(measure: Measure) -> tuple[str, ...]:
    """Columns of finals behind a measure."""
    if not measure.field:
        return ("event_count",)
    topic = columns(measure.topic)
    if measure.function is Function.RATIO:
        role = topic[measure.field].role
        ends = ENDS[Function.MEAN] if role is Role.GAUGE else ENDS[Function.SUM]
        return tuple(f"{name}_{end}" for name in (measure.field, measure.over) for end in ends)
    if topic[measure.field].role is Role.SKETCH_BINS:
        return (measure.field,)
    return tuple(f"{measure.field}_{end}" for end in ENDS[measure.function])


def unit_of(topic: str, function: Function, field: str, over: str = "") -> str:
    """Unit of a measure. Ratios of one family are a share: 0.85 of the memory, 0.5 of the time."""
    known = columns(topic)
    if function in SHARES:
        return SHARE
    if function is Function.COUNT:
        return ""
    unit = known[field].unit if field else ""
    if function is Function.RATE:
        return f"{unit or '1'}{PER_SECOND}"
    if function is Function.RATIO:
        below = known[over].unit
        return SHARE if quotient(unit, below) is not None else f"{unit or '1'}/{below or '1'}"
    return unit


def bounds(measure: Measure) -> tuple[float, float]:
    """Between what the measure can lie at all; a level outside can never be passed."""
    if measure.function in SHARES:
        return 0.0, 1.0
    if measure.function is Function.RATIO:
        return 0.0, RATIO_MAX if measure.unit == SHARE else ANY_MAX
    if measure.function in (Function.SUM, Function.RATE, Function.COUNT):
        return 0.0, float(AMOUNT_MAX)
    field = columns(measure.topic)[measure.field]
    return float(field.low or 0), float(ANY_MAX if field.high is None else field.high)


def reach(measure: Measure) -> tuple[float, float]:
    """What the measure is never below and never above."""
    low, high = bounds(measure)
    return low, inf if measure.function in _OPEN or high >= ANY_MAX else high
