"""Turns counters into differences, where the reading before is known. Pure.

Unknown stays unknown. A counter that is lower than before was reset: its value is the growth since the reset (growth
before it is lost and not estimated). Differences belong to the time they cover: an
interval that reaches over the edge of a window is split there, and its amounts with it, in whole numbers that add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from schemas.fields import Event, Role
from schemas.limits import WINDOW_MS

INTERVAL_MS_MAX = 3_600_000
"""Differences over a longer time (a machine that slept) belong to no window: they are left out."""
EDGE_SLACK_MS = 250
"""An interval that ends so little behind an edge (or begins so little before it) is not split there: readings come a
few milliseconds after their tick, and a row for those would be noise."""


RowValues = dict[str, int | None]
"""Numbers of a row by name; None is unknown."""


@dataclass(frozen=True, slots=True)
class Span:
    """Part of an interval inside one window: a row at ``at_ms`` that covers ``interval_ms``."""

    at_ms: int
    interval_ms: int


def spans(begin_ms: int, end_ms: int, window_ms: int = WINDOW_MS, slack_ms: int = EDGE_SLACK_MS) -> list[Span]:
    """(begin, end] cut at the edges of windows, in order; empty when it is empty.

    The last row stands at ``end_ms``, the moment of the reading; each before it at the last millisecond of its window.
    """
    if end_ms <= begin_ms:
        return []
    first = (begin_ms + slack_ms) // window_ms + 1
    last = -(-(end_ms - slack_ms) // window_ms)
    cuts = [begin_ms, *(edge * window_ms for edge in range(first, last)), end_ms]
    return [Span(end if end == end_ms else end - 1, end - start) for start, end in pairwise(cuts)]


def apportioned(amount: int, weights: list[int]) -> list[int]:
    """``amount`` (0 or more) in whole parts by weight; they add up to it, each within 1 of its exact share.

    Weights are 0 or more and not all 0.
    """
    whole = sum(weights)
    shares, passed, given = [], 0, 0
    for weight in weights:
        passed += weight
        shares.append(amount * passed // whole - given)
        given += shares[-1]
    return shares


def split(at_ms: int, interval_ms: int, grown: Mapping[str, int | None]) -> list[RowValues]:
    """``grown`` over the ``interval_ms`` before ``at_ms``, a row per window; every amount adds up over the rows."""
    pieces = spans(at_ms - interval_ms, at_ms)
    if len(pieces) == 1:
        return [{"at_ms": at_ms, "interval_ms": interval_ms, **grown}]
    rows: list[RowValues] = [{"at_ms": piece.at_ms, "interval_ms": piece.interval_ms} for piece in pieces]
    weights = [piece.interval_ms for piece in pieces]
    for name, amount in grown.items():
        shares = [None] * len(rows) if amount is None else apportioned(amount, weights)
        for row, share in zip(rows, shares, strict=True):
            row[name] = share
    return rows


def since(before: int | None, now: int | None) -> int | None:
    """The growth of a counter; None when either reading is unknown."""
    if before is None or now is None:
        return None
    return now - before if now >= before else now


def summed(before: Mapping[str, int] | None, now: Mapping[str, int] | None) -> int | None:
    """The growth of a counter that every device keeps, over the devices of both readings.

    A device that is new may bring a count from elsewhere: it counts from its second reading. None when there is no
    device to compare.
    """
    if before is None or now is None:
        return None
    parts = [since(before[name], now[name]) for name in now if name in before]
    return sum(part for part in parts if part is not None) if parts else None


def share_ppm(part: float, whole: float) -> int | None:
    """``part / whole`` in parts per million within [0, 1,000,000]; None when nothing passed."""
    if whole <= 0:
        return None
    return round(min(1.0, max(0.0, part / whole)) * 1_000_000)


@dataclass(frozen=True, slots=True)
class Bound:
    """Of one number of an event: [low, high]; infinity is no bound."""

    low: int
    high: float


Bounds = Mapping[str, Bound]


def bounds(event: Event) -> Bounds:
    """Of every number that is measured, by name. Take them once: it walks the whole event."""
    numbers = event.of(Role.GAUGE, Role.DIFFERENCE, Role.SKETCH)
    kept = [field for field in event.of(Role.ATTRIBUTE) if field.high is not None]
    return {
        field.name: Bound(0 if field.low is None else field.low, math.inf if field.high is None else field.high)
        for field in [*numbers, *kept]
    }


def within(limits: Bounds, row: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The row with numbers outside their bounds made unknown, and the names of those. Without any it is ``row`` itself.

    A device that answers nonsense for one field would otherwise cost the whole sample.
    """
    wrong = []
    for name, value in row.items():
        bound = None if value is None else limits.get(name)
        if bound is not None and not bound.low <= value <= bound.high:
            wrong.append(name)
    return ({**row, **dict.fromkeys(wrong)} if wrong else row), wrong
