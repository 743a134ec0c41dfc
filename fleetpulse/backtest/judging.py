"""Many series of numbers under one detector: what it expects of each, how far away values are, when it fires. Pure.

The detector and the counting of m in n windows are those of the alert job. Series that have a value as often share a
frame, however they differ in length and begin: each is put back by whole weeks into the first one, so that hours of day
and week stay what they are, and stands in the frames of its own windows only. What was never there is judged nowhere.
Time that steps back goes on in later frames, in the order of the series. What a series gets does not depend on the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fleetpulse.backtest.series_file import Points
from schemas.limits import DAY_MS
from stream_jobs.insight.detectors import DETECTORS
from stream_jobs.insight.firing import BITS, Firing
from stream_jobs.insight.frame import Detection, Floats, Frame, Mask, Whole
from stream_jobs.rules.kinds import KINDS
from stream_jobs.rules.model import Function, Measure, Rule

HALF_LIFE_INTERVALS = 300
"""What a baseline remembers, where nothing is said: a day of five-minute values."""
OF_INTERVALS = frozenset({"deviation", "moving_average"})
"""Kinds whose defaults are made for windows of seconds: in files they follow the interval."""
POINTS_MAX = 4_000_000
"""Of one go: some 500 MB."""
_WEEK_MS = 7 * DAY_MS
_REPORT_EVERY = 256


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
    """By point of a series: what was expected, within which limits, how far out it is, and whether the rule fires after
    it. NaN where there is no expectation; a score there is 0."""

    baseline: Floats
    low: Floats
    high: Floats
    score: Floats
    firing: Mask


Report = Callable[[int, int], None]
"""Takes (points judged, all)."""


def judged(
    rule_for: Callable[[int], Rule], every: Sequence[Points], report: Report = lambda _done, _all: None
) -> Iterator[tuple[int, Judged]]:
    """Every series by its place in ``every``, those that share frames one after the other. ``rule_for`` takes the
    interval in ms."""
    whole, done = sum(len(one) for one in every), 0
    for numbers in _together(every):
        chosen = [every[number] for number in numbers]
        before = done
        frames = _Frames(rule_for(chosen[0].interval_ms), chosen)
        frames.run(lambda points, before=before: report(before + points, whole))  # type: ignore[misc]
        done += sum(len(one) for one in chosen)
        yield from zip(numbers, frames.split(), strict=True)


def _together(every: Sequence[Points]) -> Iterator[list[int]]:
    """Series of one interval, so many as fit."""
    by_interval: dict[int, list[int]] = {}
    for number, one in enumerate(every):
        by_interval.setdefault(one.interval_ms, []).append(number)
    for numbers in by_interval.values():
        chosen: list[int] = []
        room = POINTS_MAX
        for number in numbers:
            if chosen and len(every[number]) > room:
                yield chosen
                chosen, room = [], POINTS_MAX
            chosen.append(number)
            room -= len(every[number])
        yield chosen


class _Frames:
    """Known points of some series in the order in which they are judged."""

    def __init__(self, rule: Rule, every: Sequence[Points]) -> None:
        self._rule, self._series = rule, len(every)
        self._ends = np.cumsum([len(one) for one in every])
        values = np.concatenate([one.values for one in every])
        self._known = np.isfinite(values)
        of_series = [np.isfinite(one.values) for one in every]
        window, key = _in_order([one.at_ms[known] for one, known in zip(every, of_series, strict=True)], rule.window_ms)
        order = np.argsort(key, kind="stable")
        self._places = np.flatnonzero(self._known)[order]
        self._slots = np.repeat(np.arange(self._series), np.diff(self._ends, prepend=0))[self._places]
        self._values, self._window = values[self._places], window[order]
        elapsed = [_elapsed(one.at_ms[known], rule.window_ms) for one, known in zip(every, of_series, strict=True)]
        self._elapsed = np.concatenate(elapsed)[order]
        key = key[order]
        self._edges = np.concatenate([np.flatnonzero(np.diff(key, prepend=key[:1] - 1)), [len(key)]])
        self._result = {name: np.full(len(values), np.nan) for name in ("baseline", "low", "high", "score")}
        self._firing = np.zeros(len(values), np.bool_)

    def run(self, report: Callable[[int], None]) -> None:
        """Judge all."""
        rule = self._rule
        detector, fires = DETECTORS[rule.kind](rule), _Fires(rule, self._series)
        detector.grow(self._series)
        ones = np.ones(self._series, np.int64)
        sorted_results = {name: np.full(len(self._places), np.nan) for name in self._result}
        sorted_firing = np.zeros(len(self._places), np.bool_)
        edges = self._edges.tolist()
        for number, (begin, end) in enumerate(pairwise(edges)):
            slots, rows = self._slots[begin:end], slice(begin, end)
            window_ms = int(self._window[begin]) * rule.window_ms
            values = {"value": self._values[rows]}
            frame = Frame(window_ms, rule.window_ms, slots, values, ones[: end - begin], fires.firing[slots])
            detection = detector.detect(frame)
            sorted_firing[rows] = fires.step(frame, detection, self._elapsed[rows])
            for name, found in sorted_results.items():
                found[rows] = getattr(detection, name)
            if number % _REPORT_EVERY == 0:
                report(begin)
        for name, found in sorted_results.items():
            self._result[name][self._places] = found
        self._firing[self._places] = sorted_firing
        last = np.maximum.accumulate(np.where(self._known, np.arange(len(self._known)), -1))
        lengths = np.diff(self._ends, prepend=0)
        begins = np.repeat(self._ends - lengths, lengths)
        self._firing = np.where(last >= begins, self._firing[last], False)

    def split(self) -> Iterator[Judged]:
        """By series."""
        self._result["score"] = score(self._result["score"])
        for begin, end in zip([0, *self._ends[:-1].tolist()], self._ends.tolist(), strict=True):
            yield Judged(**{name: one[begin:end] for name, one in self._result.items()}, firing=self._firing[begin:end])


class _Fires:
    """``Firing`` where each series has a clock of its own: one that is absent waits as it is."""

    def __init__(self, rule: Rule, series: int) -> None:
        self._one = Firing(rule.m, rule.n, rule.clear_after, rule.window_ms)
        self._one.grow(series)
        self._last_n = np.uint64((1 << rule.n) - 1)
        self._calm = True

    @property
    def firing(self) -> Mask:
        """Per slot."""
        return self._one.firing

    def step(self, frame: Frame, detection: Detection, elapsed: Whole) -> Mask:
        """Which of the frame's series fire now. ``elapsed``: windows since the last of each."""
        if self._calm and not detection.beyond.any():
            return np.zeros(len(frame.slots), np.bool_)
        state = self._one.state
        bits = state["bits"][frame.slots]
        state["bits"][frame.slots] = np.where(
            elapsed < BITS, bits << np.minimum(elapsed, BITS - 1).astype(np.uint64), 0
        )
        state["heard_ms"][:] = frame.end_ms
        self._one.drop(self._one.step(frame, detection, 0))
        self._calm = not (state["bits"] & self._last_n).any() and not state["firing"].any()
        return self._one.firing[frame.slots]


def _in_order(every: Sequence[Whole], interval_ms: int) -> tuple[Whole, Whole]:
    """Of all points of some series: the window, in the week in which its series begins, and a number that orders them:
    first how often time went back before it, then the window, then how often that came before."""
    backs, windows, again = [], [], []
    for at_ms in every:
        week_ms = at_ms[:1] // _WEEK_MS * _WEEK_MS + at_ms[:1] % interval_ms
        window = (at_ms - week_ms + interval_ms // 2) // interval_ms
        step = np.diff(window, prepend=window[:1])
        place = np.arange(len(window))
        begins = np.maximum.accumulate(np.where((step != 0) | (place == 0), place, 0)) if len(window) else place
        backs.append(np.cumsum(step < 0))
        windows.append(window)
        again.append(place - begins)
    back, window, more = (np.concatenate(each) for each in (backs, windows, again))
    first = int(window.min(initial=0))
    span, times = int(window.max(initial=0)) - first + 1, int(more.max(initial=0)) + 1
    return window, (back * span + (window - first)) * times + more


def _elapsed(at_ms: Whole, interval_ms: int) -> Whole:
    return np.maximum(np.rint(np.diff(at_ms, prepend=at_ms[:1]) / interval_ms), 1).astype(np.int64)


def score(ratio: Floats) -> Floats:
    """How far out values are, 1 being the entering level, as numbers below 1: 0 where the series usually is or nothing
    is known, 0.5 at the entering level, and the further the more, in full order."""
    above = np.where(ratio > 0, ratio, 0.0)
    return above / (1.0 + above)
