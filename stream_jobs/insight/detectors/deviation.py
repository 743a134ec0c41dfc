"""Far from the series' own baseline, in standard deviations and in percent at once.

The second keeps a series that hardly varies from being an alarm when it does; it is part of the entering level, and in
proportion of the leaving level, so that the expected range that is shown is the one that decides.
"""

from __future__ import annotations

import numpy as np

from stream_jobs.insight.baseline import Baseline, Expected, Terms
from stream_jobs.insight.detectors.against_baseline import AgainstBaseline, Widths
from stream_jobs.insight.frame import Floats
from stream_jobs.insight.scale import Scale
from stream_jobs.rules.model import Rule


class Deviation(AgainstBaseline):
    """``enter_sigmas`` deviations and ``min_relative`` away: beyond. Within ``leave_sigmas``: well again."""

    STATE_OPTIONS = ("log", "season")

    def __init__(self, rule: Rule) -> None:
        options = rule.options
        scale = Scale(options["log"], options["floor_relative"], options["floor_absolute"] or 0.0)
        terms = Terms(
            half_life_ms=round(options["half_life_s"] * 1_000),
            warm_up_windows=options["warm_up_windows"],
            relearn_after_ms=round(options["relearn_after_s"] * 1_000),
            well_windows=rule.clear_after,
            season_weeks_min=options["season_weeks_min"] if options["season"] else 0,
        )
        super().__init__(rule.value.name, options["direction"], Baseline(terms, scale))
        self._enter, self._relative = float(options["enter_sigmas"]), float(options["min_relative"])
        self._leave_share = float(options["leave_sigmas"]) / self._enter

    def widths(self, expected: Expected) -> Widths:
        """The wider of both levels, up and down (on a log scale, 20 % less is further than 20 % more)."""
        up, down = self._width(expected, True), self._width(expected, False)
        return Widths(up, down, self._leave_share * up, self._leave_share * down)

    def _width(self, expected: Expected, up: bool) -> Floats:
        least = self.baseline.scale.step(expected.level, self._relative, up)
        return np.maximum(self._enter * expected.sigma, least)
