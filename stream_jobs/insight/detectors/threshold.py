"""A static level: beyond it is beyond it. The leaving level lies on its calm side, so that a value on the edge does not
flap."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.frame import Detection, Frame, Whole
from stream_jobs.rules.model import Rule


class Threshold:
    """Stateless: ``above`` or ``below`` a level, strictly; ``leave`` (default: the level itself) is still within."""

    STATE_OPTIONS: tuple[str, ...] = ()

    def __init__(self, rule: Rule) -> None:
        above, below = rule.options.get("above"), rule.options.get("below")
        self._name = rule.value.name
        self._sign = 1.0 if above is not None else -1.0
        self._enter = float(above if above is not None else below if below is not None else np.nan)
        leave = rule.options.get("leave")
        self._leave = self._enter if leave is None else float(leave)

    def grow(self, slots: int) -> None:
        """Nothing is kept per series."""

    def detect(self, frame: Frame) -> Detection:
        """Compares what is known; NaN is neither beyond nor within."""
        value = frame.values[self._name]
        beyond = self._sign * value > self._sign * self._enter
        within = (self._sign * value <= self._sign * self._leave) & ~beyond
        unknown = np.full(len(value), np.nan)
        level = np.full(len(value), self._enter)
        low, high = (unknown, level) if self._sign > 0 else (level, unknown)
        return Detection(frame.slots, beyond, within, value, unknown, low, high)

    def forget(self, slots: Whole) -> None:
        """Nothing is kept per series."""

    def dump(self) -> dict[str, npt.NDArray[np.generic]]:
        """Nothing."""
        return {}

    def load(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Nothing."""
