"""What the cost job counts: the step itself stays pure."""

from __future__ import annotations

from runtime.counters import Counters
from stream_jobs.costs.figures import Figures


def count(figures: Figures, counters: Counters) -> None:
    """Put the figures of a commit into the process's counters."""
    place = {"partition": figures.partition}
    counters.add("cost_bills", figures.bills, **place)
    counters.add("cost_final_bills", figures.final, **place)
    counters.add("cost_late_rows", figures.late_rows, **place)
    counters.add("cost_gaps", figures.gaps, **place)
    counters.set("cost_held", figures.held, **place)
    counters.set("cost_through_ms", figures.through_ms, **place)
