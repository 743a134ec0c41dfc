"""Are the job's partial rows and the engine's tables the same? The database compares them before a ratio is printed.

Our rows count positive and theirs negative; added up by window and series every count and sum must be zero, so a series
that only one side has is a difference too. Quantiles of both sides come from sketches: each lies within its sketch's
error of the same order statistic (rank ``floor(q (n - 1))`` on both), so they may differ by both errors together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lab.bench import peer
from schemas.errors import FleetpulseError
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import GroupingSet, sets_of
from schemas.fields import Role
from schemas.rows.tables import PARTIALS
from schemas.sketch import GAMMA, RELATIVE_ERROR_MAX, ZERO_BIN

Query = Callable[[str], list[tuple[Any, ...]]]
_ERROR_MAX = (1 + RELATIVE_ERROR_MAX) / (1 - peer.ACCURACY) - 1 + 1e-4
"""One side at most too high, the other at most too low, of one true value (the two errors are all but equal)."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared. ``quantile_error_max`` is the greatest relative difference seen."""

    grouping: str
    windows_and_series: int
    events: int
    values_compared: int
    quantiles_compared: int
    quantile_error_max: float


def ours_table(topic: str) -> str:
    """Where the job's partial rows are put for the comparison."""
    return f"{peer.DATABASE}.{PARTIALS[topic].name}"


def ours_ddl(topic: str) -> str:
    """Statement that makes that table."""
    columns = ", ".join(f"`{f.name}` {f.kind.value}" for f in PARTIALS[topic].fields)
    return f"CREATE TABLE {ours_table(topic)} ({columns}) ENGINE = MergeTree ORDER BY window_ms"


def compare(query: Query, topics: Iterable[str]) -> list[Comparison]:
    """One comparison per grouping set; raises FleetpulseError with the first few differences."""
    return [_compare(query, grouping) for topic in topics for grouping in sets_of(topic)]


def _compare(query: Query, grouping: GroupingSet) -> Comparison:
    keys = ", ".join(("window_ms", *grouping.dimensions))
    added, extremes = _columns(grouping.topic)
    ours, theirs = ours_table(grouping.topic), f"{peer.DATABASE}.{peer.group_table(grouping)}"
    only = f"WHERE grouping = '{grouping.name}'"
    mine = _side(added, extremes, 1, f"{ours} {only}", keys)
    other = _side(added, extremes, -1, theirs, keys)
    unequal = " OR ".join(f"sum({name}) != 0" for name in (*added, *extremes))
    wrong = query(
        f"SELECT {keys}, {', '.join(f'sum({name})' for name in added)}"
        f" FROM ({mine} UNION ALL {other}) GROUP BY {keys} HAVING {unequal} LIMIT 3"
    )
    if wrong:
        totals = [query(f"SELECT sum(event_count) FROM {table}") for table in (f"{ours} {only}", theirs)]
        raise FleetpulseError(f"{grouping.name}: {totals} events; ours minus theirs, by series: {wrong}")
    counted = query(f"SELECT count(), sum(n) FROM (SELECT sum(event_count) AS n FROM {theirs} GROUP BY {keys})")[0]
    quantiles, error = _quantiles(query, grouping, keys)
    values = counted[0] * (len(added) + len(extremes))
    return Comparison(grouping.name, counted[0], counted[1], values, quantiles, error)


def _columns(topic: str) -> tuple[list[str], list[str]]:
    """Columns that add up, and columns of extremes, that both sides have."""
    event = BY_TOPIC[topic]
    sums = [f"{f.name}_sum" for f in event.of(Role.SKETCH, Role.GAUGE, Role.DIFFERENCE)]
    sums += [f.name for f in event.of(Role.SKETCH_BINS)]
    gauges = [f.name for f in event.of(Role.GAUGE)]
    extremes = [f"{name}_{which}" for name in gauges for which in ("min", "max")]
    return ["event_count", *(f"{name}_count" for name in gauges), *sums], extremes


def _side(added: list[str], extremes: list[str], sign: int, source: str, keys: str) -> str:
    parts = [f"{sign} * {_total(name)} AS {name}" for name in added]
    parts += [f"{sign} * toInt64(ifNull({name[-3:]}({name}), -1)) AS {name}" for name in extremes]
    return f"SELECT {keys}, {', '.join(parts)} FROM {source} GROUP BY {keys}"


def _total(name: str) -> str:
    """A sum as a signed number; of bins the sum of (index x count), which only equal sketches share by accident."""
    if name.endswith("_bins"):
        merged = f"sumMap({name})"
        return f"toInt64(arraySum((k, v) -> (k + 2) * v, mapKeys({merged}), mapValues({merged})))"
    return f"sum(toInt64(ifNull({name}, 0)))"


def _quantiles(query: Query, grouping: GroupingSet, keys: str) -> tuple[int, float]:
    """How many quantiles were compared, and the greatest relative difference."""
    names = [f.name for f in BY_TOPIC[grouping.topic].of(Role.SKETCH)]
    if not names:
        return 0, 0.0
    bins = ", ".join(f"{from_bins(f'sumMap({name}_bins)')} AS {name}" for name in names)
    levels = ", ".join(map(str, peer.QUANTILES))
    states = ", ".join(f"quantilesDDMerge({peer.ACCURACY}, {levels})({name}_state) AS {name}" for name in names)
    ours, theirs = ours_table(grouping.topic), f"{peer.DATABASE}.{peer.group_table(grouping)}"
    mine = f"SELECT {keys}, {bins} FROM {ours} WHERE grouping = '{grouping.name}' GROUP BY {keys}"
    other = f"SELECT {keys}, {states} FROM {theirs} GROUP BY {keys}"
    both = ", ".join(f"groupArray({name})" for name in names)
    pairs = query(f"SELECT {both} FROM ({mine} UNION ALL {other}) GROUP BY {keys}")
    compared, worst = 0, 0.0
    for row in pairs:
        for first, second in row:
            for a, b in zip(first, second, strict=True):
                if a != a or b != b:  # no value known: NaN on both sides
                    if (a != a) != (b != b):
                        raise FleetpulseError(f"{grouping.name}: only one side knows a quantile: {a}, {b}")
                    continue
                compared += 1
                worst = max(worst, abs(a - b) / max(min(a, b), 0.5))
    if worst > _ERROR_MAX:
        raise FleetpulseError(f"{grouping.name}: quantiles differ by {worst:.2%}, both errors allow {_ERROR_MAX:.2%}")
    return compared, worst


def from_bins(merged: str, at: Iterable[float] = peer.QUANTILES) -> str:
    """SQL for the quantiles of merged bins: NaN where there is nothing."""
    levels = ", ".join(map(str, at))
    sums = f"arrayCumSum(mapValues({merged}))"
    index = f"arrayFirstIndex(c -> c > floor(q * ({sums}[-1] - 1)), {sums})"
    key = f"mapKeys({merged})[{index}]"
    value = f"if({key} = {ZERO_BIN}, 0., 2 * pow({GAMMA!r}, {key}) / ({GAMMA!r} + 1))"
    return f"arrayMap(q -> if(empty({sums}), nan, {value}), [{levels}])"
