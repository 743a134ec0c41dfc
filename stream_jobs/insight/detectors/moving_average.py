"""So many percent from the moving average: the simplest baseline, and the easiest to explain."""

from __future__ import annotations

import numpy as np

from stream_jobs.insight.baseline import Baseline, Expected, Terms
from stream_jobs.insight.detectors.against_baseline import AgainstBaseline, Widths
from stream_jobs.insight.scale import Scale
from stream_jobs.rules.model import Rule


class MovingAverage(AgainstBaseline):
    """``percent`` away from the average: beyond; within ``leave_percent``: well again. There are no percent of 0."""

    STATE_OPTIONS: tuple[str, ...] = ()

    def __init__(self, rule: Rule) -> None:
        options = rule.options
        terms = Terms(
            half_life_ms=round(options["half_life_s"] * 1_000),
            warm_up_windows=options["warm_up_windows"],
            relearn_after_ms=round(options["relearn_after_s"] * 1_000),
            well_windows=rule.clear_after,
        )
        super().__init__(rule.value.name, options["direction"], Baseline(terms, Scale()))
        self._enter, self._leave = options["percent"] / 100, options["leave_percent"] / 100

    def widths(self, expected: Expected) -> Widths:
        """Shares of the average."""
        size = np.abs(expected.level)
        enter = np.where(size > 0, self._enter * size, np.inf)
        return Widths(enter, enter, self._leave * size, self._leave * size)
