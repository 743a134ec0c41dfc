"""What detectors that judge a series against its own past have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.baseline import Baseline, Expected, Seen
from stream_jobs.insight.frame import Floats, Frame, Judgement, Mask, Whole

ACCEPTED = "new normal accepted"


@dataclass(frozen=True, slots=True)
class Widths:
    """How far from the expected level, on the scale, a series enters and leaves, upwards and downwards."""

    enter_up: Floats
    enter_down: Floats
    leave_up: Floats
    leave_down: Floats


class AgainstBaseline:
    """Judges, then trains. What is not known, or not known long enough, is neither beyond nor within."""

    def __init__(self, measure: str, direction: str, baseline: Baseline) -> None:
        self._measure = measure
        self._up, self._down = direction in ("above", "both"), direction in ("below", "both")
        self.baseline = baseline

    def widths(self, expected: Expected) -> Widths:
        """Of this detector."""
        raise NotImplementedError

    def grow(self, slots: int) -> None:
        """Makes room."""
        self.baseline.grow(slots)

    def judge(self, frame: Frame) -> Judgement:
        """The series whose value is known."""
        every = self.baseline.scale.of(frame.values[self._measure])
        rows = np.flatnonzero(~np.isnan(every))
        slots, values = frame.slots[rows], every[rows]
        expected = self.baseline.expected(slots, values, frame.window_ms)
        widths = self.widths(expected)
        beyond, within = self._sides(values - expected.level, expected.warm, widths)
        limit = np.maximum(widths.enter_up, widths.enter_down)
        firing = frame.firing[rows]
        seen = Seen(slots, values, beyond, within, firing, expected, limit, frame.window_ms, frame.length_ms)
        accepted = self.baseline.learn(seen)
        return self._told(frame.values[self._measure][rows], seen, widths, accepted)

    def forget(self, slots: Whole) -> None:
        """Empties these slots."""
        self.baseline.forget(slots)

    def dump(self) -> dict[str, npt.NDArray[np.generic]]:
        """The baseline."""
        return self.baseline.dump()

    def load(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """The baseline."""
        self.baseline.load(arrays)

    def _sides(self, away: Floats, warm: Mask, widths: Widths) -> tuple[Mask, Mask]:
        high = (away > widths.enter_up) & self._up
        low = (away < -widths.enter_down) & self._down
        calm = ((away <= widths.leave_up) | (not self._up)) & ((away >= -widths.leave_down) | (not self._down))
        beyond = warm & (high | low)
        return beyond, warm & calm & ~beyond

    def _told(self, values: Floats, seen: Seen, widths: Widths, accepted: Mask) -> Judgement:
        level, warm, back = seen.expected.level, seen.expected.warm, self.baseline.scale.back
        return Judgement(
            seen.slots,
            seen.beyond & ~accepted,
            seen.within | accepted,
            values,
            np.where(warm, back(level), np.nan),
            np.where(warm, back(level - widths.enter_down), np.nan),
            np.where(warm, back(level + widths.enter_up), np.nan),
            accepted.astype(np.int16),
            ("", ACCEPTED),
        )
