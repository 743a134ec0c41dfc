"""Whether the processes that answer at one address take turns, by their start times. Pure."""

from __future__ import annotations

from collections import deque

SEEN_MAX = 64
"""Processes that are remembered."""
TURNS_MS = 600_000
"""So long after a process answered again behind another they are held to take turns."""
TURNS = "several processes answer here in turn, as behind a load balancer; name the address of each"


class Starts:
    """The processes that answered at an address, by start time. One that was replaced does not come back: where it
    does, it and the other are both there, behind one address."""

    def __init__(self) -> None:
        self._seen = deque[float](maxlen=SEEN_MAX)
        self._until_ms: int | None = None

    def take_turns(self, started_at_s: float | None, moment_ms: int) -> bool:
        """Whether they do, now that the process with this start answers. None: it does not tell. ``moment_ms`` is
        monotonic."""
        if started_at_s is not None and (not self._seen or started_at_s != self._seen[-1]):
            if started_at_s in self._seen:
                self._until_ms = moment_ms + TURNS_MS
                self._seen.remove(started_at_s)
            self._seen.append(started_at_s)
        return self._until_ms is not None and moment_ms < self._until_ms
