"""Series by shape: how soon a detector sees what is wrong in them, and how often it sees what is not.

Every series is five-minute values of three weeks (of seasons: four), drawn from a seed, with one fault after the ninth
day (of seasons: when their weeks were seen). A fault counts as found when the rule fires while it lasts. A false alarm
is one that begins outside faults and the day after them; the first day counts neither way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetpulse.backtest.judging import rule_of
from schemas.limits import MINUTE_MS
from stream_jobs.insight.detectors import DETECTORS
from stream_jobs.insight.firing import Firing
from stream_jobs.insight.frame import Frame

STEP_MS = 5 * MINUTE_MS
DAY = 288
RECALL_MIN = 0.95
FALSE_MAX = 1.0
"""In 100 days of series."""

Values = npt.NDArray[np.float64]
Marks = npt.NDArray[np.int64]
Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class Drawn:
    """``values`` (series, points), NaN in gaps; the fault of each series is in the points ``[begins, ends)``."""

    values: Values
    begins: Marks
    ends: Marks

    def faulty(self, more: int = 0) -> npt.NDArray[np.bool_]:
        """(series, points): in the fault, or up to ``more`` points after it."""
        return _between(self.begins, self.ends + more, self.values.shape[1])


def _between(begins: Marks, ends: Marks, points: int) -> npt.NDArray[np.bool_]:
    at = np.arange(points)
    return (at >= begins[:, None]) & (at < ends[:, None])


def _faults(random: Random, series: int, length: int, first_day: int = 9, last_day: int = 20) -> tuple[Marks, Marks]:
    begins = random.integers(first_day * DAY, last_day * DAY, series)
    return begins, begins + length


def _noise(random: Random, series: int, points: int, memory: float = 0.7) -> Values:
    """Of standard deviation 1, where each point keeps ``memory`` of the one before."""
    fresh = random.normal(0, np.sqrt(1 - memory**2), (series, points))
    out = np.zeros((series, points))
    for at in range(1, points):
        out[:, at] = memory * out[:, at - 1] + fresh[:, at]
    return out


def _latency(random: Random, series: int, points: int) -> Values:
    return random.uniform(0.05, 2, (series, 1)) * np.exp(0.15 * _noise(random, series, points))


def _day(random: Random, series: int, points: int, depth: float) -> Values:
    begins = random.uniform(0, 2 * np.pi, (series, 1))
    return 1 + depth * np.sin(2 * np.pi * np.arange(points) / DAY + begins)


def _where(fault: tuple[Marks, Marks], wrong: Values, right: Values) -> Drawn:
    return Drawn(np.where(_between(*fault, right.shape[1]), wrong, right), *fault)


# Counts


def zeros(random: Random, series: int, points: int) -> Drawn:
    """Mostly none, as errors are; the fault is half an hour of many."""
    rate, fault = random.uniform(0.02, 0.3, (series, 1)), _faults(random, series, 6)
    marks = _between(*fault, points)
    return Drawn(random.poisson(np.where(marks, rate * 30 + 8, rate)).astype(float), *fault)


def poisson(random: Random, series: int, points: int) -> Drawn:
    """Counts; the fault is half an hour of three times as many."""
    rate, fault = random.uniform(2, 50, (series, 1)), _faults(random, series, 6)
    marks = _between(*fault, points)
    return Drawn(random.poisson(np.where(marks, rate * 3 + 10, rate)).astype(float), *fault)


def drop_of_counts(random: Random, series: int, points: int) -> Drawn:
    """Counts with a season of the day; the fault is an hour of a third."""
    rate = random.uniform(20, 200, (series, 1)) * _day(random, series, points, 0.4)
    fault = _faults(random, series, 12, 12)
    return Drawn(random.poisson(np.where(_between(*fault, points), rate * 0.3, rate)).astype(float), *fault)


def density(random: Random, series: int, points: int) -> Drawn:
    """Mostly zeros, else about the same value; the fault is six hours of mostly that value."""
    share, fault = random.uniform(0.05, 0.15, (series, 1)), _faults(random, series, 72)
    on = random.random((series, points)) < np.where(_between(*fault, points), 0.75, share)
    return Drawn(on * random.uniform(5, 10, (series, points)), *fault)


def duty_cycle(random: Random, series: int, points: int) -> Drawn:
    """Idle between bursts of minutes to hours, as a GPU is; nothing is wrong."""
    values = np.zeros((series, points))
    for row in values:
        at, on, lasts, rests = 0, False, random.uniform(2, 20), random.uniform(10, 80)
        while at < points:
            length = int(np.ceil(random.exponential(lasts if on else rests) * random.lognormal(0, 0.5)))
            if on:
                burst = row[at : at + length]
                burst[:] = random.uniform(20, 100) + random.normal(0, 3, len(burst))
            at, on = at + length, not on
    never = np.full(series, points)
    return Drawn(np.clip(values, 0, 100), never, never)


# Levels


def drop(random: Random, series: int, points: int) -> Drawn:
    """Rates; the fault is an hour of a third."""
    right = 100 * _latency(random, series, points)
    return _where(_faults(random, series, 12), right * 0.35, right)


def level_shift(random: Random, series: int, points: int) -> Drawn:
    """Latencies; the fault is a day of twice or half as much."""
    right = _latency(random, series, points)
    return _where(_faults(random, series, DAY), right * np.exp(random.choice([-0.75, 0.75], (series, 1))), right)


def ramp(random: Random, series: int, points: int) -> Drawn:
    """Latencies; the fault is a rise to 2.5 times as much over six hours, which stays for the rest of a day."""
    right, fault = _latency(random, series, points), _faults(random, series, DAY)
    rise = np.clip((np.arange(points) - fault[0][:, None]) / 72, 0, 1)
    return _where(fault, right * np.exp(0.9 * rise), right)


def spread(random: Random, series: int, points: int) -> Drawn:
    """A level with little noise; the fault is six hours of 3.5 times the noise around the same level."""
    level = random.uniform(20, 80, (series, 1))
    noise = 0.03 * level * _noise(random, series, points, 0.3)
    return _where(_faults(random, series, 72), level + 3.5 * noise, level + noise)


def recurring_spikes(random: Random, series: int, points: int) -> Drawn:
    """Latencies that are four times as long for ten minutes every few hours; the fault is half an hour of ten times."""
    every, first = random.integers(60, 90, (series, 1)), random.integers(0, 60, (series, 1))
    spikes = (np.arange(points) + first) % every < 2
    plain = _latency(random, series, points)
    right = np.where(spikes, plain * 4 * np.exp(0.1 * random.normal(size=plain.shape)), plain)
    return _where(_faults(random, series, 6), plain * 10, right)


def gaps(random: Random, series: int, points: int) -> Drawn:
    """As ``level_shift``, with one point in fifty missing, and hours once."""
    drawn = level_shift(random, series, points)
    values = drawn.values.copy()
    values[random.random(values.shape) < 0.02] = np.nan
    for row in values:
        at = int(random.integers(2 * DAY, 8 * DAY))
        row[at : at + int(random.integers(12, 100))] = np.nan
    return Drawn(values, drawn.begins, drawn.ends)


def restarts(random: Random, series: int, points: int) -> Drawn:
    """A level that falls to nearly nothing and recovers within half an hour about every day, as a cache that starts
    empty; the fault is a day of 60 % more."""
    right = 50 * np.exp(0.05 * _noise(random, series, points))
    for row in right:
        at = int(random.integers(20, 150))
        while at < points - 6:
            row[at : at + 6] *= np.linspace(0.05, 0.9, 6)
            at += int(random.integers(100, 250))
    return _where(_faults(random, series, DAY), right * 1.6, right)


# Seasons


def hour_of_day(random: Random, series: int, points: int) -> Drawn:
    """A day of a day and a night; the fault is an hour of the opposite, within what the day holds."""
    day = _day(random, series, points, 0.6)
    noise = np.exp(0.05 * _noise(random, series, points))
    begins, _ = _faults(random, series, 12, 12)
    far = np.abs(day[:, 6:] - 1) > 0.4
    for row, begin in enumerate(begins):
        begins[row] = begin + int(np.argmax(far[row, begin:]))
    return _where((begins, begins + 12), 100 * (2 - day) * noise, 100 * day * noise)


def day_of_week(random: Random, series: int, points: int) -> Drawn:
    """Working days twice as busy as weekends, one day in five up to an hour early or late; the fault is an hour and a
    half of 45 % at noon of a working day."""
    at = np.arange(points) + random.integers(0, DAY, (series, 1))
    days = points // DAY + 1
    shifted = random.integers(-12, 13, (series, days)) * (random.random((series, days)) < 0.2)
    hour = at % DAY / DAY + np.take_along_axis(shifted, np.arange(points)[None] // DAY + np.zeros_like(at), 1) / DAY
    weekend = at // DAY % 7 >= 5
    right = 200 * (0.3 + 0.7 * np.sin(np.pi * (hour % 1)) ** 2) * np.where(weekend, 0.5, 1.0)
    right = right * np.exp(0.05 * _noise(random, series, points))
    noon = ~weekend & (at % DAY >= 0.4 * DAY) & (at % DAY < 0.5 * DAY)
    begins, _ = _faults(random, series, 18, 20, 23)
    for row, begin in enumerate(begins):
        begins[row] = begin + int(np.argmax(noon[row, begin:]))
    return _where((begins, begins + 18), right * 0.45, right)


SHAPES: dict[str, Callable[[Random, int, int], Drawn]] = {
    one.__name__: one
    for one in (zeros, poisson, drop_of_counts, density, duty_cycle, drop, level_shift, ramp, spread, recurring_spikes,
                gaps, restarts, hour_of_day, day_of_week)
}  # fmt: skip
DAYS = {"day_of_week": 28}
DAYS_OTHERS = 21


@dataclass(frozen=True, slots=True)
class Seen:
    """What a detector made of a shape. ``delays``: points from each fault's begin to the rule's firing."""

    series: int
    faults: int
    delays: tuple[int, ...]
    false_alarms: int
    days: float
    """Of series in which an alarm would be false."""
    cpu_s: float
    points: int

    def as_dict(self) -> dict[str, Any]:
        """Delays in minutes."""
        minutes = np.array(self.delays) * STEP_MS / MINUTE_MS
        late = {f"delay_p{q}_min": float(np.percentile(minutes, q)) if self.delays else None for q in (50, 95)}
        return {
            "series": self.series,
            "faults": self.faults,
            "recall": len(self.delays) / self.faults if self.faults else None,
            "false_alarms_in_100_days": 100 * self.false_alarms / self.days,
            **late,
            "points_per_cpu_s": self.points / self.cpu_s,
        }


def seen(kind: str, drawn: Drawn, options: dict[str, Any]) -> Seen:
    """What a kind of detector with these options makes of drawn series: one alert for one point beyond."""
    rule = rule_of(kind, STEP_MS, options)
    series, points = drawn.values.shape
    detector, firing = DETECTORS[kind](rule), Firing(rule.m, rule.n, rule.clear_after, STEP_MS)
    detector.grow(series)
    firing.grow(series)
    fires = np.zeros((series, points), np.bool_)
    began = time.process_time()
    for at in range(points):
        slots = np.flatnonzero(np.isfinite(drawn.values[:, at]))
        values, counts = {"value": drawn.values[slots, at]}, np.ones(len(slots), np.int64)
        frame = Frame(at * STEP_MS, STEP_MS, slots, values, counts, firing.firing[slots])
        firing.drop(firing.step(frame, detector.detect(frame), 1))
        fires[:, at] = firing.firing
    spent = time.process_time() - began
    begins = fires & ~np.concatenate([np.zeros((series, 1), np.bool_), fires[:, :-1]], axis=1)
    quiet = ~drawn.faulty(DAY)
    quiet[:, :DAY] = False
    delays = [
        int(np.argmax(row[begin:end]))
        for row, begin, end in zip(fires, drawn.begins, drawn.ends, strict=True)
        if row[begin:end].any()
    ]
    faults = int((drawn.begins < points).sum())
    known = int(np.isfinite(drawn.values).sum())
    return Seen(series, faults, tuple(delays), int((begins & quiet).sum()), float(quiet.sum()) / DAY, spent, known)


def measure(kind: str, series: int, seed: int, only: tuple[str, ...], say: Callable[[str], None]) -> dict[str, Any]:
    """By shape what the detector sees, and what is beyond its bound."""
    rows: dict[str, Any] = {}
    options = {"direction": "both"}
    for number, (name, draw) in enumerate(SHAPES.items()):
        if only and name not in only:
            continue
        say(f"{name}: {series:,} series")
        random = np.random.default_rng([seed, number])
        rows[name] = seen(kind, draw(random, series, DAYS.get(name, DAYS_OTHERS) * DAY), options).as_dict()
    return {"detector": kind, "seed": seed, "shapes": rows}


def outside(result: dict[str, Any]) -> list[str]:
    """Shapes with too little found, or too much."""
    return [
        name
        for name, one in result["shapes"].items()
        if (one["recall"] is not None and one["recall"] < RECALL_MIN) or one["false_alarms_in_100_days"] > FALSE_MAX
    ]


def rows(result: dict[str, Any]) -> list[tuple[Any, ...]]:
    """For the table."""
    return [
        (name, one["recall"], one["delay_p50_min"], one["delay_p95_min"], round(one["false_alarms_in_100_days"], 2),
         int(one["points_per_cpu_s"]))
        for name, one in result["shapes"].items()
    ]  # fmt: skip
