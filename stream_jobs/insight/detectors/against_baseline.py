"""Detectors that judge a series against its own past: so many percent from the moving average, or so many deviations
from the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.baseline import Baseline, Expected, Scale, Seen, Terms
from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Mask, Whole
from stream_jobs.insight.slotted import Column
from stream_jobs.rules.model import Rule

ACCEPTED = "new normal accepted"
_LOAD = (Column("load", "f8"), Column("load_samples", "i4"))
"""Its average, and from how many windows."""
_LOAD_HALF_LIFE_MS = 7_200_000
"""At most: what a day does to load is then no more than a third of it."""


@dataclass(frozen=True, slots=True)
class Widths:
    """How far from the expected level, on the scale, a series enters and leaves, upwards and downwards."""

    enter_up: Floats
    enter_down: Floats
    leave_up: Floats
    leave_down: Floats


class AgainstBaseline(Baseline, Detector):
    """A baseline that judges, then trains. What is not known, or not known long enough, is neither beyond nor
    within.

    With a measure ``load`` it compares at about equal load: a batch twice as large takes longer from token to token,
    and no engine is slower. Load has a moving average of the same half-life, at most two hours; while it is more than
    ``load_percent`` above that, and is known for ``warm_up_windows``, nothing is beyond upwards. Value and load train
    all the same: load that stays is the new usual, and so is what it brings."""

    LEARNS = True

    def __init__(self, rule: Rule, scale: Scale, season_weeks_min: int = 0) -> None:
        options = rule.options
        self._has_load = any(measure.name == "load" for measure in rule.measures)
        terms = Terms(
            half_life_ms=round(options["half_life_s"] * 1_000),
            warm_up_windows=options["warm_up_windows"],
            relearn_after_ms=rule.relearn_after_ms,
            well_windows=rule.clear_after,
            season_weeks_min=season_weeks_min,
        )
        super().__init__(terms, scale, _LOAD if self._has_load else ())
        self._load_over = 1 + options["load_percent"] / 100 if self._has_load else np.inf
        self._load_half_life_ms = min(terms.half_life_ms, _LOAD_HALF_LIFE_MS)
        self._measure, direction = rule.value.name, options["direction"]
        self._up, self._down = direction in ("above", "both"), direction in ("below", "both")

    def widths(self, expected: Expected) -> Widths:
        """Of this detector."""
        raise NotImplementedError

    def _explained(self, frame: Frame) -> Mask:
        """Which series' load is far above its average; then that learns it."""
        found = np.zeros(len(frame.slots), np.bool_)
        if not self._has_load:
            return found
        load = frame.values["load"]
        known = np.flatnonzero(np.isfinite(load))
        slots, load = frame.slots[known], load[known]
        average, samples = self.state["load"][slots], self.state["load_samples"][slots]
        found[known] = (samples >= self.terms.warm_up_windows) & (load > self._load_over * average)
        weight = np.maximum(1.0 - np.exp2(-frame.length_ms / self._load_half_life_ms), 1.0 / (samples + 1.0))
        self.state["load"][slots] = average + weight * (load - average)
        self.state["load_samples"][slots] = samples + 1
        return found

    def detect(self, frame: Frame) -> Detection:
        """All series of the frame; what is unknown stays so."""
        every = self.scale.of(frame.values[self._measure])
        rows = np.flatnonzero(~np.isnan(every))
        slots, values = frame.slots[rows], every[rows]
        expected = self.expected(slots, values, frame.window_ms)
        widths = self.widths(expected)
        beyond, within = self._sides(values - expected.level, expected.warm, widths)
        beyond &= ~(self._explained(frame)[rows] & (values > expected.level))
        limit = np.maximum(widths.enter_up, widths.enter_down)
        firing = frame.firing[rows]
        seen = Seen(slots, values, beyond, within, firing, expected, limit, frame.window_ms, frame.length_ms)
        accepted = self.learn(seen)
        return self._result(frame, rows, seen, widths, accepted)

    def _sides(self, away: Floats, warm: Mask, widths: Widths) -> tuple[Mask, Mask]:
        high = (away > widths.enter_up) & self._up
        low = (away < -widths.enter_down) & self._down
        calm = ((away <= widths.leave_up) | (not self._up)) & ((away >= -widths.leave_down) | (not self._down))
        beyond = warm & (high | low)
        return beyond, warm & calm & ~beyond

    def _result(self, frame: Frame, rows: Whole, seen: Seen, widths: Widths, accepted: Mask) -> Detection:
        level, warm, back = seen.expected.level, seen.expected.warm, self.scale.back
        count, away = len(frame.slots), seen.values - seen.expected.level
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.nan_to_num(np.maximum(away / widths.enter_up, -away / widths.enter_down), nan=0.0, posinf=1e300)

        def spread(found: Floats) -> Floats:
            return _spread(np.where(warm, back(found), np.nan), rows, count)

        return Detection(
            frame.slots,
            _spread(seen.beyond & ~accepted, rows, count),
            _spread(seen.within | accepted, rows, count),
            _spread(frame.values[self._measure][rows], rows, count),
            spread(level),
            spread(level - widths.enter_down),
            spread(level + widths.enter_up),
            _spread(accepted, rows, count).astype(np.int16),
            ("", ACCEPTED),
            _spread(np.where(warm, score, np.nan), rows, count),
        )


def _spread(found: npt.NDArray[Any], rows: Whole, count: int) -> npt.NDArray[Any]:
    """Values or marks of some rows among all; NaN, or False, for the others."""
    out = np.full(count, False if found.dtype == np.bool_ else np.nan)
    out[rows] = found
    return out


class MovingAverage(AgainstBaseline):
    """``percent`` away from the average: beyond; within ``leave_percent``: well again. There are no percent of 0. The
    simplest baseline, and the easiest to explain. ``only_above``: what is not above it is never beyond upwards, but
    trains the average all the same, which a ``while`` would keep it from; where it is the level that is entered, the
    leaving level is as much nearer to the average as ``leave_percent`` is than ``percent``."""

    STATE_OPTIONS = ()

    def __init__(self, rule: Rule) -> None:
        options = rule.options
        super().__init__(rule, Scale())
        self._enter, self._leave = options["percent"] / 100, options["leave_percent"] / 100
        self._only_above = -np.inf if options.get("only_above") is None else float(options["only_above"])

    def widths(self, expected: Expected) -> Widths:
        """Shares of the average."""
        size = np.abs(expected.level)
        enter = np.where(size > 0, self._enter * size, np.inf)
        leave, apart = self._leave * size, self._only_above - expected.level
        leave_up = np.maximum(leave, self._leave / self._enter * apart)
        return Widths(np.maximum(enter, apart), enter, leave_up, leave)


class Deviation(AgainstBaseline):
    """``enter_sigmas`` deviations and ``min_relative`` away: beyond. Within ``leave_sigmas``: well again.

    ``min_relative`` keeps a series that hardly varies from being an alarm when it does; it is part of the entering
    level, and in proportion of the leaving level, so that the expected range that is shown is the one that decides."""

    STATE_OPTIONS = ("log", "season")

    def __init__(self, rule: Rule) -> None:
        options = rule.options
        scale = Scale(options["log"], options["floor_relative"], options["floor_absolute"] or 0.0)
        super().__init__(rule, scale, options["season_weeks_min"] if options["season"] else 0)
        self._enter, self._relative = float(options["enter_sigmas"]), float(options["min_relative"])
        self._leave_share = float(options["leave_sigmas"]) / self._enter

    def widths(self, expected: Expected) -> Widths:
        """The wider of both levels, up and down (on a log scale, 20 % less is further than 20 % more)."""
        up, down = self._width(expected, True), self._width(expected, False)
        return Widths(up, down, self._leave_share * up, self._leave_share * down)

    def _width(self, expected: Expected, up: bool) -> Floats:
        least = self.scale.step(expected.level, self._relative, up)
        return np.maximum(self._enter * expected.sigma, least)
