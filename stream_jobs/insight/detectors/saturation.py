"""More comes in than is served: value (time to first token) and load (waiting or running requests) rise together.

Options: ``over_s`` 300, ``min_t`` 4 (of each slope), ``min_rise`` 0.5 (share by which each must have risen). Both are
kept on a logarithmic scale over ``over_s``; the last 50 %, 70 % and all of it are looked at. Beyond when in one of
these stretches both lines are significant, load has risen by ``min_rise`` and the value by twice that on the
logarithmic scale, and both rose in every quarter: a surge that is absorbed rises less, and then stays.

It ends when the value or the load has come back by half of its rise (on the logarithmic scale), or after two hours at
the new level, which is then taken as normal.
"""

from __future__ import annotations

import numpy as np

from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Mask, Whole
from stream_jobs.insight.slotted import NEVER, Column, Slotted, in_order, passed
from stream_jobs.insight.statistics import fit, slopes, steps_up
from stream_jobs.rules.model import Rule

NOTES = ("", "load and value rise together: more comes in than is served")
POINTS_MAX = 60
STRETCHES = (0.5, 0.7, 1.0)
ACCEPTED_AFTER_S = 7_200.0
_POINTS_MIN = 12
_QUARTERS = 4
_EVEN = 0.3
_VALUE_RISES = 2.0
"""On the logarithmic scale: 50 % more load and 125 % more time. A surge that is absorbed costs less."""
_BACK = 0.5


class Saturation(Slotted, Detector):
    """One point per window, at most 60 over the range; a value of 0 or less has no logarithm and is unknown."""

    STATE_OPTIONS = ("over_s",)

    def __init__(self, rule: Rule) -> None:
        over_ms = int(float(rule.options["over_s"]) * 1_000)
        self._bucket_ms = max(rule.window_ms, -(-over_ms // (POINTS_MAX * rule.window_ms)) * rule.window_ms)
        self._points = max(over_ms // self._bucket_ms, _POINTS_MIN)
        columns = (
            Column("value", "f4", np.nan, (self._points,)),
            Column("load", "f4", np.nan, (self._points,)),
            Column("held_ms", "i8", NEVER),
            Column("back", "f8", np.nan, (2,)),
            Column("base", "f8", np.nan),
        )
        super().__init__(columns, {"bucket": NEVER})
        self._name = rule.value.name
        self._t = float(rule.options["min_t"])
        self._rise = float(np.log1p(float(rule.options["min_rise"])))

    def detect(self, frame: Frame) -> Detection:
        """Looks at all series of the window."""
        value, load = _log(frame.values[self._name]), _log1p(frame.values["load"])
        self._add(frame, value, load)
        slots, state = frame.slots, self.state
        held = state["held_ms"][slots] != NEVER
        back = state["back"][slots]
        over = held & ((value < back[:, 0]) | (load < back[:, 1]))
        over |= held & (frame.window_ms - state["held_ms"][slots] > ACCEPTED_AFTER_S * 1_000)
        self._release(slots[over])
        fresh = self._look(slots[~held], frame.window_ms)
        beyond = held & ~over
        beyond[np.flatnonzero(~held)[fresh]] = True
        base = np.where(beyond, state["base"][slots], np.nan)
        unknown = np.full(len(slots), np.nan)
        note = beyond.astype(np.int16)
        within = ~beyond & np.isfinite(value)
        return Detection(slots, beyond, within, frame.values[self._name], base, unknown, unknown, note, NOTES)

    def _add(self, frame: Frame, value: Floats, load: Floats) -> None:
        bucket = frame.window_ms // self._bucket_ms
        empty = passed(self.clock["bucket"], bucket, self._points)
        self.clock["bucket"] = max(bucket, self.clock["bucket"])
        for name, found in (("value", value), ("load", load)):
            self.state[name][:, empty] = np.nan
            self.state[name][frame.slots, self.clock["bucket"] % self._points] = found

    def _look(self, slots: Whole, window_ms: int) -> Mask:
        """Which of ``slots`` saturate now; they are held."""
        columns = in_order(self.clock["bucket"], self._points)
        value, load = self.state["value"][slots][:, columns], self.state["load"][slots][:, columns]
        found = np.zeros(len(slots), np.bool_)
        for part in STRETCHES:
            last = min(max(round(part * self._points), _POINTS_MIN), self._points)
            # Most series do not rise so far: only the others are looked at closely.
            far = slopes(value[:, -last:]) * (last - 1) >= _VALUE_RISES * self._rise
            rows = np.flatnonzero(far & ~found)
            if not len(rows):
                continue
            rises, levels = self._rises(value[rows, -last:], _VALUE_RISES * self._rise)
            rises_too, load_levels = self._rises(load[rows, -last:], self._rise)
            fresh = rises & rises_too
            self._hold(slots[rows[fresh]], window_ms, levels[fresh], load_levels[fresh])
            found[rows[fresh]] = True
        return found

    def _rises(self, values: Floats, least: float) -> tuple[Mask, Floats]:
        """Whether each row rises evenly and by enough between its outer quarters; ``(from, to)`` of its line."""
        length = values.shape[1]
        line = fit(values)
        rise = line.slope * (length - 1)
        steps = steps_up(values, _QUARTERS)
        with np.errstate(invalid="ignore"):
            even = (steps >= _EVEN * steps.mean(axis=1, keepdims=True)).all(axis=1)
            rises = (line.n >= 0.75 * length) & (line.t() >= self._t) & (steps.sum(axis=1) >= least) & even
        return rises, np.stack([line.mean - rise / 2, line.mean + rise / 2], axis=1)

    def _hold(self, slots: Whole, window_ms: int, value: Floats, load: Floats) -> None:
        self.state["held_ms"][slots] = window_ms
        for at, line in enumerate((value, load)):
            self.state["back"][slots, at] = line[:, 0] + _BACK * (line[:, 1] - line[:, 0])
        self.state["base"][slots] = np.exp(value[:, 0])

    def _release(self, slots: Whole) -> None:
        self.state["held_ms"][slots] = NEVER
        for name in ("back", "base", "value", "load"):
            self.state[name][slots] = np.nan


def _log(values: Floats) -> Floats:
    positive = np.isfinite(values) & (values > 0)
    return np.log(values, out=np.full(len(values), np.nan), where=positive)


def _log1p(values: Floats) -> Floats:
    """Of load, which may be 0: from 0 to 1 waiting is a small step."""
    known = np.isfinite(values) & (values >= 0)
    return np.log1p(values, out=np.full(len(values), np.nan), where=known)
