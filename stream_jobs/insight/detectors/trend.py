"""Rises steadily over hours while nothing explains it: a leak, found long before memory is full.

Options: ``horizon_s`` 7200, ``min_r2`` 0.5, ``min_slope_per_hour`` 0.01 (share of the headroom ``limit - value`` with
a measure ``limit``, else in the value's unit), ``leave`` (None: half of it). ``limit`` and ``load`` are optional.

The value is kept as 64 means over the horizon. Each time one is complete, the last 12, 16, 20, 32 and 64 of them are
looked at; a leak is found when in one of these stretches all of this holds:

- the line through it is significant (t that chance exceeds once in 1e8 looks, noise that wanders counted as fewer
  points), explains ``min_r2`` and rises by ``min_slope_per_hour``, after taking off what load explains;
- it used up what ``min_slope_per_hour`` does in a horizon: short stretches are for fast leaks;
- it rose in every quarter by at least a third of the mean of the quarters: a step rises once, what fills up and settles
  rises less and less, a sawtooth falls;
- the later half of the horizon rises no slower than the earlier one: what fills up slowly settles too;
- its end is a new high by more than half of its own rise: above all points before it, and above the level from which
  the series last fell at once (forgotten with a half-life of a week): the tooth of a long saw comes back to where it
  was. A level that was also reached at once, and held for less than a horizon, is a pulse and no tooth.

**Load.** Once a slow regression of the value on load is known well enough (load has varied by more than its noise, or a
day has passed), load explains at most one and a half times its slope; before, a third of what is proportional (a load
that rises by 10 % explains 3 % of the value: the greater part of memory is there without any load).
Load counts as rising as the whole horizon says, and a standard
error faster, or as the stretch says where that is significant. Memory that does not follow load is thus judged on the
morning's rise too, after some hours of getting to know it.

A leak goes on until the value has fallen back by half of its rise, or a stretch says with certainty that it rises
by less than ``leave``; the series is then learned again, but for its high. One that was away for a point is beyond only
where it has not fallen: a host comes back empty. The first detection comes after two
thirds of a horizon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_jobs.insight.durations import WORDS, nearest
from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Mask, Whole
from stream_jobs.insight.slotted import NEVER, Column, Slotted, in_order, passed, storable
from stream_jobs.insight.statistics import Line, fit, slopes, steps_up, t_needed
from stream_jobs.rules.model import Rule

POINTS = 64
STRETCHES = (12, 16, 20, 32, 64)
NOTES = ("", *(f"full in about {words}" for words in WORDS), "rises steadily")
_PACE_STRETCH = 32
"""What is held is followed at the pace of this stretch."""
_QUARTERS = 4
_EVEN = 1 / 3
_NEW_HIGH = 0.5
_FALLEN = 0.5
_FALLEN_SIGMAS = 8.0
_FALLEN_WINDOWS = 3
"""A fall is seen within a point, from the mean of at least so many windows, when it is no noise."""
_AT_ONCE = 6.0
"""A fall from point to point counts as one when it is so many times the usual step, and half of the horizon's range."""
_PULSE = 0.75
"""What rises by so much of its height within two points, stays for less than a horizon and falls at once is a pulse."""
_LOAD_RISES_T = 2.0
_SURE = 4.0
_KNOWN_POINTS_MIN = POINTS * 2 // 3
_SETTLES = 1.2
_HALF_POINTS_MIN = 8
_HIGH_HALF_LIFE_S = 7 * 86_400.0
_GAIN_HALF_LIFE_S = 2 * 86_400.0
_GAIN_POINTS_MIN = 64.0
_GAIN_POINTS_MANY = 12 * POINTS
_LOADED = 1 / 3
_VARIED = 4.0
"""Load has varied when its variance is so many times that of its noise."""
_GAIN_MARGIN = 1.5
_GAIN_ERRORS = 12.0
"""Standard errors on top: the regression's points are neighbours in time and count as fewer independent ones."""


@dataclass(frozen=True, slots=True)
class _Rise:
    """Per row: ``leaks``; ``slope`` per point after load; ``top`` level at its end, ``fall`` by how much it must
    fall to be over; ``over`` that it rises no longer."""

    leaks: Mask
    slope: Floats
    top: Floats
    fall: Floats
    over: Mask


class Trend(Slotted, Detector):
    """Holds its opinion between points: it changes when one is complete, or when the value falls."""

    STATE_OPTIONS = ("horizon_s",)

    def __init__(self, rule: Rule) -> None:
        columns = (
            Column("points", "f4", np.nan, (POINTS,)),
            Column("loads", "f4", np.nan, (POINTS,)),
            Column("sum", "f8", 0, (2,)),
            Column("count", "i4", 0, (2,)),
            Column("high", "f8", -np.inf),
            Column("gain", "f8", 0, (5,)),
            Column("origin", "f8", np.nan, (2,)),
            Column("held", "?"),
            Column("slope", "f8", np.nan),
            Column("fall", "f8", np.nan),
            Column("top", "f8", np.nan),
        )
        super().__init__(columns, {"bucket": NEVER})
        options = rule.options
        self._name = rule.value.name
        self._bucket_ms = max(int(float(options["horizon_s"]) * 1_000) // POINTS, rule.window_ms)
        self._has_load = any(one.name == "load" for one in rule.measures)
        self._per_hour = 3_600_000 / self._bucket_ms
        self._r2 = float(options["min_r2"])
        self._enter = float(options["min_slope_per_hour"])
        self._leave = self._enter / 2 if options.get("leave") is None else float(options["leave"])

    def detect(self, frame: Frame) -> Detection:
        """Adds the window; at the end of a point looks for leaks in all series."""
        limit = frame.values.get("limit")
        bucket = frame.window_ms // self._bucket_ms
        if bucket > self.clock["bucket"]:
            self._complete(bucket, frame, limit)
        self._add(frame)
        return self._say(frame, limit)

    def _add(self, frame: Frame) -> None:
        for at, name in enumerate((self._name, "load")):
            found = frame.values.get(name)
            if found is None:
                continue
            known = np.isfinite(found) & (np.abs(found) < np.finfo(np.float32).max)
            slots = frame.slots[known]
            self.state["sum"][slots, at] += found[known]
            self.state["count"][slots, at] += 1

    def _say(self, frame: Frame, limit: Floats | None) -> Detection:
        value, slots = frame.values[self._name], frame.slots
        state = self.state
        held, top, fall = state["held"][slots], state["top"][slots], state["fall"][slots]
        count = state["count"][slots, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            fallen = held & (count >= _FALLEN_WINDOWS) & (state["sum"][slots, 0] / count < top - fall)
            away = np.isnan(state["points"][slots, (self.clock["bucket"] - 1) % POINTS])
            is_there = ~away | (value >= top - fall)
        self._release(slots[fallen])
        beyond = held & ~fallen & is_there
        note = np.full(len(slots), len(NOTES) - 1)
        if limit is not None:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                left_s = np.maximum(limit - value, 0) / state["slope"][slots] * (self._bucket_ms / 1_000)
            note = np.where(np.isfinite(limit), 1 + nearest(left_s), note)
        unknown = np.full(len(slots), np.nan)
        expected = np.where(beyond, top - fall, np.nan)
        notes = np.where(beyond, note, 0).astype(np.int16)
        within = ~beyond & np.isfinite(value)
        return Detection(slots, beyond, within, value, expected, unknown, unknown, notes, NOTES)

    def _complete(self, bucket: int, frame: Frame, limit: Floats | None) -> None:
        """Stores the point that has ended and judges."""
        newest, self.clock["bucket"] = self.clock["bucket"], bucket
        if newest == NEVER:
            return
        state, column = self.state, newest % POINTS
        count = state["count"]
        mean = np.divide(state["sum"], count, out=np.full(count.shape, np.nan), where=count > 0)
        state["sum"][:], count[:] = 0, 0
        state["points"][:, column] = storable(mean[:, 0])
        state["loads"][:, column] = storable(mean[:, 1])
        self._learn_gain(mean)
        self._look(newest, np.flatnonzero(np.isfinite(mean[:, 0])), self._headroom(frame, limit, mean[:, 0]))
        for emptied in passed(newest, bucket - 1, POINTS):
            state["points"][:, emptied] = state["loads"][:, emptied] = np.nan

    def _headroom(self, frame: Frame, limit: Floats | None, mean: Floats) -> Floats:
        """What a slope is a share of: per slot; 1 without a limit, NaN where it is not known now."""
        if limit is None:
            return np.ones(self.size)
        out = np.full(self.size, np.nan)
        with np.errstate(over="ignore"):
            out[frame.slots] = np.maximum(limit - mean[frame.slots], 0.0)
        return out

    def _take_out(self, slots: Whole, ordered: Floats, columns: Whole, pulse: Mask) -> None:
        ordered[pulse] = np.nan
        row, place = np.nonzero(pulse)
        self.state["points"][slots[row], columns[place]] = np.nan

    def _remember_high(self, slots: Whole, ordered: Floats, columns: Whole) -> None:
        """The level from which a series falls at once; what leaked does not count, nor what a held one falls from.
        Points of a pulse are taken out of ``ordered``: it is no tooth of a saw."""
        before, now = ordered[:, -2].astype(np.float64), ordered[:, -1].astype(np.float64)
        with np.errstate(invalid="ignore"):
            falls = before - now > _FALLEN * (before + _highest(-ordered))
            step = _middle(np.abs(np.diff(ordered[falls].astype(np.float64), axis=1)))  # of few: it sorts
            falls[falls] = (before - now)[falls] > _AT_ONCE * step
            high = self.state["high"]
            keep = 0.5 ** (self._bucket_ms / 1_000 / _HIGH_HALF_LIFE_S)
            faded = np.where(np.isfinite(high[slots]), now + keep * (high[slots] - now), -np.inf)
        pulse = np.zeros(ordered.shape, np.bool_)
        pulse[falls] = _pulse(ordered[falls].astype(np.float64))
        self._take_out(slots, ordered, columns, pulse)
        falls &= ~pulse.any(axis=1)
        fresh = np.where(falls & ~self.state["held"][slots], np.maximum(before, faded), faded)
        high[slots] = np.where(np.isfinite(now), fresh, high[slots])

    def _learn_gain(self, mean: Floats) -> None:
        """Weighted sums (n, x, y, xx, xy) of load and value, from where they began."""
        state = self.state
        free = np.isfinite(mean).all(axis=1) & ~state["held"]
        origin = state["origin"]
        origin[free] = np.where(np.isnan(origin[free]), mean[free], origin[free])
        keep = 0.5 ** (self._bucket_ms / 1_000 / _GAIN_HALF_LIFE_S)
        y, x = (mean[free] - origin[free]).T
        state["gain"][free] = keep * state["gain"][free] + np.stack([np.ones(len(x)), x, y, x * x, x * y], axis=1)

    def _explained(self, slots: Whole, rise: Floats, load: Line, value: Line) -> Floats:
        """Most that a ``rise`` of the load can explain of the slope of the value; ``load`` is of the whole horizon."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            proportional = np.abs(value.mean) / np.maximum(load.mean, 0.0)
            n, x, y, xx, xy = self.state["gain"][slots].T
            spread = xx - x * x / n
            noise = n * load.error**2 * _sum_of_squares(load.n)
            varied = (n >= _GAIN_POINTS_MIN) & (spread >= _VARIED * noise)
            # Noise in the load makes the regression too flat: its share of the variance is taken off.
            gain = np.maximum((xy - x * y / n) / np.where(varied, spread - noise, spread), 0.0)
            unsure = _GAIN_ERRORS * value.error * np.sqrt(_sum_of_squares(value.n) / spread)
            known = (varied | (n >= _GAIN_POINTS_MANY)) & (spread > 0)
            most = np.where(known, _GAIN_MARGIN * gain + unsure, _LOADED * proportional)
            return np.where(rise > 0, rise * np.nan_to_num(most, nan=np.inf, posinf=np.inf), 0.0)

    def _look(self, newest: int, slots: Whole, headroom: Floats) -> None:
        state = self.state
        columns = in_order(newest, POINTS)
        points, loads = state["points"][slots][:, columns], state["loads"][slots][:, columns]
        self._remember_high(slots, points, columns)
        self._release(slots[state["held"][slots] & (points[:, -1] < state["top"][slots] - state["fall"][slots])])
        room, held = headroom[slots] / self._per_hour, state["held"][slots]
        for length in STRETCHES:
            # Most series rise by too little: only the others are looked at closely.
            with np.errstate(invalid="ignore"):
                far = slopes(points[:, -length:]) * length >= self._enter * room * POINTS
            rows = np.flatnonzero(far | held)
            if len(rows):
                found = self._rise(slots[rows], points[rows], loads[rows], length, room[rows])
                self._take(slots[rows], found, held[rows], length)

    def _take(self, slots: Whole, found: _Rise, held: Mask, length: int) -> None:
        """Begins to hold what leaks, follows what was held before, and lets go of what is over."""
        state = self.state
        fresh = found.leaks & ~held
        goes_on = held & (found.slope > 0) & (length == _PACE_STRETCH)
        state["slope"][slots[fresh | goes_on]] = found.slope[fresh | goes_on]
        state["top"][slots[fresh]], state["fall"][slots[fresh]] = found.top[fresh], found.fall[fresh]
        state["held"][slots[fresh]] = True
        if length == STRETCHES[0]:
            state["top"][slots[held]] = np.fmax(state["top"][slots[held]], found.top[held])
        self._release(slots[held & found.over])

    def _rise(self, slots: Whole, points: Floats, loads: Floats, length: int, room: Floats) -> _Rise:
        last = points[:, -length:]
        line, explained = fit(last), np.zeros(len(slots))
        if self._has_load:
            whole, last_load = fit(loads), fit(loads[:, -length:])
            significant = np.where(last_load.t() > _LOAD_RISES_T, last_load.slope, 0.0)
            rise = np.maximum(np.maximum(whole.slope + whole.error, significant), 0.0)
            explained = self._explained(slots, rise, whole, line)
        enough = (np.isfinite(points).sum(axis=1) >= _KNOWN_POINTS_MIN) & ~_settles(points)
        with np.errstate(invalid="ignore", over="ignore"):
            slope, many = line.slope - explained, line.n >= 0.75 * length
            t = np.minimum(line.t(slope), 1e6)
            steps = steps_up(last, _QUARTERS) - (explained * length / _QUARTERS)[:, None]
            even = (steps >= _EVEN * steps.mean(axis=1, keepdims=True)).all(axis=1)
            rise, half = slope * length, line.slope * length / 2
            top = line.mean + half
            high = np.fmax(self.state["high"][slots], _highest(points[:, :-length]))
            leaks = enough & many & (t >= t_needed(line.n - 2)) & (t * t / (t * t + line.n - 2) >= self._r2)
            leaks &= even & (top > high + _NEW_HIGH * rise) & (slope > 0) & (slope >= self._enter * room)
            leaks &= rise >= self._enter * room * POINTS
            sigma = line.error * np.sqrt(_sum_of_squares(line.n))
            fall = np.fmax(_FALLEN * rise, _FALLEN_SIGMAS * sigma)
            over = many & (line.slope + _SURE * line.error < self._leave * room)
        return _Rise(leaks, slope, top, fall, over)

    def _release(self, slots: Whole) -> None:
        """A leak is over: learned again, but for the high before it and what load explains."""
        for name in ("slope", "top", "fall", "points", "loads"):
            self.state[name][slots] = np.nan
        self.state["held"][slots] = False


def _settles(points: Floats) -> Mask:
    """Whether the earlier half of the horizon surely rose faster than the later one."""
    earlier, later = fit(points[:, : POINTS // 2]), fit(points[:, POINTS // 2 :])
    with np.errstate(invalid="ignore"):
        faster = earlier.slope - _SURE * earlier.error > _SETTLES * later.slope
    return (earlier.n >= _HALF_POINTS_MIN) & faster


def _pulse(points: Floats) -> Mask:
    """Of rows that fell from their point before the last to the last: which points are high between a rise as sudden
    and that fall. None in a row that was high in all its points, or that rose step by step."""
    columns, rows, end = np.arange(points.shape[1]), np.arange(len(points)), points.shape[1] - 2
    before, now = points[:, -2], points[:, -1]
    with np.errstate(invalid="ignore"):
        low = (points <= ((before + now) / 2)[:, None]) & (columns < end)
        foot = np.where(low, columns, -1).max(axis=1)
        base = points[rows, foot]
        top = np.fmax(points[rows, np.minimum(foot + 1, end)], points[rows, np.minimum(foot + 2, end)])
        sudden = (foot >= 0) & (top - base >= _PULSE * (before - base))
    return sudden[:, None] & (columns > foot[:, None]) & (columns <= end)


def _highest(points: Floats) -> Floats:
    """Per row, -inf where nothing is known."""
    if not points.shape[1]:
        return np.full(len(points), -np.inf)
    highest: Floats = np.where(np.isfinite(points), points, -np.inf).max(axis=1).astype(np.float64)
    return highest


def _middle(values: Floats) -> Floats:
    """Median per row of what is known; 0 where nothing is."""
    ordered = np.sort(values, axis=1)
    n = np.isfinite(ordered).sum(axis=1)
    return np.where(n > 0, ordered[np.arange(len(ordered)), np.maximum(n - 1, 0) // 2], 0.0)


def _sum_of_squares(n: Floats) -> Floats:
    """Of n equal steps about their mean: turns a slope's error back into the deviation of a point."""
    return n * (n * n - 1) / 12
