"""Garbage collection: excludes objects made at start-up from Python's search for cycles."""

from __future__ import annotations

import gc

RARELY = (50_000, 20, 20)
"""Thresholds of a process that works by batches: a fetch makes some hundred thousand small objects and lets all of them
go, none in a cycle; searching them at Python's default pace costs a tenth of its work."""


def settle(thresholds: tuple[int, int, int] | None = None) -> None:
    """What was made by now lives as long as the process: no later search walks over it. ``thresholds`` as those of
    ``gc.set_threshold``; None leaves them. The process is searched once, now."""
    gc.collect()
    gc.freeze()
    if thresholds is not None:
        gc.set_threshold(*thresholds)
