"""The GPU idles while requests wait: something before it is the bottleneck.

Options: ``below`` (must be given), ``leave`` (None: the level), ``waiting_above`` 1, and a level for each cause.
Measures: how busy the GPU is, ``waiting``, and of the causes those that the rule has. One saturated core starves a GPU
while the host's mean is low: the busiest thread of the engine's processes is looked at first, then the busiest core.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Mask
from stream_jobs.insight.slotted import Slotted
from stream_jobs.rules.model import Rule

NOTES = (
    "",
    "likely cause: CPU or tokenisation",
    "likely cause: PCIe transfers",
    "likely cause: batching (neither CPU nor PCIe is busy)",
    "requests wait while the GPU idles",
    "likely cause: one thread of the engine is saturated (tokenisation or scheduling)",
    "likely cause: one core of the host is saturated (tokenisation or scheduling?)",
)
CPU, PCIE, BATCHING, UNKNOWN_CAUSE, THREAD, CORE = 1, 2, 3, 4, 5, 6
_CAUSES = (("thread", THREAD), ("core", CORE), ("cpu", CPU), ("pcie", PCIE))
"""The likeliest first; the measure's name is that of its level without ``_above``."""


class Starved(Slotted, Detector):
    """Keeps nothing per series. What is unknown is neither beyond nor within; a cause is named only where its measure
    is known."""

    STATE_OPTIONS = ()

    def __init__(self, rule: Rule) -> None:
        super().__init__(())
        options = rule.options
        leave = options.get("leave")
        self._name = rule.value.name
        self._below = float(options["below"])
        self._leave = self._below if leave is None else float(leave)
        self._waiting = float(options["waiting_above"])
        self._causes = [(name, options.get(f"{name}_above"), code) for name, code in _CAUSES]

    def detect(self, frame: Frame) -> Detection:
        """Beyond while idle and waiting; within when busy again, or nobody waits."""
        value, waiting = frame.values[self._name], frame.values["waiting"]
        beyond = (value < self._below) & (waiting > self._waiting)
        within = (value >= self._leave) & ~beyond | (waiting <= self._waiting)
        unknown = np.full(len(value), np.nan)
        low = np.full(len(value), self._below)
        note = np.where(beyond, self._cause(frame), 0).astype(np.int16)
        judged = np.where(np.isnan(waiting) & ~within, np.nan, value)
        return Detection(frame.slots, beyond, within, judged, unknown, low, unknown, note, NOTES)

    def _cause(self, frame: Frame) -> npt.NDArray[np.int16]:
        cause = np.full(len(frame.slots), UNKNOWN_CAUSE, np.int16)
        known: Mask = np.zeros(len(frame.slots), np.bool_)
        for name, level, code in reversed(self._causes):
            found: Floats | None = frame.values.get(name)
            if found is None or level is None:
                continue
            known |= np.isfinite(found)
            cause[found > float(level)] = code
        cause[known & (cause == UNKNOWN_CAUSE)] = BATCHING
        return cause
