"""Spans of time as people say them, in steps: a text that changes every ten seconds says nothing more."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from stream_jobs.insight.frame import Floats, Whole

_STEPS = (
    (600, "10 min"),
    (1_200, "20 min"),
    (1_800, "30 min"),
    (3_600, "1 h"),
    (7_200, "2 h"),
    (10_800, "3 h"),
    (14_400, "4 h"),
    (21_600, "6 h"),
    (28_800, "8 h"),
    (43_200, "12 h"),
    (64_800, "18 h"),
    (86_400, "1 day"),
    (129_600, "36 h"),
    (172_800, "2 days"),
    (259_200, "3 days"),
    (432_000, "5 days"),
    (604_800, "1 week"),
    (1_209_600, "2 weeks"),
    (2_592_000, "30 days"),
)
WORDS = (*(words for _, words in _STEPS), "more than 30 days")
_MIDDLE_S = np.array([(a[0] * b[0]) ** 0.5 for a, b in pairwise(_STEPS)] + [3_700_000.0])


def nearest(seconds: Floats) -> Whole:
    """Index into ``WORDS`` of the step that is nearest (on a logarithmic scale); the last for unknown and infinite."""
    return np.searchsorted(_MIDDLE_S, np.nan_to_num(seconds, nan=np.inf)).astype(np.int64)


def exact(seconds: float) -> str:
    """A configured span: ``3 d``, ``6 h``, ``5 min``, ``30 s``."""
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length and seconds % length == 0:
            return f"{int(seconds // length)} {unit}"
    return f"{seconds:g} s"
