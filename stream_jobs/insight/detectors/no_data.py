"""Nothing comes any more from a series that was there.

Silence is the time of the windows in which it was missing while others reported; a gap in the windows themselves, or
one that nobody heard of in full, is not held against a series. After ``forget_after_s`` it counts as taken away on
purpose. It is back with as many readings as the rule wants calm windows, none of them silent for ``after_s``: a series
may report more rarely than by the window.
"""

from __future__ import annotations

import numpy as np

from stream_jobs.insight.frame import Detection, Detector, Frame
from stream_jobs.insight.slotted import Column, Slotted
from stream_jobs.rules.model import Rule

NEVER_SEEN = -1
GONE = "silent for so long that it counts as taken away"


class NoData(Slotted, Detector):
    """Judges every series seen before; the value is its silence in seconds. 8 bytes per series."""

    STATE_OPTIONS = ()

    def __init__(self, rule: Rule) -> None:
        self._after_s, self._forget_s = float(rule.options["after_s"]), float(rule.options["forget_after_s"])
        super().__init__((Column("silent_ms", "i8", NEVER_SEEN),))

    def detect(self, frame: Frame) -> Detection:
        """All series ever seen, present or not."""
        silent_ms = self.state["silent_ms"]
        silent_ms[silent_ms != NEVER_SEEN] += frame.length_ms
        silent_ms[frame.slots] = 0
        slots = np.flatnonzero(silent_ms != NEVER_SEEN)
        silent_s = silent_ms[slots] / 1_000
        gone = silent_s >= self._forget_s
        beyond = (silent_s >= self._after_s) & ~gone
        unknown = np.full(len(slots), np.nan)
        high = np.full(len(slots), self._after_s)
        note, pauses = gone.astype(np.int16), (silent_s > 0) & (silent_s < self._after_s)
        return Detection(
            slots, beyond, (silent_s == 0) | gone, silent_s, unknown, unknown, high, note, ("", GONE), pauses=pauses
        )
