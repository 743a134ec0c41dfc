"""Rows of ``gpu.samples`` from two readings of a GPU. Pure.

Levels are those of the later reading. Counters are told as what they grew by, each since the reading in which it was
known last, so that a figure that could not be read once is made up for by the next. A row covers the time since the
reading before; where that reaches over the edge of a window (after a gap) there is a row for each window: all but the
last hold differences only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from producers.differences import INTERVAL_MS_MAX, apportioned, since, spans
from producers.gpu.fields import BY_NAME, COUNTER_KEYS
from producers.gpu.sources import GpuField

Parts = Mapping[str, tuple[str, ...]]
Figures = dict[str, int | None]

CUT_TO_INTERVAL = ("throttled_us", "throttled_power_us", "throttled_thermal_us")
"""Time that is counted once for each of several causes at the same moment."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one GPU told, by key. ``monotonic_ms`` counts from the start of the machine."""

    at_ms: int
    monotonic_ms: int
    values: Mapping[str, int]


def counters(before: Reading | None, now: Reading) -> Reading:
    """What to compare the next reading with: the newest known value of every counter."""
    kept = {key: value for key, value in now.values.items() if key in COUNTER_KEYS}
    return replace(now, values={**before.values, **kept} if before is not None else kept)


def sample_rows(parts: Parts, before: Reading | None, now: Reading) -> list[Figures]:
    """Rows in order of time, at least one; each with its ``at_ms``. ``before``: as ``counters`` gave it."""
    gauges: Figures = {name: _level(BY_NAME[name], keys, now) for name, keys in parts.items()}
    levels = {name: value for name, value in gauges.items() if BY_NAME[name].nature == "gauge"}
    interval_ms = now.monotonic_ms - before.monotonic_ms if before is not None else 0
    if before is None or not 0 < interval_ms <= INTERVAL_MS_MAX:
        return [{"at_ms": now.at_ms, **levels}]
    grown = {
        name: _growth(BY_NAME[name], keys, before, now, interval_ms)
        for name, keys in parts.items()
        if BY_NAME[name].nature == "counter"
    }
    rows = split(now.at_ms, interval_ms, grown)
    return [*rows[:-1], {**levels, **rows[-1]}]


def split(at_ms: int, interval_ms: int, grown: Mapping[str, int | None]) -> list[Figures]:
    """``grown`` over the ``interval_ms`` before ``at_ms``, a row per window; every figure adds up over the rows."""
    pieces = spans(at_ms - interval_ms, at_ms)
    rows: list[Figures] = [{"at_ms": piece.at_ms, "interval_ms": piece.interval_ms} for piece in pieces]
    weights = [piece.interval_ms for piece in pieces]
    for name, amount in grown.items():
        shares = [None] * len(rows) if amount is None else apportioned(amount, weights)
        for row, share in zip(rows, shares, strict=True):
            row[name] = share
    return rows


def _level(field: GpuField, keys: tuple[str, ...], now: Reading) -> int | None:
    """The sum of its parts; None when any is not known."""
    total = 0
    for key in keys:
        value = now.values.get(key)
        if value is None or value == field.unknown:
            return None
        total += value
    return total


def _growth(field: GpuField, keys: tuple[str, ...], before: Reading, now: Reading, interval_ms: int) -> int | None:
    """The sum over the parts known in both readings; None when there is none, or when it grew impossibly fast."""
    known = [since(before.values.get(key), now.values.get(key)) for key in keys]
    grown = [amount for amount in known if amount is not None]
    if not grown:
        return None
    total = sum(grown)
    if total > field.most_per_s * max(interval_ms, 1_000) // 1_000:
        return None
    return min(total, interval_ms * 1_000) if field.name in CUT_TO_INTERVAL else total
