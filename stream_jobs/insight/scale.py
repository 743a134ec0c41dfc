"""On which scale a baseline judges, and how wide it must at least be.

Latencies and rates are judged by ratio: the scale is the natural logarithm, on which 10 % more is the same step
everywhere. There a value at or below zero has no place: negative ones are unknown, zero (and what lies below
``floor_absolute``) is taken as ``floor_absolute``, or as ``LEAST`` where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_jobs.insight.frame import Floats

LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Scale:
    """``floor_relative`` is a share of the expected value, ``floor_absolute`` an amount in the measure's unit: the
    standard deviation is taken as at least either."""

    log: bool = False
    floor_relative: float = 0.0
    floor_absolute: float = 0.0

    def of(self, values: Floats) -> Floats:
        """Values on the scale; NaN for what has no place there."""
        finite = np.where(np.isfinite(values), values, np.nan)
        if not self.log:
            return finite
        return np.log(np.maximum(np.where(finite < 0, np.nan, finite), max(self.floor_absolute, LEAST)))

    def back(self, places: Floats) -> Floats:
        """The values at these places."""
        return np.exp(np.minimum(places, 700.0)) if self.log else places

    def sigma(self, level: Floats, variance: Floats) -> Floats:
        """Standard deviation on the scale, not below the floors around ``level``."""
        own = np.sqrt(np.maximum(variance, 0.0))
        if self.log:
            with np.errstate(over="ignore"):
                absolute = np.log1p(self.floor_absolute * np.exp(-level)) if self.floor_absolute else 0.0
            return np.maximum(own, np.maximum(np.log1p(self.floor_relative), absolute))
        return np.maximum(own, np.maximum(self.floor_relative * np.abs(level), self.floor_absolute))

    def step(self, level: Floats, share: float, up: bool) -> Floats:
        """How far above or below ``level`` the value lies that is by ``share`` more or less."""
        if not self.log:
            return share * np.abs(level)
        return np.full(len(level), np.log1p(share) if up else -np.log1p(-min(share, 1 - LEAST)))

    def size(self, level: Floats, sigma: Floats) -> Floats:
        """What counts as one on the scale: 1 where it is logarithmic, else the level or 8 deviations."""
        if self.log:
            return np.ones(len(level))
        return np.maximum(np.maximum(np.abs(level), 8 * sigma), LEAST)
