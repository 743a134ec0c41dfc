"""The band of what was usual: from the hours of the days before, by hour of the day. Pure.

For each hour of the day the 10th to the 90th percentile of that hour's values over the days before. With fewer than
``HOURS_MIN`` values for an hour of the day, all hours together; with fewer than that in all, there is no band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fleetpulse.dashboard.time_range import TimeRange
from schemas.limits import DAY_MS, HOUR_MS

DAYS = 7
HOURS_MIN = 3
_SHARES = (0.1, 0.9)

Points = list[tuple[int, float | None, float | None]]


def before(span: TimeRange) -> TimeRange:
    """The stretch whose hours say what was usual: whole hours, up to the one in which the range begins."""
    to_ms = span.from_ms // HOUR_MS * HOUR_MS
    return TimeRange(to_ms - DAYS * DAY_MS, to_ms)


def band(hours: Mapping[int, Sequence[float]], span: TimeRange) -> Points:
    """(at_ms, low, high) at the ends of the range and at each hour in it. ``hours``: values by hour of the day."""
    everything = [value for values in hours.values() for value in values]
    if len(everything) < HOURS_MIN:
        return []
    usual = _ends(everything)
    by_hour = {hour: _ends(values) for hour, values in hours.items() if len(values) >= HOURS_MIN}
    step_ms = max(HOUR_MS, -(-span.span_ms // (200 * HOUR_MS)) * HOUR_MS)
    first = span.from_ms // HOUR_MS * HOUR_MS
    moments = [span.from_ms, *range(first + HOUR_MS, span.to_ms, step_ms), span.to_ms]
    return [(at_ms, *by_hour.get(at_ms // HOUR_MS % 24, usual)) for at_ms in moments]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile(np.asarray(values, dtype=np.float64), _SHARES)
    return float(low), float(high)
