"""A model version is worse than the one before it: a deployment made the service slower.

Options: ``version`` model_version, ``direction`` above, ``min_relative`` 0.1, ``min_count`` 200, ``half_life_s`` 3600,
``relearn_after_s`` 7200. Measure ``hosts`` is optional and only shown.

Series that are alike but for their version are versions of one thing. The newest (first seen last) is held against its
predecessor: the youngest version that was seen for 30 windows before it came, with ``min_count`` requests. Beyond when
its mean of the last twelve windows is worse than the predecessor's baseline by ``min_relative`` *and* by four standard
errors (from the spread of the predecessor's windows, six of which are taken to count as one independent one).

- A version without predecessor, which is all there are at the beginning, is never judged.
- The predecessor's baseline is of its own windows and stands still when it is gone. It is good for ``relearn_after_s``
  after the new version came (never less than the rule wants to fire), or as long as both run side by side; then the
  new version is the normal one.
- A version that was taken back is well again a minute after it was last seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.detectors.straggler import group_of
from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Labels, Mask, Whole
from stream_jobs.insight.slotted import Column, Slotted
from stream_jobs.rules.model import Rule

WARM_UP_WINDOWS = 30
RECENT_WINDOWS = 12
_GONE_WINDOWS = 6
_WINDOWS_MIN = 2
_ERRORS = 4.0
_SIGMA_FLOOR = float(np.log1p(0.02))
_ALIKE = 6.0
"""Neighbouring windows are alike: so many of them count as one independent one."""
_NEVER = -1


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Newest versions and the versions each is held against."""

    newest: Whole
    before: Whole


class Regression(Slotted, Detector):
    """Keeps a baseline per version on the logarithm of the value; values of 0 or less are unknown."""

    STATE_OPTIONS = ("version", "half_life_s")
    LEARNS = True

    def __init__(self, rule: Rule) -> None:
        columns = (
            Column("group", "i8"),
            Column("first_ms", "i8", _NEVER),
            Column("last_ms", "i8", _NEVER),
            Column("requests", "f8"),
            Column("windows", "i4"),
            Column("mean", "f8"),
            Column("variance", "f8"),
            Column("recent", "f8"),
        )
        super().__init__(columns)
        options = rule.options
        self._name = rule.value.name
        self._version = str(options["version"])
        self._signs = {"above": (1.0,), "below": (-1.0,)}.get(str(options["direction"]), (1.0, -1.0))
        self._relative = float(np.log1p(float(options["min_relative"])))
        self._requests = float(options["min_count"])
        self._step = 1.0 - 0.5 ** (rule.window_ms / 1_000 / float(options["half_life_s"]))
        self._relearn_ms = rule.relearn_after_ms
        self._window_ms = rule.window_ms
        self._names: dict[int, str] = {}

    def named(self, slots: Whole, labels: Sequence[Labels]) -> None:
        """Notes groups; one without the version's label is never judged."""
        for slot, one in zip(slots, labels, strict=True):
            self.grow(int(slot) + 1)
            others = "\0".join(f"{name}\0{value}" for name, value in one if name != self._version)
            version = dict(one).get(self._version)
            self.state["group"][slot] = 0 if version is None else group_of(others)
            self._names[int(slot)] = version or ""

    def forget(self, slots: Whole) -> None:
        """Empties the slots and their names."""
        super().forget(slots)
        for slot in slots.tolist():
            self._names.pop(slot, None)

    def detect(self, frame: Frame) -> Detection:
        """Learns the window, then holds each newest version against the one before it."""
        self._learn(frame)
        pairs = self._pairs(frame)
        state, newest, before = self.state, pairs.newest, pairs.before
        difference = state["recent"][newest] - state["mean"][before]
        worse = np.max([sign * difference for sign in self._signs], axis=0)
        comparable, present = self._comparable(pairs, frame), state["last_ms"][newest] == frame.window_ms
        beyond = self._worse(pairs, worse) & comparable & present
        gone = frame.window_ms - state["last_ms"][newest] >= _GONE_WINDOWS * self._window_ms
        within = ((worse <= self._relative / 2) | gone | ~comparable) & ~beyond
        baseline = np.exp(state["mean"][before])
        unknown = np.full(len(newest), np.nan)
        high = baseline * np.exp(self._relative) if 1.0 in self._signs else unknown
        low = baseline * np.exp(-self._relative) if -1.0 in self._signs else unknown
        note, notes = self._named_notes(newest, beyond, frame)
        value = np.exp(state["recent"][newest])
        return Detection(newest, beyond, within, value, baseline, low, high, note, notes)

    def _learn(self, frame: Frame) -> None:
        value = frame.values[self._name]
        known = np.isfinite(value) & (value > 0) & (frame.counts > 0)
        slots, y, state = frame.slots[known], np.log(value[known]), self.state
        state["first_ms"][slots] = np.where(state["windows"][slots] == 0, frame.window_ms, state["first_ms"][slots])
        state["last_ms"][slots] = frame.window_ms
        state["requests"][slots] += frame.counts[known]
        state["windows"][slots] += 1
        n = state["windows"][slots].astype(np.float64)
        state["recent"][slots] += np.maximum(1 / n, 1 / RECENT_WINDOWS) * (y - state["recent"][slots])
        free = ~frame.firing[known]
        slots, y, step = slots[free], y[free], np.maximum(1 / n[free], self._step)
        away = y - state["mean"][slots]
        state["mean"][slots] += step * away
        state["variance"][slots] = (1 - step) * (state["variance"][slots] + step * away**2)

    def _pairs(self, frame: Frame) -> _Pairs:
        """Newest version of each group that has a predecessor."""
        state = self.state
        live = np.flatnonzero((state["first_ms"] != _NEVER) & (state["group"] != 0))
        order = live[np.lexsort((live, state["first_ms"][live], state["group"][live]))]
        if not len(order):
            return _Pairs(order, order)
        group, first = state["group"][order], state["first_ms"][order]
        ends = np.flatnonzero(np.r_[group[1:] != group[:-1], True])
        sizes = np.diff(np.r_[-1, ends])
        came = np.repeat(first[ends], sizes)
        settled = (first <= came - WARM_UP_WINDOWS * frame.length_ms) & (state["windows"][order] >= WARM_UP_WINDOWS)
        settled &= state["requests"][order] >= self._requests
        youngest = np.maximum.accumulate(np.where(settled, np.arange(len(order)), -1))[ends]
        has = youngest > ends - sizes
        return _Pairs(order[ends[has]], order[youngest[has]])

    def _worse(self, pairs: _Pairs, worse: Floats) -> Mask:
        state, newest = self.state, pairs.newest
        windows = np.maximum(np.minimum(state["windows"][newest], RECENT_WINDOWS), 1)
        sigma = np.maximum(np.sqrt(state["variance"][pairs.before]), _SIGMA_FLOOR)
        surely = worse > _ERRORS * sigma * np.sqrt(_ALIKE / windows)
        enough = (state["windows"][newest] >= _WINDOWS_MIN) & (state["requests"][newest] >= self._requests)
        return surely & enough & (worse > self._relative)

    def _comparable(self, pairs: _Pairs, frame: Frame) -> Mask:
        """While the new version is new, or both run."""
        state = self.state
        young = frame.window_ms - state["first_ms"][pairs.newest] <= self._relearn_ms
        both = frame.window_ms - state["last_ms"][pairs.before] <= _GONE_WINDOWS * frame.length_ms
        return young | both

    def _named_notes(self, newest: Whole, beyond: Mask, frame: Frame) -> tuple[npt.NDArray[np.int16], tuple[str, ...]]:
        hosts = np.full(self.size, np.nan)
        if "hosts" in frame.values:
            hosts[frame.slots] = frame.values["hosts"]
        note, notes = np.zeros(len(newest), np.int16), [""]
        for row in np.flatnonzero(beyond):
            note[row] = len(notes)
            notes.append(_words(self._names.get(int(newest[row]), ""), hosts[newest[row]]))
        return note, tuple(notes)


def _words(version: str, hosts: float) -> str:
    if not np.isfinite(hosts):
        return f"since version {version}"
    return f"since version {version} on {hosts:.0f} host{'' if hosts == 1 else 's'}"
