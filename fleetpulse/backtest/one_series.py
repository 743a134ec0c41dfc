"""One series of numbers under one detector: what it expects, how far away each value is, when it fires.

The detector and the counting of m in n windows are those of the alert job; the frame has one slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetpulse.backtest.series_file import Point
from stream_jobs.insight.detectors import DETECTORS
from stream_jobs.insight.firing import Firing
from stream_jobs.insight.frame import Detection, Frame
from stream_jobs.rules.kinds import KINDS
from stream_jobs.rules.model import Function, Measure, Rule

HALF_LIFE_INTERVALS = 300
"""What a baseline remembers, where nothing is said: a day of five-minute values."""
OF_INTERVALS = frozenset({"deviation", "moving_average"})
"""Kinds whose defaults are made for windows of seconds: in files they follow the interval."""


def rule_of(kind: str, interval_ms: int, options: dict[str, Any], m: int = 1, n: int = 1, clear_after: int = 3) -> Rule:
    """A rule of a kind over one value every ``interval_ms``; what ``options`` leave out has its default."""
    known = {option.name: option.default for option in KINDS[kind].options}
    if kind in OF_INTERVALS:
        known["half_life_s"] = known["relearn_after_s"] = HALF_LIFE_INTERVALS * interval_ms / 1_000
    measure = Measure("value", "", Function.LAST, "value", text="value")
    return Rule(
        kind, kind, (measure,), (), "warning", "{value}", window_ms=interval_ms, m=m, n=n, clear_after=clear_after,
        options={**known, **options},
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """A point, what was expected of it, and whether the rule fires after it. NaN where there is no expectation."""

    point: Point
    baseline: float
    low: float
    high: float
    score: float
    firing: bool


def judged(rule: Rule, points: Iterable[Point]) -> Iterator[Judged]:
    """Every point in order. Memory does not grow."""
    detector, firing = DETECTORS[rule.kind](rule), Firing(rule.m, rule.n, rule.clear_after, rule.window_ms)
    detector.grow(1)
    firing.grow(1)
    slots, counts = np.zeros(1, np.int64), np.ones(1, np.int64)
    last_ms: int | None = None
    for point in points:
        frame = Frame(point.at_ms, rule.window_ms, slots, {"value": np.array([point.value])}, counts, firing.firing[:1])
        detection = detector.detect(frame)
        elapsed = 1 if last_ms is None else max(1, round((point.at_ms - last_ms) / rule.window_ms))
        last_ms = point.at_ms
        firing.drop(firing.step(frame, detection, elapsed))
        yield _judged(point, detection, bool(firing.firing[0]))


def _judged(point: Point, detection: Detection, fires: bool) -> Judged:
    baseline, low, high = float(detection.baseline[0]), float(detection.low[0]), float(detection.high[0])
    assert detection.score is not None
    return Judged(point, baseline, low, high, score(float(detection.score[0])), fires)


def score(ratio: float) -> float:
    """How far out a value is, 1 being the entering level, as a number below 1: 0 where the series usually is or nothing
    is known, 0.5 at the entering level, and the further the more, in full order."""
    return ratio / (1.0 + ratio) if ratio > 0 else 0.0
