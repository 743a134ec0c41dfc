"""Rows of windows against the generator's truth: every window, every series, every measure, exactly.

The truth is raw values kept by the generator and aggregated in plain numpy; nothing of codecs, fold or sketch is used
on that side. Percentiles are compared per window and series within the sketch's promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleetpulse.sql.database import Database
from lab.simulator.truth import Groups, Measure, Truth, measured_fields
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import GROUPING_SETS, GroupingSet
from schemas.fields import Role
from schemas.rows.tables import PARTIALS
from schemas.sketch import RELATIVE_ERROR_MAX, VALUE_MAX, quantile

QUANTILES = (0.5, 0.95, 0.99)
DIFFERENCES_SHOWN_MAX = 20
_SLACK = 1e-9  # of floating point in the bin's value, not of the sketch


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where table and truth disagree."""

    topic: str
    grouping: str
    key: tuple[Any, ...]
    measure: str
    truth: object
    table: object

    def __str__(self) -> str:
        return f"{self.topic} {self.grouping} {self.key} {self.measure}: truth {self.truth}, table {self.table}"


Found = Difference | None
"""Of one comparison; None: both are the same."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How much was compared and what differed. ``lost`` and ``doubled`` are events, summed over windows and series."""

    cells: int
    percentiles: int
    lost: int
    doubled: int
    differences: tuple[Difference, ...]

    @property
    def exact(self) -> bool:
        """Whether nothing differs and something was compared."""
        return self.cells > 0 and not self.differences


Row = Mapping[str, Any]
Rows = dict[tuple[Any, ...], Row]
"""By window and labels of a grouping set: ``events``, and ``.sum``, ``.count``, ``.min``, ``.max`` and ``.bins`` of its
fields."""


def compare(rows_of: Callable[[GroupingSet], Rows], truth: Truth) -> Comparison:
    """Compare all grouping sets with the truth, also those of topics of which it knows no event."""
    lost = doubled = 0
    sums, quantiles = list[Found](), list[Found]()
    for grouping in GROUPING_SETS:
        groups = truth[grouping.topic].groups(grouping.dimensions)
        table = rows_of(grouping)
        for found in _counts(grouping, groups, table):
            sums.append(found)
            if found is not None:
                missing = int(found.truth or 0) - int(found.table or 0)  # type: ignore[call-overload]
                lost, doubled = lost + max(0, missing), doubled + max(0, -missing)
        sums += _measures(grouping, groups, table)
        quantiles += _percentiles(grouping, groups, table)
    differences = tuple(found for found in (*sums, *quantiles) if found is not None)
    return Comparison(len(sums), len(quantiles), lost, doubled, differences)


def stored(database: Database, grouping: GroupingSet) -> Rows:
    """What the partial tables hold."""
    event = BY_TOPIC[grouping.topic]
    columns = ["sum(event_count) AS events"]
    for field in event.of(Role.SKETCH, Role.GAUGE, Role.DIFFERENCE):
        columns.append(f"sum({field.name}_sum) AS `{field.name}.sum`")
        if field.role is not Role.DIFFERENCE:
            columns.append(f"sum({field.name}_count) AS `{field.name}.count`")
            columns.append(f"min({field.name}_min) AS `{field.name}.min`")
            columns.append(f"max({field.name}_max) AS `{field.name}.max`")
    columns += [f"sumMap({field.name}_bins) AS `{field.name}.bins`" for field in event.of(Role.SKETCH)]
    columns += [f"sumMap({field.name}) AS `{field.name}.bins`" for field in event.of(Role.SKETCH_BINS)]
    keys = ", ".join(("window_ms", *grouping.dimensions))
    answer = database.sql(
        f"SELECT {keys}, {', '.join(columns)} FROM {PARTIALS[grouping.topic].name} FINAL"
        " WHERE grouping = {grouping:String} GROUP BY " + keys,
        {"grouping": grouping.name},
    )
    width = 1 + len(grouping.dimensions)
    return {tuple(row[:width]): dict(zip(answer.columns, row, strict=True)) for row in answer.rows}


def _counts(grouping: GroupingSet, groups: Groups, table: Mapping[tuple[Any, ...], Row]) -> Iterator[Found]:
    truth = groups.events()
    for key in truth.keys() | table.keys():
        expected, got = truth.get(key, 0), int(table[key]["events"]) if key in table else 0
        yield None if expected == got else Difference(grouping.topic, grouping.name, key, "events", expected, got)


def _measures(grouping: GroupingSet, groups: Groups, table: Mapping[tuple[Any, ...], Row]) -> Iterator[Found]:
    for name in measured_fields(grouping.topic):
        summed_only = BY_TOPIC[grouping.topic].field(name).role is Role.DIFFERENCE
        for key, measure in groups.measure(name).items():
            row = table.get(key)
            if row is None:
                continue  # the counts show it
            expected, got = _expected(measure, summed_only), _got(row, name, summed_only)
            yield None if expected == got else Difference(grouping.topic, grouping.name, key, name, expected, got)
    for field in BY_TOPIC[grouping.topic].of(Role.SKETCH_BINS):
        for key, bins in groups.bins(field.name).items():
            row = table.get(key)
            if row is not None:
                got_bins = dict(row[f"{field.name}.bins"])
                same = got_bins == bins
                yield None if same else Difference(grouping.topic, grouping.name, key, field.name, bins, got_bins)


def _expected(measure: Measure, summed_only: bool) -> tuple[int | None, ...]:
    if summed_only:
        return (measure.total if measure.count else None,)
    return (measure.count, measure.total, measure.least, measure.greatest)


def _got(row: Row, name: str, summed_only: bool) -> tuple[int | None, ...]:
    if summed_only:
        return (row[f"{name}.sum"],)
    return tuple(row[f"{name}.{part}"] for part in ("count", "sum", "min", "max"))


def _percentiles(grouping: GroupingSet, groups: Groups, table: Mapping[tuple[Any, ...], Row]) -> Iterator[Found]:
    for field in BY_TOPIC[grouping.topic].of(Role.SKETCH):
        for q in QUANTILES:
            for key, exact in groups.percentiles(field.name, q).items():
                row = table.get(key)
                if row is None or exact is None or exact > VALUE_MAX:
                    continue
                got = quantile(row[f"{field.name}.bins"], q)
                close = got is not None and abs(got - exact) <= (RELATIVE_ERROR_MAX + _SLACK) * exact
                name = f"{field.name} p{100 * q:g}"
                yield None if close else Difference(grouping.topic, grouping.name, key, name, exact, got)
