"""The moment in each second at which a process that hardly works does all that need not be done at once. Pure.

A processor that wakes finds its caches cold: five small things together cost about what the first of them costs alone.
Readings lie on the second; the beat comes when they are usually made.
"""

from __future__ import annotations

BEAT_MS = 100
"""Behind the full second, by the wall clock: at the latest; who knows that all is done may do it earlier."""


def until_beat_s(now_ms: int, pause_s: float) -> float:
    """Seconds until the beat that is nearest to ``pause_s`` from now; a pause of less than a second stays as it is."""
    if pause_s < 1.0:
        return pause_s
    wanted_ms = now_ms + round(pause_s * 1_000) - BEAT_MS
    beat_ms = (wanted_ms + 500) // 1_000 * 1_000 + BEAT_MS
    return (beat_ms - now_ms) / 1_000
