"""The compiled loops of ``novelty``: what is done to every series in every window. What is done once an hour or less
stands in ``novelty``, ``hours`` and ``tails``.

A loop takes the state as a named tuple of its columns, each a row per slot. numba counts who holds an array whenever
one is taken out of a tuple, which is seven eighths of the time here; ``_nrt=False`` leaves that out, so these loops
make no arrays, nor parts of any.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, log, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from schemas.limits import DAY_MS, HOUR_MS
from stream_jobs.insight.detectors import scales, tails
from stream_jobs.insight.frame import Floats, Mask

SPANS = (6, 36)
SPREAD_SPAN = 24
SIDES = 8
PLAIN, DAILY, WEEKLY = 0, 1, 2
"""By what a series is expected: its level alone, also by hour of the day, or of the week."""
STARTS_MS = round(0.35 * DAY_MS)
"""The first hours of a level are its own search for it: no statistic of then is kept."""
NOT_READY, READY, OUTGROWN = 0, 1, 2

_WEEK_MS = 7 * DAY_MS
_OUTSIDE = 0.6
_LEAVE = 0.7
_CLIPPED = 4.0
_COUNTS_MORE = 2
_UNKNOWN = 100
"""Windows before which a spread is not known."""
_ACCEPTED = 9
_LN2 = log(2.0)


class State(NamedTuple):
    """Columns by name."""

    first_ms: Any
    since_ms: Any
    at_ms: Any
    off_since_ms: Any
    fitted: Any
    mode: Any
    level: Any
    means: Any
    short: Any
    long: Any
    errors: Any
    low_seen: Any
    high_seen: Any
    hour_sum: Any
    hour_n: Any
    near_day: Any
    near_week: Any
    scale: Any
    seen: Any
    zeros: Any
    negative: Any
    fractional: Any
    least: Any
    top: Any
    limit: Any
    peak: Any


class Terms(NamedTuple):
    """Of a rule. ``half_life`` and ``day`` in windows; ``sides`` that are judged; ``step`` as in ``tails.Sides``;
    ``statistics`` and ``limits`` are room for those of one series."""

    half_life: float
    day: float
    warm_up_ms: int
    relearn_ms: int
    floor: float
    sides: Any
    step: Any
    statistics: Any
    limits: Any


class Verdict(NamedTuple):
    """One row per series; ``off``: neither trains limits."""

    beyond: Mask
    within: Mask
    baseline: Floats
    low: Floats
    high: Floats
    note: npt.NDArray[np.int16]
    score: Floats
    off: Mask


class _Look(NamedTuple):
    """A value on the scale. ``rest`` is what the level leaves, ``left`` what the season does too, ``centre`` what was
    likeliest and ``square`` the distance to it, squared and without what is far out; ``low`` and ``high`` are what the
    season allows."""

    y: Any
    rest: Any
    low: Any
    high: Any
    centre: Any
    left: Any
    square: Any


def columns_of(state: Mapping[str, npt.NDArray[Any]]) -> State:
    """The columns that the loops need."""
    return State(*(state[name] for name in State._fields))


def verdict(rows: int) -> Verdict:
    """Room for so many."""
    baseline, low, high, score = (np.full(rows, np.nan) for _ in range(4))
    beyond, within, off = (np.zeros(rows, np.bool_) for _ in range(3))
    return Verdict(beyond, within, baseline, low, high, np.zeros(rows, np.int16), score, off)


@njit(cache=True, nogil=True, _nrt=False)
def meet(s: Any, slots: Any, x: Any, now_ms: int, out: Any) -> None:
    """Values (all finite) that came; ``out`` is ``READY`` for a scale, ``OUTGROWN`` from it, or ``NOT_READY``."""
    for i in range(slots.shape[0]):
        slot, value = slots[i], x[i]
        if s.first_ms[slot] < 0:
            s.first_ms[slot] = now_ms
            s.since_ms[slot] = now_ms + STARTS_MS
        s.seen[slot] += 1
        if value == 0:
            s.zeros[slot] += 1
        elif value < 0:
            s.negative[slot] = True
        elif value < s.least[slot]:
            s.least[slot] = value
        if value != np.floor(value):
            s.fractional[slot] = True
        scale = s.scale[slot]
        out[i] = NOT_READY
        if scale == scales.UNPLACED:
            if s.seen[slot] >= scales.WARM_UP:
                out[i] = READY
        elif (scale == scales.LOG and s.zeros[slot] * 100 > s.seen[slot]) or (
            scale > scales.LINEAR and s.negative[slot]
        ):
            out[i] = OUTGROWN


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def judge(s: Any, terms: Any, slots: Any, x: Any, firing: Any, window_ms: int, length_ms: int, out: Any) -> None:
    """Judges what is known of series that have a scale, then learns from it."""
    statistics, limits = terms.statistics, terms.limits
    for i in range(slots.shape[0]):
        slot = slots[i]
        look = _look(s, terms, slot, x[i], window_ms)
        _follow(s, slot, look, window_ms, length_ms, statistics)
        _limits(s, terms, slot, look, limits)
        known_ms = window_ms - s.since_ms[slot]
        judged = known_ms > terms.warm_up_ms - STARTS_MS and s.seen[slot] > _UNKNOWN
        _decide(s, terms, slot, look, known_ms, judged, statistics, limits, out, i)
        _accept(s, terms, slot, window_ms, out, i)
        if judged:
            _show(s, slot, look, limits, out, i)
        out.off[i] = firing[i] or out.off[i]
        _learn(s, terms, slot, look, judged, out.off[i])
        _remember(s, terms, slot, judged, statistics)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _look(s: Any, terms: Any, slot: int, x: float, window_ms: int) -> Any:
    y = scales.placed(s.scale[slot], s.least[slot], s.fractional[slot], x)
    rest = y - s.level[slot]
    share = window_ms % HOUR_MS / HOUR_MS - 0.5
    side = 1 if share >= 0 else -1
    day_low, day_high = inf, -inf
    for k in range(3):
        day_low, day_high = min(day_low, float(s.near_day[slot, k])), max(day_high, float(s.near_day[slot, k]))
    week_low, week_high, known = inf, -inf, True
    for k in range(5):
        known = known and isfinite(s.near_week[slot, k])
        week_low, week_high = min(week_low, float(s.near_week[slot, k])), max(week_high, float(s.near_week[slot, k]))
    day, week = float(s.near_day[slot, 1]), float(s.near_week[slot, 2])
    of_day = day + abs(share) * (s.near_day[slot, 1 + side] - day)
    of_week = week + abs(share) * (s.near_week[slot, 2 + side] - week) if known else 0.0
    _compare(s, terms, slot, rest, of_day, of_week, known, window_ms)
    low = high = centre = 0.0
    if s.mode[slot] == DAILY:
        low, high, centre = min(day_low, of_day), max(day_high, of_day), of_day
    elif s.mode[slot] == WEEKLY and known:
        low, high, centre = min(week_low, of_week), max(week_high, of_week), of_week
    left = rest - min(max(rest, low), high)
    away = rest - centre
    if s.fitted[slot] > _UNKNOWN:
        far = _CLIPPED * sqrt(s.long[slot])
        away = min(max(away, -far), far)
    return _Look(y, rest, low, high, centre, left, away * away)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _compare(
    s: Any, terms: Any, slot: int, rest: float, of_day: float, of_week: float, known: bool, window_ms: int
) -> None:
    """How well each expectation does, as a mean of squares."""
    age = max(s.seen[slot] - scales.WARM_UP, 1)
    cap = 9 * max(s.errors[slot, 0], 1e-12) if age > _UNKNOWN else inf
    weight = max(_LN2 / terms.half_life, 1 / age)
    s.errors[slot, 0] += weight * (min(rest**2, cap) - s.errors[slot, 0])
    s.errors[slot, 1] += weight * (min((rest - of_day) ** 2, cap) - s.errors[slot, 1])
    days = (window_ms - s.first_ms[slot]) / DAY_MS - 7.1
    if known and days > 0:
        weight = max(_LN2 / terms.half_life, 1 / (days * terms.day + 1))
        s.errors[slot, 2] += weight * (min((rest - of_week) ** 2, cap) - s.errors[slot, 2])


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _follow(s: Any, slot: int, look: Any, window_ms: int, length_ms: int, statistics: Any) -> None:
    """The averages go on; ``statistics`` is by side."""
    if window_ms - s.at_ms[slot] > SPANS[-1] * length_ms:
        for k in range(len(SPANS)):
            s.means[slot, k] = 0
        s.short[slot] = s.long[slot]
    s.at_ms[slot] = window_ms
    for k in range(len(SPANS)):
        s.means[slot, k] += 2.0 / (SPANS[k] + 1.0) * (look.left - s.means[slot, k])
    s.short[slot] += 2.0 / (SPREAD_SPAN + 1.0) * (look.square - s.short[slot])
    little = 1e-12 + 0.02 * s.long[slot]
    spread = log((s.short[slot] + little) / (s.long[slot] + little)) if s.fitted[slot] > _UNKNOWN else 0.0
    for k, one in enumerate((look.left, s.means[slot, 0], s.means[slot, 1], spread)):
        statistics[2 * k], statistics[2 * k + 1] = one, -one


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _limits(s: Any, terms: Any, slot: int, look: Any, limits: Any) -> None:
    """Learned ones, and what is not worth an alert however quiet the series is. A count is worth one from two more than
    the greatest on: a second error in five minutes, where there was never more than one, is none."""
    level = s.level[slot] + look.centre
    least = max(scales.step(s.scale[slot], level, terms.floor), 1e-9)
    for k in range(SIDES):
        limits[k] = max(float(s.limit[slot, k]), least if k < SIDES - 2 else 1e-9)
    if s.scale[slot] == scales.ROOT and not s.fractional[slot]:
        greatest = level + s.top[slot, 0, 0]
        limits[0] = max(limits[0], sqrt(greatest**2 + _COUNTS_MORE) - level)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _decide(
    s: Any,
    terms: Any,
    slot: int,
    look: Any,
    known_ms: int,
    judged: bool,
    statistics: Any,
    limits: Any,
    out: Any,
    i: int,
) -> None:
    """In the first week only what lies far outside all that was seen is judged, and no spread is."""
    out.beyond[i], out.within[i], out.note[i], out.score[i], out.off[i] = False, judged, 0, nan, False
    if not judged:
        return
    low, high = (s.low_seen[slot], s.high_seen[slot]) if s.high_seen[slot] >= s.low_seen[slot] else (look.y, look.y)
    wide = _OUTSIDE * (high - low)
    old = known_ms >= _WEEK_MS
    outside = look.y > high + wide or look.y < low - wide
    score = 0.0
    for k in range(SIDES):
        if not (terms.sides[k] and (old or (outside and k < SIDES - 2))):
            continue
        if statistics[k] > _LEAVE * limits[k]:
            out.within[i] = False
        if statistics[k] > limits[k] and not out.beyond[i]:
            out.beyond[i], out.off[i], out.note[i] = True, True, k + 1
        score = max(score, statistics[k] / limits[k])
    out.score[i] = score


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _accept(s: Any, terms: Any, slot: int, window_ms: int, out: Any, i: int) -> None:
    """Takes what has been off for too long as the new level and spread."""
    off_ms = s.off_since_ms[slot]
    if out.within[i]:
        off_ms = -1
    elif out.beyond[i] and off_ms < 0:
        off_ms = window_ms
    s.off_since_ms[slot] = off_ms
    if off_ms < 0 or window_ms - off_ms < terms.relearn_ms:
        return
    s.off_since_ms[slot] = -1
    s.level[slot] += s.means[slot, -1]
    for k in range(len(SPANS)):
        s.means[slot, k] = 0
    s.long[slot] = s.short[slot]
    for k in range(SIDES):
        s.peak[slot, k] = 0
    out.beyond[i], out.within[i], out.note[i] = False, True, _ACCEPTED


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _show(s: Any, slot: int, look: Any, limits: Any, out: Any, i: int) -> None:
    scale, fractional, level = s.scale[slot], s.fractional[slot], s.level[slot]
    out.baseline[i] = scales.value_at(scale, fractional, level + look.centre)
    if isfinite(limits[1]):
        out.low[i] = scales.value_at(scale, fractional, level + look.low - limits[1])
    if isfinite(limits[0]):
        out.high[i] = scales.value_at(scale, fractional, level + look.high + limits[0])


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _learn(s: Any, terms: Any, slot: int, look: Any, judged: bool, off: bool) -> None:
    above = float(s.top[slot, 0, -1]) if judged and s.top[slot, 0, -1] > 0 else inf
    below = float(s.top[slot, 1, -1]) if judged and s.top[slot, 1, -1] > 0 else inf
    age = max(s.seen[slot] - scales.WARM_UP, 1)
    step = look.rest if age < scales.WARM_UP else min(max(look.left, -below), above)
    s.level[slot] += max(_LN2 / terms.half_life, 1 / age) * step
    s.fitted[slot] += 1
    weight = max(_LN2 / (2 * terms.half_life), 1 / max(s.fitted[slot], 1))
    s.long[slot] += weight * (look.square - s.long[slot])
    if not off and age > scales.WARM_UP:
        s.low_seen[slot] = min(s.low_seen[slot], look.y)
        s.high_seen[slot] = max(s.high_seen[slot], look.y)
    s.hour_sum[slot] += min(max(look.rest, look.low - below), look.high + above) if off else look.rest
    s.hour_n[slot] += 1


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _remember(s: Any, terms: Any, slot: int, judged: bool, statistics: Any) -> None:
    """Into the running blocks (``tails``)."""
    for k in range(SIDES):
        least, limit = float(s.top[slot, k, -1]), float(s.limit[slot, k])
        s.peak[slot, k] = tails.peak_after(float(s.peak[slot, k]), least, limit, terms.step[k], statistics[k], judged)
