"""Datagrams as the SDK makes them, without a socket."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fleetpulse_track.handover import CLAIM, MERGED, Client, Finished
from fleetpulse_track.requests import CHOICE_SHIFT, REASONING, json_of

PID, START_NS = 4_242, 1_700_000_000_000_000_000
AT_MS = 1_700_000_001_000
BEGIN_NS = 5_000_000_000


class Recorded(Client):
    """A client whose datagrams are kept, as long as ``open``; always of the same process."""

    def __init__(self, **settings: Any) -> None:
        self.sent: list[bytes] = []
        self.claimed: list[bytes] = []
        self.open = True
        super().__init__("/nowhere", **settings)
        self._who = (PID, START_NS)

    def _sent(self, datagram: bytes) -> bool:
        if self.open:
            (self.claimed if datagram[4] == CLAIM else self.sent).append(datagram)
        return self.open


def mark(tokens: int = 0, *, reasoning: bool = False, choice: int = 0) -> int:
    """The mark of a chunk."""
    return tokens | choice << CHOICE_SHIFT | (REASONING if reasoning else 0)


def finished(
    gaps_us: list[int] | None = None, *, marks: list[int] | None = None, merged: int = 0, end_us: int = 0, **said: Any
) -> Finished:
    """A request whose chunks came so many microseconds after its begin and after each other; ended ``end_us`` after
    the last. ``merged`` chunks more have no time."""
    at_ns = np.cumsum([BEGIN_NS, *(1_000 * gap for gap in gaps_us or [])])
    times = at_ns[1:].astype("<u8").tobytes()
    text = json_of({"status": "ok", **said})
    body = times + (b"" if marks is None else np.array(marks, "<u4").tobytes()) + text
    flags = (marks is not None) | (MERGED if merged else 0)
    count = len(at_ns) - 1
    end_ns = int(at_ns[-1]) + 1_000 * end_us
    return Finished(int(flags), count, count + merged, AT_MS, BEGIN_NS, end_ns, body, len(text))


def together(datagrams: list[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The datagrams one behind the other, and where each ends."""
    buffer = np.frombuffer(b"".join(datagrams), np.uint8)
    return buffer, np.cumsum([len(each) for each in datagrams], dtype=np.int64)
