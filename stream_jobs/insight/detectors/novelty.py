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

import numpy as np

from schemas.limits import DAY_MS, HOUR_MS
from stream_jobs.insight.detectors import hours, scales, tails
from stream_jobs.insight.detectors.novelty_kernels import (
    DAILY,
    OUTGROWN,
    PLAIN,
    READY,
    SPANS,
    STARTS_MS,
    WEEKLY,
    Terms,
    Verdict,
    columns_of,
    judge,
    meet,
    verdict,
)
from stream_jobs.insight.detectors.tails import FADED_EVERY_MS, Sides, Tails, days_between
from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Mask, Whole
from stream_jobs.insight.slotted import Column, Slotted
from stream_jobs.rules.kinds import KINDS
from stream_jobs.rules.model import Function, Measure, Rule

NOTES = (
    "", "higher than it has ever been here", "lower than it has ever been here", "higher for some windows than ever",
    "lower for some windows than ever", "drifted up further than ever", "drifted down further than ever",
    "varies more than ever", "varies less than ever", "new normal accepted",
)  # fmt: skip
ACCEPTED = len(NOTES) - 1

_SPREAD_STARTS_MS = DAY_MS // 2
_EXPLAINS = {DAILY: 0.5, WEEKLY: 0.6}
"""Share of the squared error at most that may be left for an expectation to be used from now on."""
_STAYS = 1.0
"""And for one that is in use: a change costs a week of learning."""
_SIDES = Sides(
    np.repeat(np.array([1, 3, 6, 6]) * HOUR_MS, 2),
    np.repeat(np.array([1.0, 0.5, 0.25, 0.0]), 2),
    np.repeat(np.array([0.0, 0.0, 0.0, 1.0]), 2),
)
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
        self._scale = scales.NAMES[options["scale"]]
        self._tails = Tails(_SIDES, float(options["rare_days"]))
        direction = options["direction"]
        both = np.ones(_SIDES.count, np.bool_)
        sides = both if direction == "both" else _UP if direction == "above" else ~_UP
        if direction != "both":
            sides = sides & (np.arange(_SIDES.count) < _SIDES.count - 2)
        self._terms = Terms(
            self._half_life, self._day, round(options["warm_up_s"] * 1_000), rule.relearn_after_ms,
            float(options["min_relative"]), sides, _SIDES.step, np.empty(_SIDES.count), np.empty(_SIDES.count),
        )  # fmt: skip

    def detect(self, frame: Frame) -> Detection:
        """Judges what is known, then learns from it."""
        every = frame.values[self._measure]
        rows = np.flatnonzero(np.isfinite(every))
        self._meet(frame.slots[rows], every[rows], frame.firing[rows], frame.window_ms)
        rows = rows[self.state["scale"][frame.slots[rows]] != scales.UNPLACED]
        found = verdict(len(rows))
        if len(rows):
            self._judge(frame, frame.slots[rows], every[rows], frame.firing[rows], found)
        if len(rows) == len(every):
            whole = found
        else:
            whole = verdict(len(every))
            for name in Verdict._fields:
                getattr(whole, name)[rows] = getattr(found, name)
        return Detection(
            frame.slots, whole.beyond, whole.within, every.copy(), whole.baseline, whole.low, whole.high, whole.note,
            NOTES, whole.score,
        )  # fmt: skip

    # the scale

    def _meet(self, slots: Whole, x: Floats, firing: Mask, now_ms: int) -> None:
        is_now = np.zeros(len(slots), np.int8)
        meet(columns_of(self.state), slots, x, now_ms, is_now)
        if not is_now.any():
            return
        ready = is_now == READY
        self._place(slots[ready], x[ready])
        if self._scale == scales.UNPLACED:
            self._move(slots[(is_now == OUTGROWN) & ~firing], now_ms)

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
        self._start_over(slots, now_ms + STARTS_MS)

    def _begin(self, slots: Whole, x: Floats) -> None:
        level = self.state["level"][slots] = scales.of(self.state, slots, x)
        large = np.maximum(np.abs(level), 1e-9)
        self.state["unit"][slots] = np.where(self.state["scale"][slots] == scales.LOG, 1.0, large)

    def _start_over(self, slots: Whole, since_ms: int) -> None:
        """Limits and spread are learned again."""
        self._tails.start_over(self.state, slots)
        self.state["means"][slots] = 0
        self.state["fitted"][slots] = 0
        self.state["since_ms"][slots] = since_ms

    # the expectation

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

    def _judge(self, frame: Frame, slots: Whole, x: Floats, firing: Mask, found: Verdict) -> None:
        state, window_ms, end_ms = self.state, frame.window_ms, frame.end_ms
        hours.turn(state, slots, window_ms // HOUR_MS)
        judge(columns_of(state), self._terms, slots, x, firing, window_ms, frame.length_ms, found)
        if not self._tails.end(window_ms, end_ms):
            return
        known_ms = window_ms - state["since_ms"][slots]
        counts = np.repeat((~found.off & (known_ms > 0))[:, None], _SIDES.count, axis=1)
        counts[:, 4:] &= (known_ms > _SPREAD_STARTS_MS)[:, None]
        sigma, days = np.sqrt(state["long"][slots]), known_ms / DAY_MS
        self._tails.end_blocks(state, slots, sigma, counts, days, window_ms, end_ms)
        if window_ms // FADED_EVERY_MS != end_ms // FADED_EVERY_MS:
            self._tails.fade(state, slots, sigma, days)
            self._choose(slots, firing, window_ms)


def warm() -> None:
    """Compiles the loops, or loads them: a series with one value more than it needs to have a scale."""
    names = {option.name: option.default for option in KINDS["novelty"].options}
    measure = Measure("value", "", Function.LAST, "value")
    found = Novelty(Rule("warm", "novelty", (measure,), (), "warning", "", window_ms=HOUR_MS, options=names))
    found.grow(1)
    one = np.ones(1, np.int64)
    for number in range(scales.WARM_UP + 1):
        found.detect(Frame(number * HOUR_MS, HOUR_MS, one - 1, {"value": np.ones(1)}, one, np.zeros(1, np.bool_)))
