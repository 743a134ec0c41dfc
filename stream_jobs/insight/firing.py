"""From judgements to findings: m of the last n windows to begin, so many calm ones in a row to end.

The last 64 windows of each series are bits, the newest lowest; a window in which a series was not judged is not beyond.
Calm windows count in a row; one that was not judged neither adds to them nor breaks the row. A series that was not
judged at all for ``SILENT_MS`` (or longer, where the rule wants more calm than that) cannot be said to fire: it is
cleared with a note.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from schemas.limits import MINUTE_MS
from stream_jobs.insight.frame import Frame, Judgement, Mask, Whole
from stream_jobs.insight.slotted import Column, Slotted

BITS = 64
SILENT_MS = 5 * MINUTE_MS
SILENT = "no data for some time"

TOLD = ("value", "baseline", "low", "high")
_ONE = np.uint64(1)

COLUMNS = (
    Column("bits", "u8"),
    Column("calm", "i4"),
    Column("firing", "?"),
    Column("since_ms", "i8"),
    Column("heard_ms", "i8"),
    Column("count", "i8"),
    *(Column(name, "f8", np.nan) for name in TOLD),
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

    def step(self, frame: Frame, judgement: Judgement, elapsed: int) -> Whole:
        """Takes in a window, ``elapsed`` windows after the last; returns the slots that have cleared in it."""
        state, slots = self.state, judgement.slots
        state["bits"][:] = state["bits"] << np.uint64(elapsed) if elapsed < BITS else 0
        state["bits"][slots[judgement.beyond]] |= _ONE
        state["calm"][slots[judgement.within]] += 1
        state["calm"][slots[~judgement.within & ~np.isnan(judgement.value)]] = 0
        self._remember(frame, judgement)
        self._begin(frame.window_ms, slots[judgement.beyond])
        self._note(judgement)
        return self._end(frame.end_ms)

    def drop(self, slots: Whole) -> None:
        """These have been told as cleared: they begin anew."""
        for slot in slots.tolist():
            self.notes.pop(slot, None)
        for name in ("bits", "calm", "firing", "since_ms"):
            self.state[name][slots] = 0

    def dump(self) -> dict[str, npt.NDArray[np.generic]]:
        """Arrays; ``notes`` are kept beside them."""
        return super().dump()

    def load(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Arrays; ``notes`` are set by the caller."""
        super().load(arrays)

    def _remember(self, frame: Frame, judgement: Judgement) -> None:
        heard = judgement.beyond | judgement.within | ~np.isnan(judgement.value)
        slots = judgement.slots[heard]
        self.state["heard_ms"][slots] = frame.end_ms
        self.state["count"][slots] = 0
        self.state["count"][frame.slots] = frame.counts
        for name in TOLD:
            self.state[name][slots] = getattr(judgement, name)[heard]

    def _begin(self, window_ms: int, beyond: Whole) -> None:
        state = self.state
        candidates = beyond[~state["firing"][beyond]]
        recent = state["bits"][candidates] & self._last_n
        begins = np.bitwise_count(recent) >= self._m
        for slot, bits in zip(candidates[begins].tolist(), recent[begins].tolist(), strict=True):
            state["since_ms"][slot] = window_ms - (bits.bit_length() - 1) * self._length_ms
        state["firing"][candidates[begins]] = True
        state["calm"][candidates[begins]] = 0

    def _note(self, judgement: Judgement) -> None:
        """Keep the latest note of each series that fires."""
        if judgement.note is None:
            return
        told = np.flatnonzero((judgement.note > 0) & self.state["firing"][judgement.slots])
        for place in told.tolist():
            self.notes[int(judgement.slots[place])] = judgement.notes[int(judgement.note[place])]

    def _end(self, end_ms: int) -> Whole:
        state = self.state
        firing = np.flatnonzero(state["firing"])
        calm = state["calm"][firing] >= self._clear_after
        silent_ms = max(SILENT_MS, self._clear_after * self._length_ms)
        silent = ~calm & (end_ms - state["heard_ms"][firing] >= silent_ms)
        for slot in firing[silent].tolist():
            self.notes[slot] = SILENT
        return firing[calm | silent]

    def told(self, name: str, slots: Whole) -> list[float | None]:
        """One of ``TOLD`` as last judged; None where there is none."""
        return [None if one != one else one for one in self.state[name][slots].tolist()]
