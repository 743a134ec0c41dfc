"""Novelty: what a series has not done before, in its level, its drift or its spread.

**Scale.** A series is judged on the scale where a step means the same at every level (``scales``).

**Expectation.** A level with a half-life of a day, and, where that explains half of the deviation, what this hour of
the day or of the week leaves over it (``hours``); an hour early or late (two of a week) is as well. So a season
excuses and accuses.

**Statistics.** What is left, at once and averaged over ``SPANS`` windows, and how much it varies over
``SPREAD_SPAN`` windows beside what is usual: each upwards and downwards. Each has a limit of its own, learned from the
greatest values that it had before (``tails``). Nothing is judged on its first day (``warm_up_s``); for a week, as long
as no weekend was seen, only what also lies outside all values seen, by 60 % of their range.

**What lasts** for ``relearn_after_s`` is accepted as the new normal. Per series 0.9 KiB.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.limits import DAY_MS, HOUR_MS
from stream_jobs.insight.detectors import hours, scales, tails
from stream_jobs.insight.detectors.tails import FADED_EVERY_MS, Sides, Tails, days_between
from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Mask, Whole
from stream_jobs.insight.slotted import Column, Slotted
from stream_jobs.rules.model import Rule

SPANS = (6, 36)
SPREAD_SPAN = 24
PLAIN, DAILY, WEEKLY = 0, 1, 2
"""By what a series is expected: its level alone, also by hour of the day, or of the week."""
NOTES = (
    "",
    "higher than it has ever been here",
    "lower than it has ever been here",
    "higher for some windows than ever",
    "lower for some windows than ever",
    "drifted up further than ever",
    "drifted down further than ever",
    "varies more than ever",
    "varies less than ever",
    "new normal accepted",
)
ACCEPTED = len(NOTES) - 1

_STARTS_MS = round(0.35 * DAY_MS)
"""The first hours of a level are its own search for it: no statistic of then is kept."""
_SPREAD_STARTS_MS = DAY_MS // 2
_WEEK_MS = 7 * DAY_MS
_OUTSIDE = 0.6
_LEAVE = 0.7
_EXPLAINS = {DAILY: 0.5, WEEKLY: 0.6}
"""Share of the squared error at most that may be left for an expectation to be used from now on."""
_STAYS = 1.0
"""And for one that is in use: a change costs a week of learning."""
_CLIPPED = 4.0
_COUNTS_MORE = 2
_UNKNOWN = 100
"""Windows before which a spread is not known."""
_SIDES = Sides(
    np.repeat(np.array([1, 3, 6, 6]) * HOUR_MS, 2),
    np.repeat(np.array([1.0, 0.5, 0.25, 0.0]), 2),
    np.repeat(np.array([0.0, 0.0, 0.0, 1.0]), 2),
)
_SPREAD = slice(6, 8)
_UP = np.array([True, False] * 4)

_COLUMNS = (
    Column("first_ms", "i8", -1),
    Column("since_ms", "i8", -1),
    Column("at_ms", "i8", -1),
    Column("off_since_ms", "i8", -1),
    Column("fitted", "i4"),
    Column("mode", "i1", PLAIN),
    Column("level", "f8"),
    Column("means", "f8", 0, (len(SPANS),)),
    Column("short", "f8"),
    Column("long", "f8"),
    Column("errors", "f8", 0, (3,)),
    Column("low_seen", "f8", np.inf),
    Column("high_seen", "f8", -np.inf),
)


@dataclass(slots=True)
class _Look:
    """One window of some series: on the scale, per row. ``rest`` is what the level leaves, ``left`` what the season
    does too, ``centre`` what was likeliest and ``square`` the distance to it, squared and without what is far out;
    ``low`` and ``high`` are what the season allows."""

    slots: Whole
    y: Floats
    rest: Floats
    low: Floats
    high: Floats
    centre: Floats
    left: Floats
    square: Floats
    firing: Mask
    window_ms: int
    length_ms: int


class Novelty(Slotted, Detector):
    """One per rule; see the module."""

    STATE_OPTIONS = ("half_life_s", "scale")
    LEARNS = True

    def __init__(self, rule: Rule) -> None:
        super().__init__((*_COLUMNS, *hours.COLUMNS, *scales.COLUMNS, *tails.columns(_SIDES.count)))
        options = rule.options
        self._measure = rule.value.name
        self._half_life = float(options["half_life_s"]) * 1_000 / rule.window_ms
        self._day = DAY_MS / rule.window_ms
        self._warm_up_ms = round(options["warm_up_s"] * 1_000)
        self._relearn_ms = round(options["relearn_after_s"] * 1_000)
        self._floor = float(options["min_relative"])
        self._scale = scales.NAMES[options["scale"]]
        self._tails = Tails(_SIDES, float(options["rare_days"]))
        direction = options["direction"]
        both = np.ones(_SIDES.count, np.bool_)
        self._judged_sides = both if direction == "both" else _UP if direction == "above" else ~_UP
        if direction != "both":
            self._judged_sides = self._judged_sides & ~np.isin(np.arange(_SIDES.count), np.arange(6, 8))

    def detect(self, frame: Frame) -> Detection:
        """Judges what is known, then learns from it."""
        every = frame.values[self._measure]
        rows = np.flatnonzero(np.isfinite(every))
        self._meet(frame.slots[rows], every[rows], frame.firing[rows], frame.window_ms)
        rows = rows[self.state["scale"][frame.slots[rows]] != scales.UNPLACED]
        count = len(frame.slots)
        beyond, within = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        baseline, low, high, score = (np.full(count, np.nan) for _ in range(4))
        note = np.zeros(count, np.int16)
        detection = Detection(frame.slots, beyond, within, every.copy(), baseline, low, high, note, NOTES, score)
        if len(rows):
            self._judge(frame, rows, every[rows], detection)
        return detection

    # the scale

    def _meet(self, slots: Whole, x: Floats, firing: Mask, now_ms: int) -> None:
        state = self.state
        new = slots[state["first_ms"][slots] < 0]
        state["first_ms"][new] = now_ms
        state["since_ms"][new] = now_ms + _STARTS_MS
        scales.see(state, slots, x)
        ready = (state["seen"][slots] >= scales.WARM_UP) & (state["scale"][slots] == scales.UNPLACED)
        self._place(slots[ready], x[ready])
        if self._scale == scales.UNPLACED:
            self._move(slots[scales.outgrown(state, slots) & ~firing], now_ms)

    def _place(self, slots: Whole, x: Floats) -> None:
        if self._scale == scales.UNPLACED:
            scales.place(self.state, slots)
        else:
            self.state["scale"][slots] = self._scale
        self._begin(slots, x)

    def _move(self, slots: Whole, now_ms: int) -> None:
        """To a scale that has a place for what came; what was learned on the other is worth nothing."""
        if not len(slots):
            return
        state = self.state
        level = scales.back(state, slots, state["level"][slots])
        scales.place(state, slots)
        self._begin(slots, level)
        hours.clear(state, slots)
        state["errors"][slots], state["mode"][slots] = 0, PLAIN
        state["low_seen"][slots], state["high_seen"][slots] = np.inf, -np.inf
        self._start_over(slots, now_ms + _STARTS_MS)

    def _begin(self, slots: Whole, x: Floats) -> None:
        level = self.state["level"][slots] = scales.of(self.state, slots, x)
        large = np.maximum(np.abs(level), 1e-9)
        self.state["unit"][slots] = np.where(self.state["scale"][slots] == scales.LOG, 1.0, large)

    def _start_over(self, slots: Whole, since_ms: int) -> None:
        """Limits and spread are learned anew."""
        self._tails.start_over(self.state, slots)
        self.state["means"][slots] = 0
        self.state["fitted"][slots] = 0
        self.state["since_ms"][slots] = since_ms

    # the expectation

    def _look(self, frame: Frame, slots: Whole, x: Floats, firing: Mask) -> _Look:
        state = self.state
        hours.turn(state, slots, frame.window_ms // HOUR_MS)
        y = scales.of(state, slots, x)
        rest = y - state["level"][slots]
        day, week = state["near_day"][slots].astype(np.float64), state["near_week"][slots].astype(np.float64)
        known = np.asarray(np.isfinite(week).all(axis=1))
        week = np.where(known[:, None], week, 0.0)
        share = frame.window_ms % HOUR_MS / HOUR_MS - 0.5
        side = 1 if share >= 0 else -1
        of_day = day[:, 1] + abs(share) * (day[:, 1 + side] - day[:, 1])
        of_week = week[:, 2] + abs(share) * (week[:, 2 + side] - week[:, 2])
        self._compare(slots, rest, (of_day, of_week), known, frame.window_ms)
        mode = state["mode"][slots]
        bands = [(np.zeros(len(y)), np.zeros(len(y)), np.zeros(len(y)))]
        for several, one in ((day, of_day), (week, of_week)):
            bands.append((np.minimum(several.min(axis=1), one), np.maximum(several.max(axis=1), one), one))
        low, high, centre = (np.choose(mode, [band[place] for band in bands]) for place in range(3))
        left = rest - np.clip(rest, low, high)
        square = self._square(slots, rest - centre)
        return _Look(slots, y, rest, low, high, centre, left, square, firing, frame.window_ms, frame.length_ms)

    def _compare(self, slots: Whole, rest: Floats, seasons: tuple[Floats, Floats], known: Mask, window_ms: int) -> None:
        """How well each expectation does, as a mean of squares."""
        state = self.state
        errors, age = state["errors"][slots], np.maximum(state["seen"][slots] - scales.WARM_UP, 1)
        cap = np.where(age > _UNKNOWN, 9 * np.maximum(errors[:, 0], 1e-12), np.inf)
        weight = np.maximum(np.log(2) / self._half_life, 1 / age)
        errors[:, 0] += weight * (np.minimum(rest**2, cap) - errors[:, 0])
        errors[:, 1] += weight * (np.minimum((rest - seasons[0]) ** 2, cap) - errors[:, 1])
        days = days_between(state["first_ms"][slots], window_ms) - 7.1
        weight = np.where(known & (days > 0), np.maximum(np.log(2) / self._half_life, 1 / (days * self._day + 1)), 0.0)
        errors[:, 2] += weight * (np.minimum((rest - seasons[1]) ** 2, cap) - errors[:, 2])
        state["errors"][slots] = errors

    def _choose(self, slots: Whole, firing: Mask, window_ms: int) -> None:
        """What to expect these series by from now on."""
        state = self.state
        errors, days = state["errors"][slots], days_between(state["first_ms"][slots], window_ms)
        now = state["mode"][slots]
        daily = (days > 3) & (errors[:, 1] < np.where(now == DAILY, _STAYS, _EXPLAINS[DAILY]) * errors[:, 0])
        best = np.where(daily, errors[:, 1], errors[:, 0])
        enough = np.where(now == WEEKLY, _STAYS, _EXPLAINS[WEEKLY])
        weekly = (days > 8) & (errors[:, 2] > 0) & (errors[:, 2] < enough * best)
        mode = np.where(weekly, WEEKLY, np.where(daily, DAILY, PLAIN))
        changes = (mode != now) & ~firing
        weekly = changes & (mode == WEEKLY)
        follows = np.log(2) / self._half_life * self._day / hours.DAY_HOURS
        hours.straighten(state, slots[weekly], window_ms // HOUR_MS, now[weekly] == DAILY, follows)
        state["mode"][slots[changes]] = mode[changes]
        self._start_over(slots[changes], window_ms + DAY_MS // 10)

    # the verdict

    def _judge(self, frame: Frame, rows: Whole, x: Floats, detection: Detection) -> None:
        state, slots = self.state, frame.slots[rows]
        look = self._look(frame, slots, x, frame.firing[rows])
        statistics = self._statistics(look)
        known_ms = look.window_ms - state["since_ms"][slots]
        judged = (known_ms > self._warm_up_ms - _STARTS_MS) & (state["seen"][slots] > _UNKNOWN)
        limit = np.maximum(state["limit"][slots], self._least(look))
        sides = judged[:, None] & self._judged_sides & self._surely(look, known_ms)
        over = (statistics > limit) & sides
        beyond = over.any(axis=1)
        within = judged & ~((statistics > _LEAVE * limit) & sides).any(axis=1)
        accepted = self._accept(look, beyond, within)
        detection.beyond[rows], detection.within[rows] = beyond & ~accepted, within | accepted
        assert detection.note is not None
        assert detection.score is not None
        detection.note[rows] = np.where(accepted, ACCEPTED, np.where(beyond, over.argmax(axis=1) + 1, 0))
        share = np.where(sides, statistics / limit, 0.0).max(axis=1)
        detection.score[rows] = np.where(judged, np.maximum(share, 0.0), np.nan)
        for found, at in ((detection.baseline, look.centre), (detection.low, look.low - limit[:, 1]),
                          (detection.high, look.high + limit[:, 0])):  # fmt: skip
            bound = scales.back(state, slots, state["level"][slots] + np.where(np.isfinite(at), at, 0.0))
            found[rows] = np.where(judged & np.isfinite(at), bound, np.nan)
        self._learn(look, statistics, judged, look.firing | beyond)

    def _statistics(self, look: _Look) -> Floats:
        """Rows x sides."""
        state, slots = self.state, look.slots
        stale = look.window_ms - state["at_ms"][slots] > SPANS[-1] * look.length_ms
        state["means"][slots[stale]] = 0
        state["short"][slots[stale]] = state["long"][slots[stale]]
        state["at_ms"][slots] = look.window_ms
        means = state["means"][slots]
        means += 2.0 / (np.array(SPANS) + 1.0) * (look.left[:, None] - means)
        state["means"][slots] = means
        short, long = state["short"][slots], state["long"][slots]
        short += 2.0 / (SPREAD_SPAN + 1.0) * (look.square - short)
        state["short"][slots] = short
        little = 1e-12 + 0.02 * long
        spread = np.where(state["fitted"][slots] > _UNKNOWN, np.log((short + little) / (long + little)), 0.0)
        each = (look.left, means[:, 0], means[:, 1], spread)
        return np.stack([sign * one for one in each for sign in (1.0, -1.0)], axis=1)

    def _square(self, slots: Whole, away: Floats) -> Floats:
        far = _CLIPPED * np.sqrt(self.state["long"][slots])
        known = self.state["fitted"][slots] > _UNKNOWN
        return np.where(known, np.clip(away, -far, far), away) ** 2

    def _least(self, look: _Look) -> Floats:
        """Rows x sides: what is not worth an alert however quiet the series is. A count is worth one from two more than
        the greatest on: a second error in five minutes, where there was never more than one, is none."""
        state, slots = self.state, look.slots
        level = state["level"][slots] + look.centre
        out = np.repeat(scales.step(state, slots, level, self._floor)[:, None], _SIDES.count, axis=1)
        out[:, _SPREAD] = 0.0
        counts = (state["scale"][slots] == scales.ROOT) & ~state["fractional"][slots]
        greatest = level + state["top"][slots, 0, 0]
        out[:, 0] = np.where(counts, np.maximum(out[:, 0], np.sqrt(greatest**2 + _COUNTS_MORE) - level), out[:, 0])
        return np.maximum(out, 1e-9)

    def _surely(self, look: _Look, known_ms: Whole) -> Mask:
        """Rows x sides: whether a week was seen, or the value lies far outside all that was."""
        state, slots = self.state, look.slots
        seen = state["high_seen"][slots] >= state["low_seen"][slots]
        low, high = (np.where(seen, state[name][slots], look.y) for name in ("low_seen", "high_seen"))
        wide = _OUTSIDE * (high - low)
        outside = (look.y > high + wide) | (look.y < low - wide)
        old = known_ms >= _WEEK_MS
        sure = np.repeat((old | outside)[:, None], _SIDES.count, axis=1)
        sure[:, _SPREAD] = old[:, None]
        return sure

    def _accept(self, look: _Look, beyond: Mask, within: Mask) -> Mask:
        """Takes what has been off for too long as the new level and spread; where."""
        state, slots = self.state, look.slots
        off = state["off_since_ms"][slots]
        off = np.where(within, -1, np.where(beyond & (off < 0), look.window_ms, off))
        accepted = (off >= 0) & (look.window_ms - off >= self._relearn_ms)
        state["off_since_ms"][slots] = np.where(accepted, -1, off)
        new = slots[accepted]
        state["level"][new] += state["means"][new, -1]
        state["means"][new] = 0
        state["long"][new] = state["short"][new]
        state["peak"][new] = 0
        return accepted

    # learning

    def _learn(self, look: _Look, statistics: Floats, judged: Mask, off: Mask) -> None:
        state, slots = self.state, look.slots
        edge = self._tails.threshold(state, slots)
        above, below = (np.where(judged & (edge[:, side] > 0), edge[:, side], np.inf) for side in (0, 1))
        age = np.maximum(state["seen"][slots] - scales.WARM_UP, 1)
        step = np.where(age < scales.WARM_UP, look.rest, np.clip(look.left, -below, above))
        state["level"][slots] += np.maximum(np.log(2) / self._half_life, 1 / age) * step
        state["fitted"][slots] += 1
        weight = np.maximum(np.log(2) / (2 * self._half_life), 1 / np.maximum(state["fitted"][slots], 1))
        state["long"][slots] += weight * (look.square - state["long"][slots])
        calm = slots[~off & (age > scales.WARM_UP)]
        y = look.y[~off & (age > scales.WARM_UP)]
        state["low_seen"][calm] = np.minimum(state["low_seen"][calm], y)
        state["high_seen"][calm] = np.maximum(state["high_seen"][calm], y)
        state["hour_sum"][slots] += np.where(off, np.clip(look.rest, look.low - below, look.high + above), look.rest)
        state["hour_n"][slots] += 1
        self._remember(look, statistics, judged, off)

    def _remember(self, look: _Look, statistics: Floats, judged: Mask, off: Mask) -> None:
        state, slots = self.state, look.slots
        self._tails.see(state, slots, statistics, judged)
        known_ms = look.window_ms - state["since_ms"][slots]
        counts = np.repeat((~off & (known_ms > 0))[:, None], _SIDES.count, axis=1)
        counts[:, 4:] &= (known_ms > _SPREAD_STARTS_MS)[:, None]
        sigma, days = np.sqrt(state["long"][slots]), known_ms / DAY_MS
        end_ms = look.window_ms + look.length_ms
        self._tails.end_blocks(state, slots, sigma, counts, days, look.window_ms, end_ms)
        if look.window_ms // FADED_EVERY_MS != end_ms // FADED_EVERY_MS:
            self._tails.fade(state, slots, sigma, days)
            self._choose(slots, look.firing, look.window_ms)
