"""Rises or falls too fast: the slope of a line through the last ``over_s``, by least squares.

The range is kept as at most ``POINTS_MAX`` points, each the mean of its stretch of event time. Judged when the newest
and three in four of the points are known.
"""

from __future__ import annotations

import numpy as np

from stream_jobs.insight.detectors.threshold import Level
from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Whole
from stream_jobs.insight.slotted import NEVER, Column, Slotted, in_order, passed, storable
from stream_jobs.insight.statistics import fit
from stream_jobs.rules.model import Rule

POINTS_MAX = 13
KNOWN_SHARE_MIN = 0.75

_PER_MS = {"hour": 3_600_000, "minute": 60_000}


class RateOfChange(Slotted, Detector):
    """``above`` or ``below`` a change per hour or minute. About 70 bytes per series."""

    STATE_OPTIONS = ("over_s",)

    def __init__(self, rule: Rule) -> None:
        options = rule.options
        self._name, self._level = rule.value.name, Level(rule)
        over_ms = round(options["over_s"] * 1_000)
        self._points = max(3, min(POINTS_MAX, over_ms // rule.window_ms + 1))
        self._step_ms = max(rule.window_ms, -(-over_ms // (self._points - 1)))
        self._per_step = _PER_MS[options["per"]] / self._step_ms
        ring = Column("points", "f4", np.nan, (self._points,))
        super().__init__((ring, Column("sum", "f8"), Column("samples", "i4")), {"newest": NEVER})

    def detect(self, frame: Frame) -> Detection:
        """All series of the frame; rates are in the unit of the rule."""
        every = frame.values[self._name]
        rows = np.flatnonzero(np.isfinite(every))
        slots = frame.slots[rows]
        self._turn(frame.window_ms // self._step_ms)
        self._enter_values(slots, every[rows])
        rate = np.full(len(every), np.nan)
        rate[rows] = self._rates(slots)
        return self._level.compare(frame.slots, rate)

    def _turn(self, bucket: int) -> None:
        newest, state = self.clock["newest"], self.state
        if bucket <= newest:
            return
        state["points"][:, passed(newest, bucket, self._points)] = np.nan
        state["sum"][:] = 0
        state["samples"][:] = 0
        self.clock["newest"] = bucket

    def _enter_values(self, slots: Whole, values: Floats) -> None:
        state, place = self.state, self.clock["newest"] % self._points
        state["sum"][slots] += values
        state["samples"][slots] += 1
        state["points"][slots, place] = storable(state["sum"][slots] / state["samples"][slots])

    def _rates(self, slots: Whole) -> Floats:
        order = in_order(self.clock["newest"], self._points)
        points = self.state["points"][slots][:, order]
        line = fit(points)
        judged = line.n >= max(3.0, KNOWN_SHARE_MIN * self._points)
        rates: Floats = np.where(judged, line.slope * self._per_step, np.nan)
        return rates
