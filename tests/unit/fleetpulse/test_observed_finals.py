"""What the finals job counts."""

from __future__ import annotations

from fleetpulse.observed_finals import count, count_left_out
from runtime.counters import Counters
from stream_jobs.finals.figures import Figures


def test_every_figure_is_counted_under_its_partition() -> None:
    """Totals add up over commits, the level is the last."""
    counters = Counters()

    for through_ms in (10_000, 20_000):
        count(Figures(3, windows=2, incomplete=1, rows=30, late_rows=4, gaps=5, through_ms=through_ms), counters)

    assert {name: counters.value(name, partition=3) for name in _NAMES} == {
        "finals_windows": 4,
        "finals_incomplete": 2,
        "finals_rows": 60,
        "finals_late_rows": 8,
        "finals_gaps": 10,
        "finals_through_ms": 20_000,
    }


def test_bills_whose_spend_is_missing_are_counted() -> None:
    """Under the partition of ``costs``."""
    counters = Counters()

    count_left_out(2, 3, counters)

    assert counters.value("spend_left_out", partition=2) == 3


_NAMES = (
    "finals_windows",
    "finals_incomplete",
    "finals_rows",
    "finals_late_rows",
    "finals_gaps",
    "finals_through_ms",
)
