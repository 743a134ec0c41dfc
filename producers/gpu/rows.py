"""Rows of ``gpu.samples`` from two readings of a GPU. Pure.

Gauges are those of the later reading. Counters are emitted as their growth since the reading in which they were known
last, so the next reading makes up for a value that could not be read once. A row covers the time since the reading
before; where that crosses the edge of a window (after a gap) there is a row for each window: all but the last hold
differences only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from producers.differences import INTERVAL_MS_MAX, RowValues, since, split
from producers.gpu.fields import BY_NAME, COUNTER_KEYS, GROWTH_KEYS

Parts = Mapping[str, tuple[str, ...]]

CUT_TO_INTERVAL = ("throttled_us", "throttled_power_us", "throttled_thermal_us")
"""Time that is counted once for each of several causes at the same moment."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Values of one GPU by key. ``monotonic_ms`` counts from the start of the machine."""

    at_ms: int
    monotonic_ms: int
    values: Mapping[str, int]


def counters(before: Reading | None, now: Reading) -> Reading:
    """What to compare the next reading with: the newest known value of every counter."""
    kept = {key: value for key, value in now.values.items() if key in COUNTER_KEYS}
    return Reading(now.at_ms, now.monotonic_ms, {**before.values, **kept} if before is not None else kept)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the fields of a plan are made of, ready to be walked eight times a second.

    ``plain``: name and key of gauges that are one value as it is. ``levels``, those that are sums or have a marker for
    unknown: name, keys, that marker. ``counts``: name, keys, the most it may grow in a second, and whether it is cut to
    the interval.
    ``growths``, those that are read as growth: name, key, the most it may be in a second.
    """

    plain: tuple[tuple[str, str], ...]
    levels: tuple[tuple[str, tuple[str, ...], int | None], ...]
    counts: tuple[tuple[str, tuple[str, ...], int, bool], ...]
    growths: tuple[tuple[str, str, int], ...]


def shape_of(parts: Parts) -> Shape:
    """From the keys that add up to each field."""
    fields = [(BY_NAME[name], keys) for name, keys in parts.items()]
    gauges = [(field, keys) for field, keys in fields if field.nature == "gauge"]
    plain = [(field.name, keys[0]) for field, keys in gauges if len(keys) == 1 and field.unknown is None]
    known = dict(plain)
    counters = [(field, keys) for field, keys in fields if field.nature == "counter"]
    growths = [(field.name, keys[0], field.most_per_s) for field, keys in counters if GROWTH_KEYS.issuperset(keys)]
    return Shape(
        plain=tuple(plain),
        levels=tuple((field.name, keys, field.unknown) for field, keys in gauges if field.name not in known),
        counts=tuple(
            (field.name, keys, field.most_per_s, field.name in CUT_TO_INTERVAL)
            for field, keys in counters
            if not GROWTH_KEYS.issuperset(keys)
        ),
        growths=tuple(growths),
    )


def sample_rows(shape: Shape, before: Reading | None, now: Reading) -> list[RowValues]:
    """Rows in order of time, at least one; each with its ``at_ms``. ``before``: as ``counters`` gave it."""
    levels = _levels(shape, now.values)
    interval_ms = now.monotonic_ms - before.monotonic_ms if before is not None else 0
    if before is None or not 0 < interval_ms <= INTERVAL_MS_MAX:
        return [{"at_ms": now.at_ms, **levels}]
    rows = split(now.at_ms, interval_ms, _grown(shape, before.values, now.values, interval_ms))
    return [*rows[:-1], {**levels, **rows[-1]}]


def _levels(shape: Shape, values: Mapping[str, int]) -> RowValues:
    """Each the sum of its parts; None when any is not known."""
    levels: RowValues = {name: values.get(key) for name, key in shape.plain}
    for name, keys, unknown in shape.levels:
        total: int | None = 0
        for key in keys:
            value = values.get(key)
            total = None if total is None or value is None or value == unknown else total + value
        levels[name] = total
    return levels


def _grown(shape: Shape, before: Mapping[str, int], now: Mapping[str, int], interval_ms: int) -> RowValues:
    """Each the sum over the parts known in both readings; None when there is none, or when it grew impossibly fast."""
    grown: RowValues = {}
    for name, keys, most_per_s, cut in shape.counts:
        total: int | None = None
        for key in keys:
            part = since(before.get(key), now.get(key))
            if part is not None:
                total = part + (total or 0)
        total = _possible(total, most_per_s, interval_ms)
        grown[name] = min(total, interval_ms * 1_000) if cut and total else total
    for name, key, most_per_s in shape.growths:
        grown[name] = _possible(now.get(key), most_per_s, interval_ms)
    return grown


def _possible(amount: int | None, most_per_s: int, interval_ms: int) -> int | None:
    return None if amount and amount * 1_000 > most_per_s * max(interval_ms, 1_000) else amount
