"""How far back the newest requests are looked for."""

from __future__ import annotations

from fleetpulse.dashboard.requests_table import widening
from fleetpulse.dashboard.time_range import TimeRange

MINUTE_MS = 60_000


def test_the_search_widens_tenfold_up_to_the_range() -> None:
    """A busy fleet has enough in its last minute."""
    span = TimeRange(0, 600 * MINUTE_MS)

    assert widening(span) == [span.end(MINUTE_MS), span.end(10 * MINUTE_MS), span.end(100 * MINUTE_MS), span]


def test_a_short_range_is_looked_through_at_once() -> None:
    """There is nothing to save."""
    assert widening(TimeRange(0, MINUTE_MS)) == [TimeRange(0, MINUTE_MS)]
