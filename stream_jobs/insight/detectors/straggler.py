"""Far from its peers at the same moment: one GPU of a tensor-parallel group slows all of them.

Options: ``group`` engine_id, ``enter_z`` 6, ``min_relative`` 0.1, ``direction`` both, ``floor_absolute`` 0. A series
is beyond when it is further from the median of its group than *all* of ``min_relative`` of the median, ``enter_z``
robust deviations and ``floor_absolute``; within again at half of that. The deviation is the group's usual one (up to
half wider when it is wider now): among three or four values it is small by chance every few windows.

- Groups of two have no spread: the other one is the peer, ``min_relative`` and ``floor_absolute`` alone decide. With
  direction ``both`` nobody knows which of the two is off; both are named and the note says so.
- Where the peers' median is 0 and ``floor_absolute`` too, nothing is judged: any value would be infinitely far away.
- When half of a group or more is off, the median is off: that is no straggler.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Labels, Mask, Whole
from stream_jobs.insight.slotted import Column, Slotted
from stream_jobs.insight.statistics import grouped
from stream_jobs.rules.model import Rule

NOTES = (
    "",
    "one of a group of two: compared with the other one alone",
    "one of a group of two: which of them is off is not known",
)
WARM_UP_WINDOWS = 6
HALF_LIFE_S = 900.0
_LEAVE = 0.5
_WIDER = 1.5
"""A group may be so many times wider than usual: among three or four the odd one itself makes it so."""
_NONE = 0


@dataclass(frozen=True, slots=True)
class _Peers:
    """Per judged row: median of its peers, their deviation, and how many the group has."""

    median: Floats
    sigma: Floats
    size: Whole


class Straggler(Slotted, Detector):
    """Keeps per series its group and the group's usual deviation."""

    STATE_OPTIONS = ("group",)
    LEARNS = True

    def __init__(self, rule: Rule) -> None:
        columns = (Column("group", "i8", _NONE), Column("sigma", "f8"), Column("windows", "i4"))
        super().__init__(columns)
        options = rule.options
        self._name = rule.value.name
        self._group = str(options["group"])
        self._z = float(options["enter_z"])
        self._relative = float(options["min_relative"])
        self._floor = float(options.get("floor_absolute") or 0.0)
        self._direction = str(options["direction"])
        self._step = 1 - 0.5 ** (rule.window_ms / 1_000 / HALF_LIFE_S)

    def named(self, slots: Whole, labels: Sequence[Labels]) -> None:
        """Notes groups; one without the group's label is never judged."""
        for slot, one in zip(slots, labels, strict=True):
            self.grow(int(slot) + 1)
            self.state["group"][slot] = group_of(dict(one).get(self._group))

    def detect(self, frame: Frame) -> Detection:
        """Judges what is known and has peers."""
        value = frame.values[self._name]
        groups = self.state["group"][frame.slots]
        rows = np.flatnonzero(np.isfinite(value) & (groups != _NONE))
        count = len(frame.slots)
        median, needed = np.full(count, np.nan), np.full(count, np.nan)
        beyond, within = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        note = np.zeros(count, np.int16)
        if len(rows):
            with np.errstate(over="ignore"):
                peers = _peers(groups[rows], value[rows])
                median[rows] = peers.median
                needed[rows] = self._needed(peers, frame.slots[rows], frame.firing[rows])
                distance = self._side(value - median)
                beyond, within = distance > needed, distance <= _LEAVE * needed
            note[rows] = np.where(peers.size == 2, 2 if self._direction == "both" else 1, 0)
        unknown = np.full(count, np.nan)
        low = unknown if self._direction == "above" else median - needed
        high = unknown if self._direction == "below" else median + needed
        judged = np.where(np.isnan(needed), np.nan, value)
        return Detection(frame.slots, beyond, within, judged, median, low, high, np.where(beyond, note, 0), NOTES)

    def _needed(self, peers: _Peers, slots: Whole, firing: Mask) -> Floats:
        """Distance from the median that is too far; NaN where not judged."""
        self._learn(peers, slots, firing)
        usual = self.state["sigma"][slots]
        sigma = np.maximum(np.minimum(peers.sigma, _WIDER * usual), usual)
        least = np.maximum(self._relative * np.abs(peers.median), self._floor)
        learned = (peers.size == 2) | (self.state["windows"][slots] >= WARM_UP_WINDOWS)
        needed = np.where(peers.size == 2, least, np.maximum(least, self._z * sigma))
        return np.where((peers.size >= 2) & (needed > 0) & learned, needed, np.nan)

    def _learn(self, peers: _Peers, slots: Whole, firing: Mask) -> None:
        free = ~firing & (peers.size >= 3) & np.isfinite(peers.sigma)
        at = slots[free]
        self.state["windows"][at] += 1
        step = np.maximum(self._step, 1.0 / self.state["windows"][at])
        sigma = self.state["sigma"]
        sigma[at] += step * (peers.sigma[free] - sigma[at])

    def _side(self, distance: Floats) -> Floats:
        if self._direction == "both":
            return np.abs(distance)
        return distance if self._direction == "above" else -distance


def group_of(name: str | None) -> int:
    """A group's number: 8 bytes of BLAKE2b, the same in every process; 0 without a name."""
    if name is None:
        return _NONE
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True) or 1


def _peers(groups: Whole, value: Floats) -> _Peers:
    order, _, sizes, median, sigma = grouped(groups, value)
    back = np.empty(len(order), np.int64)
    back[order] = np.repeat(np.arange(len(sizes)), sizes)
    size = sizes[back]
    # The median of two is their middle: the other one is twice the middle less oneself.
    centre = np.where(size == 2, 2 * median[back] - value, median[back])
    return _Peers(centre, sigma[back], size)
