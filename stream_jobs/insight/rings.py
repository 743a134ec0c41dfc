"""A ring of points per series on a common clock: point k of every series covers the same span of event time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.frame import Whole

NEVER = -1
"""Bucket number before anything was seen."""


def passed(newest: int, bucket: int, points: int) -> Whole:
    """Columns that come into use when the clock goes from bucket ``newest`` to ``bucket``: to be emptied. None when it
    does not move (or moves back: a late window counts into the newest bucket)."""
    if newest == NEVER or bucket <= newest:
        return np.empty(0, np.int64)
    first = max(newest + 1, bucket - points + 1)
    return np.arange(first, bucket + 1, dtype=np.int64) % points


def in_order(newest: int, points: int, last: int | None = None) -> Whole:
    """Columns from oldest to newest; of the ``last`` so many buckets only where given."""
    last = points if last is None else min(last, points)
    return np.arange(newest - last + 1, newest + 1, dtype=np.int64) % points


def storable(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """As 32-bit numbers (relative error 6e-8); what does not fit becomes NaN, unknown."""
    fits = np.abs(values) < np.finfo(np.float32).max
    return np.where(fits, values, np.nan).astype(np.float32)
