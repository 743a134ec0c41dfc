"""What the finals job counts: the step itself stays pure."""

from __future__ import annotations

from runtime.counters import Counters
from stream_jobs.finals.figures import Figures


def count(figures: Figures, counters: Counters) -> None:
    """Put the figures of a commit into the process's counters."""
    place = {"partition": figures.partition}
    counters.add("finals_windows", figures.windows, **place)
    counters.add("finals_incomplete", figures.incomplete, **place)
    counters.add("finals_rows", figures.rows, **place)
    counters.add("finals_late_rows", figures.late_rows, **place)
    counters.add("finals_gaps", figures.gaps, **place)
    counters.set("finals_through_ms", figures.through_ms, **place)


def count_left_out(partition: int, bills: int, counters: Counters) -> None:
    """Bills whose spend could not be counted."""
    counters.add("spend_left_out", bills, partition=partition)
