"""What collecting costs: processor time of the collectors' own threads, added up between two samples of the host."""

from __future__ import annotations

import threading


class CostMeter:
    """Adds up from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._us: int | None = None

    def add(self, us: int) -> None:
        """Count one reading's processor time."""
        with self._lock:
            self._us = (self._us or 0) + us

    def take(self) -> int | None:
        """What was added since the last call; None when nothing was."""
        with self._lock:
            us, self._us = self._us, None
        return us
