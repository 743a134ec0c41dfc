"""The GPU idles while requests wait: something before it is the bottleneck.

Options: ``below`` (must be given), ``leave`` (None: the level), ``waiting_above`` 1, ``cpu_above`` None, ``pcie_above``
None. Measures: how busy the GPU is, ``waiting``; ``cpu`` and ``pcie`` where the rule has them.
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
)
CPU, PCIE, BATCHING, UNKNOWN_CAUSE = 1, 2, 3, 4


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
        self._causes = (("cpu", options.get("cpu_above"), CPU), ("pcie", options.get("pcie_above"), PCIE))

    def detect(self, frame: Frame) -> Detection:
        """Beyond while idle and waiting; within when busy again, or nobody waits."""
        value, waiting = frame.values[self._name], frame.values["waiting"]
        beyond = (value < self._below) & (waiting > self._waiting)
        within = (value >= self._leave) & ~beyond | (waiting <= self._waiting)
        unknown = np.full(len(value), np.nan)
        low = np.full(len(value), self._below)
        note = np.where(beyond, self._cause(frame), 0).astype(np.int16)
        return Detection(frame.slots, beyond, within, value, unknown, low, unknown, note, NOTES)

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
