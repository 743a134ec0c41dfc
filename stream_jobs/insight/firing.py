"""From detections to findings: m of the last n windows to begin, so many calm ones in a row to end.

The last 64 windows of each series are bits, the newest lowest; a window in which a series was not judged is not beyond.
Calm windows count in a row; one that was not judged, or ``pauses``, neither adds to them nor breaks the row. A series
that was not judged at all for ``SILENT_MS`` (or longer, where the rule wants more calm than that) of windows in which
others could be cannot be said to fire: it is cleared with a note.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from schemas.limits import MINUTE_MS
from stream_jobs.insight.frame import Detection, Frame, Mask, Whole
from stream_jobs.insight.slotted import Column, Slotted

BITS = 64
SILENT_MS = 5 * MINUTE_MS
SILENT = "no data for some time"

VALUES = ("value", "baseline", "low", "high")
_ONE = np.uint64(1)

COLUMNS = (
    Column("bits", "u8"),
    Column("calm", "i4"),
    Column("firing", "?"),
    Column("since_ms", "i8"),
    Column("heard_ms", "i8"),
    Column("count", "i8"),
    *(Column(name, "f8", np.nan) for name in VALUES),
)


class Firing(Slotted):
    """Which series of a rule fire. ``m`` of ``n`` windows (at most 64) begin it. 65 bytes per series."""

    def __init__(self, m: int, n: int, clear_after: int, length_ms: int) -> None:
        super().__init__(COLUMNS)
        assert 1 <= m <= n <= BITS, (m, n)
        self._m, self._clear_after, self._length_ms = m, clear_after, length_ms
        self._last_n = np.uint64((1 << n) - 1)
        self.notes: dict[int, str] = {}
        """By slot, of those that fire and have one."""

    @property
    def firing(self) -> Mask:
        """Per slot."""
        return self.state["firing"]

    def step(self, frame: Frame, detection: Detection, elapsed: int) -> Whole:
        """Takes in a window, ``elapsed`` windows after the last; returns the slots that have cleared in it."""
        state, slots = self.state, detection.slots
        state["bits"][:] = state["bits"] << np.uint64(elapsed) if elapsed < BITS else 0
        state["bits"][slots[detection.beyond]] |= _ONE
        state["calm"][slots[detection.within]] += 1
        breaks = ~detection.within & ~np.isnan(detection.value)
        state["calm"][slots[breaks if detection.pauses is None else breaks & ~detection.pauses]] = 0
        self._remember(frame, detection)
        self._begin(frame.window_ms, slots[detection.beyond])
        self._note(detection)
        return self._end(frame.end_ms)

    def pass_by(self, end_ms: int) -> None:
        """Nobody was looked at in the window that ends then: its time is no silence of what fires."""
        heard_ms, firing = self.state["heard_ms"], self.firing
        heard_ms[firing] = np.minimum(heard_ms[firing] + self._length_ms, end_ms)

    def drop(self, slots: Whole) -> None:
        """These have been emitted as cleared: they start over."""
        for slot in slots.tolist():
            self.notes.pop(slot, None)
        for name in ("bits", "calm", "firing", "since_ms"):
            self.state[name][slots] = 0

    def dump(self) -> dict[str, npt.NDArray[np.generic]]:
        """Arrays; ``notes`` are kept beside them. Of what does not fire only ``bits`` are ever read again: the rest is
        empty, so that a fleet that is well packs fast."""
        found, well = super().dump(), ~self.firing
        for one in COLUMNS:
            if one.name != "bits":
                found[one.name][well] = one.empty
        return found

    def load(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Arrays; ``notes`` are set by the caller."""
        super().load(arrays)

    def _remember(self, frame: Frame, detection: Detection) -> None:
        heard = detection.beyond | detection.within | ~np.isnan(detection.value)
        slots = detection.slots[heard]
        self.state["heard_ms"][slots] = frame.end_ms
        self.state["count"][slots] = 0
        self.state["count"][frame.slots] = frame.counts
        for name in VALUES:
            self.state[name][slots] = getattr(detection, name)[heard]

    def _begin(self, window_ms: int, beyond: Whole) -> None:
        state = self.state
        candidates = beyond[~state["firing"][beyond]]
        recent = state["bits"][candidates] & self._last_n
        begins = np.bitwise_count(recent) >= self._m
        for slot, bits in zip(candidates[begins].tolist(), recent[begins].tolist(), strict=True):
            state["since_ms"][slot] = window_ms - (bits.bit_length() - 1) * self._length_ms
        state["firing"][candidates[begins]] = True
        state["calm"][candidates[begins]] = 0

    def _note(self, detection: Detection) -> None:
        """Keep the latest note of each series that fires."""
        if detection.note is None:
            return
        noted = np.flatnonzero((detection.note > 0) & self.state["firing"][detection.slots])
        for place in noted.tolist():
            self.notes[int(detection.slots[place])] = detection.notes[int(detection.note[place])]

    def _end(self, end_ms: int) -> Whole:
        state = self.state
        firing = np.flatnonzero(state["firing"])
        calm = state["calm"][firing] >= self._clear_after
        silent_ms = max(SILENT_MS, self._clear_after * self._length_ms)
        silent = ~calm & (end_ms - state["heard_ms"][firing] >= silent_ms)
        for slot in firing[silent].tolist():
            self.notes[slot] = SILENT
        return firing[calm | silent]

    def values(self, name: str, slots: Whole) -> list[float | None]:
        """One of ``VALUES`` as last judged; None where there is none."""
        return [None if one != one else one for one in self.state[name][slots].tolist()]
