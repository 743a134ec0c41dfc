"""Rises or falls too fast: the slope of a line through the last ``over_s``, by least squares.

The range is kept as at most ``POINTS_MAX`` points, each the mean of its stretch of event time. Judged when the newest
and three in four of the points are known.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stream_jobs.insight import rings
from stream_jobs.insight.frame import Detection, Floats, Frame, Whole
from stream_jobs.insight.regression_line import fit
from stream_jobs.insight.slotted import Column, Slotted
from stream_jobs.rules.model import Rule

POINTS_MAX = 13
KNOWN_SHARE_MIN = 0.75

_PER_MS = {"hour": 3_600_000, "minute": 60_000}


class RateOfChange:
    """``above`` or ``below`` a change per hour or minute. About 70 bytes per series."""

    STATE_OPTIONS = ("over_s",)

    def __init__(self, rule: Rule) -> None:
        options = rule.options
        above, below = options.get("above"), options.get("below")
        self._name = rule.value.name
        self._sign = 1.0 if above is not None else -1.0
        self._enter = float(above if above is not None else below if below is not None else np.nan)
        self._leave = self._enter if options.get("leave") is None else float(options["leave"])
        over_ms = round(options["over_s"] * 1_000)
        self._points = max(3, min(POINTS_MAX, over_ms // rule.window_ms + 1))
        self._step_ms = max(rule.window_ms, -(-over_ms // (self._points - 1)))
        self._per_step = _PER_MS[options["per"]] / self._step_ms
        ring = Column("points", "f4", np.nan, (self._points,))
        self._kept = Slotted((ring, Column("sum", "f8"), Column("samples", "i4")), {"newest": rings.NEVER})

    def grow(self, slots: int) -> None:
        """Makes room."""
        self._kept.grow(slots)

    def detect(self, frame: Frame) -> Detection:
        """All series of the frame; rates are in the unit of the rule."""
        every = frame.values[self._name]
        rows = np.flatnonzero(np.isfinite(every))
        slots = frame.slots[rows]
        self._turn(frame.window_ms // self._step_ms)
        self._enter_values(slots, every[rows])
        rate = np.full(len(every), np.nan)
        rate[rows] = self._rates(slots)
        beyond = self._sign * rate > self._sign * self._enter
        within = (self._sign * rate <= self._sign * self._leave) & ~beyond
        unknown, level = np.full(len(rate), np.nan), np.full(len(rate), self._enter)
        low, high = (unknown, level) if self._sign > 0 else (level, unknown)
        return Detection(frame.slots, beyond, within, rate, unknown, low, high)

    def forget(self, slots: Whole) -> None:
        """Empties these slots."""
        self._kept.forget(slots)

    def dump(self) -> dict[str, npt.NDArray[np.generic]]:
        """The points and the stretch that runs."""
        return self._kept.dump()

    def load(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """What was dumped."""
        self._kept.load(arrays)

    def _turn(self, bucket: int) -> None:
        newest, state = self._kept.clock["newest"], self._kept.state
        if bucket <= newest:
            return
        state["points"][:, rings.passed(newest, bucket, self._points)] = np.nan
        state["sum"][:] = 0
        state["samples"][:] = 0
        self._kept.clock["newest"] = bucket

    def _enter_values(self, slots: Whole, values: Floats) -> None:
        state, place = self._kept.state, self._kept.clock["newest"] % self._points
        state["sum"][slots] += values
        state["samples"][slots] += 1
        state["points"][slots, place] = rings.storable(state["sum"][slots] / state["samples"][slots])

    def _rates(self, slots: Whole) -> Floats:
        order = rings.in_order(self._kept.clock["newest"], self._points)
        points = self._kept.state["points"][slots][:, order]
        line = fit(points)
        judged = line.n >= max(3.0, KNOWN_SHARE_MIN * self._points)
        rates: Floats = np.where(judged, line.slope * self._per_step, np.nan)
        return rates
