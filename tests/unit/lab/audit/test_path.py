"""A short day is disturbed too: a comparison of a job with itself would prove nothing."""

from __future__ import annotations

from pathlib import Path

from lab.audit.day import day_of
from lab.audit.path import CostPath
from schemas.events.event_types import EVENTS
from schemas.limits import HOUR_MS, WINDOW_MS
from stream_jobs.prices.load import load as load_prices

PRICES = Path(__file__).parents[4] / "fleetpulse" / "data" / "prices" / "example.yaml"


def test_each_job_is_killed_by_the_middle_of_six_minutes() -> None:
    """At the latest, while records come; the windows job takes each topic with every commit."""
    day = day_of(1, 490_000 * HOUR_MS, 0.1)
    path = CostPath(day, load_prices(PRICES), lambda _records: None)
    commits = (day.end_ms - day.begin_ms) // WINDOW_MS

    assert path._costs._kill_by == commits // 2 == 18
    assert path._windows._kill_by == 18 * len(EVENTS)
