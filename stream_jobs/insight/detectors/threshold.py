"""A fixed level: beyond it is beyond it. The leaving level lies on its calm side, so that a value on the edge does not
flap."""

from __future__ import annotations

import numpy as np

from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Whole
from stream_jobs.insight.slotted import Slotted
from stream_jobs.rules.model import Rule


class Level:
    """``above`` or ``below`` a level, strictly; ``leave`` (default: the level itself) is still within."""

    def __init__(self, rule: Rule) -> None:
        above, below = rule.options.get("above"), rule.options.get("below")
        self._sign = 1.0 if above is not None else -1.0
        self._enter = float(above if above is not None else below if below is not None else np.nan)
        leave = rule.options.get("leave")
        self._leave = self._enter if leave is None else float(leave)

    def compare(self, slots: Whole, value: Floats) -> Detection:
        """NaN is neither beyond nor within."""
        beyond = self._sign * value > self._sign * self._enter
        within = (self._sign * value <= self._sign * self._leave) & ~beyond
        unknown, level = np.full(len(value), np.nan), np.full(len(value), self._enter)
        low, high = (unknown, level) if self._sign > 0 else (level, unknown)
        return Detection(slots, beyond, within, value, unknown, low, high)


class Threshold(Slotted, Detector):
    """Keeps nothing per series."""

    STATE_OPTIONS = ()

    def __init__(self, rule: Rule) -> None:
        super().__init__(())
        self._name, self._level = rule.value.name, Level(rule)

    def detect(self, frame: Frame) -> Detection:
        return self._level.compare(frame.slots, frame.values[self._name])
