"""What detectors that judge a series against its own past have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.baseline import Baseline, Expected, Seen
from stream_jobs.insight.frame import Detection, Floats, Frame, Mask, Whole

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

    LEARNS = True

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

    def detect(self, frame: Frame) -> Detection:
        """All series of the frame; what is unknown stays so."""
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
        return self._result(frame, rows, seen, widths, accepted)

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

    def _result(self, frame: Frame, rows: Whole, seen: Seen, widths: Widths, accepted: Mask) -> Detection:
        level, warm, back = seen.expected.level, seen.expected.warm, self.baseline.scale.back
        count = len(frame.slots)

        def spread(found: Floats) -> Floats:
            return _spread(np.where(warm, back(found), np.nan), rows, count)

        return Detection(
            frame.slots,
            _marked(seen.beyond & ~accepted, rows, count),
            _marked(seen.within | accepted, rows, count),
            _spread(frame.values[self._measure][rows], rows, count),
            spread(level),
            spread(level - widths.enter_down),
            spread(level + widths.enter_up),
            _marked(accepted, rows, count).astype(np.int16),
            ("", ACCEPTED),
        )


def _spread(found: Floats, rows: Whole, count: int) -> Floats:
    """Values of some rows among all; NaN for the others."""
    out = np.full(count, np.nan)
    out[rows] = found
    return out


def _marked(found: Mask, rows: Whole, count: int) -> Mask:
    """Marks of some rows among all."""
    out = np.zeros(count, np.bool_)
    out[rows] = found
    return out
