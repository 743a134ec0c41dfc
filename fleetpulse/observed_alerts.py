"""What the alert job counts: the step itself stays pure."""

from __future__ import annotations

from runtime.counters import Counters
from stream_jobs.alerts.figures import Figures


def count(figures: Figures, counters: Counters) -> None:
    """Put the figures of a commit into the process's counters."""
    for severity, number in figures.open.items():
        counters.set("alerts_open", number, severity=severity)
    for transition, number in figures.transitions.items():
        counters.add("alert_transitions", number, transition=transition)
    counters.add("alert_windows", figures.judged - figures.incomplete, complete="yes")
    counters.add("alert_windows", figures.incomplete, complete="no")
    counters.add("alert_late_revisions", figures.late)
    counters.add("alert_records_skipped", figures.skipped)
    counters.set("alert_causes_refused", figures.refused)
    counters.set("alert_progress_ms", figures.progress_ms)
