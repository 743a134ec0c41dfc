"""Matches engines and jobs to GPUs; a collector without rows of its own.

The result is in the rows of others: the placement in GPU samples, and new registrations of engines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from producers.collector import Collected
from producers.engines.placement import HostPlacement
from producers.engines.processes import ProcessTable, read_processes

WAITING_MS = 5_000
"""Between two looks while an engine may be starting: its first process on a GPU is to be seen soon."""


class ProcessMatcher:
    """Reads the table of processes every ``every_ms`` (seconds apart: it looks at every process of the host), and at
    every tick while an engine with configured GPUs does not answer."""

    name = "placement"

    def __init__(
        self, registry: HostPlacement, every_ms: int, *, read_processes: Callable[[], ProcessTable] = read_processes
    ) -> None:
        self.period_ms = min(every_ms, WAITING_MS)
        self._every_ms = every_ms
        self._registry = registry
        self._read = read_processes
        self._read_at_ms: int | None = None

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """No rows."""
        before_ms = self._read_at_ms
        if (
            before_ms is None
            or abs(at_ms - before_ms) >= self._every_ms - self.period_ms // 2
            or self._registry.awaited
        ):
            self._read_at_ms = at_ms
            self._registry.saw_processes(self._read())
        return []

    def close(self) -> None:
        """Nothing is held."""
