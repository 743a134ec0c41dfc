"""How long to pause before another attempt: exponential back-off with jitter. Pure: the caller counts failures, resets
the count after a success, and draws chance."""

from __future__ import annotations

from dataclasses import dataclass

_DOUBLINGS_MAX = 60
"""Far above any use, far below what a float cannot hold."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses of ``initial_s``, doubled after each failure up to ``max_s``. The part ``jitter`` of each, in [0, 1], is
    left to chance, so that a fleet does not come back all at once; it only shortens, so ``max_s`` holds."""

    initial_s: float
    max_s: float
    jitter: float = 0.5

    def pause_s(self, failures: int, chance: float) -> float:
        """Seconds to pause after so many failures in a row: 0.0 after none, in
        ``[(1 - jitter) * longest, longest)`` after some. ``chance`` in [0, 1)."""
        if not failures:
            return 0.0
        longest_s = min(self.max_s, self.initial_s * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))
        return longest_s * (1.0 - self.jitter * (1.0 - chance))
