"""Matches engines and jobs to GPUs now and then: a collector that tells nothing itself.

What it finds shows in the rows of others: GPU samples by their place, engines by registering again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from producers.collector import Collected
from producers.engines.places import Places
from producers.engines.processes import ProcessTable, read_processes


class ProcessMatcher:
    """Reads the table of processes at every tick (seconds apart: it looks at every process of the host)."""

    name = "placement"

    def __init__(
        self, places: Places, period_ms: int, *, read_processes: Callable[[], ProcessTable] = read_processes
    ) -> None:
        self.period_ms = period_ms
        self._places = places
        self._read = read_processes

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """No rows."""
        self._places.saw_processes(self._read())
        return []

    def close(self) -> None:
        """Nothing is held."""
