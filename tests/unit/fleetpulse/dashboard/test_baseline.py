"""The band of what was usual."""

from __future__ import annotations

from fleetpulse.dashboard.baseline import DAYS, HOURS_MIN, band, before
from fleetpulse.dashboard.time_range import TimeRange

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def test_what_was_usual_is_given_by_whole_hours_before_the_range() -> None:
    """The range itself does not judge itself."""
    assert before(TimeRange(10 * DAY_MS + 5, 11 * DAY_MS)) == TimeRange((10 - DAYS) * DAY_MS, 10 * DAY_MS)


def test_too_little_history_is_no_band() -> None:
    """Two hours are not what is usual."""
    assert band({3: [1.0] * (HOURS_MIN - 1)}, TimeRange(0, HOUR_MS)) == []
    assert band({}, TimeRange(0, HOUR_MS)) == []


def test_each_hour_of_the_day_has_its_own_band() -> None:
    """An hour with too few values gets the band of all hours."""
    hours = {0: [1.0, 1.0, 1.0], 1: [9.0, 9.0, 9.0], 2: [5.0]}

    found = band(hours, TimeRange(HOUR_MS // 2, 2 * HOUR_MS + 1))

    assert found == [
        (HOUR_MS // 2, 1.0, 1.0),
        (HOUR_MS, 9.0, 9.0),
        (2 * HOUR_MS, 1.0, 9.0),
        (2 * HOUR_MS + 1, 1.0, 9.0),
    ]


def test_the_band_leaves_out_the_outer_tenths() -> None:
    """One bad hour does not make bad hours usual."""
    assert band({0: [float(n) for n in range(11)]}, TimeRange(0, HOUR_MS))[0] == (0, 1.0, 9.0)


def test_a_year_has_few_points() -> None:
    """Hours are skipped where they could not be distinguished."""
    assert len(band({0: [1.0, 2.0, 3.0]}, TimeRange(0, 365 * DAY_MS))) <= 202
