"""Python's search for cycles, kept off what a long-running process made at its start."""

from __future__ import annotations

import gc


def settle(thresholds: tuple[int, int, int] | None = None) -> None:
    """What was made by now lives as long as the process: no later search walks over it. ``thresholds`` as those of
    ``gc.set_threshold``; None leaves them. The process is searched once, now."""
    gc.collect()
    gc.freeze()
    if thresholds is not None:
        gc.set_threshold(*thresholds)
