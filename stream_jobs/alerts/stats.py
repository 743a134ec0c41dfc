"""Statistics of one commit of the alert job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from schemas.contract.alerts import SEVERITIES, TRANSITIONS
from stream_jobs.alerts.changes import Changes, State
from stream_jobs.step import Stat

UNJUDGED = ("unknown", "below_count", "beyond_limit", "incomplete")
"""Why a window of a series was not judged."""


def stats_of(state: State, changes: Changes) -> Iterator[Stat]:
    """Open alerts, transitions, windows and records since the last commit."""
    open_ = Counter(incident.severity for incident in state.life.store.open())
    for severity in SEVERITIES:
        yield Stat("alerts_open", open_[severity], {"severity": severity})
    transitions = Counter(alert.transition for alert in changes.alerts)
    for transition in TRANSITIONS:
        yield Stat("alert_transitions", transitions[transition], {"transition": transition})
    yield Stat("alert_windows", changes.judged - changes.incomplete, {"complete": "yes"})
    yield Stat("alert_windows", changes.incomplete, {"complete": "no"})
    yield Stat("alert_windows_failed", changes.failed)
    yield Stat("alert_late_revisions", changes.late)
    yield Stat("alert_records_skipped", changes.skipped)
    yield Stat("alert_causes_refused", state.life.store.refused)
    yield Stat("alert_progress_ms", state.life.now_ms)
    yield Stat("spend_unnamed", state.life.spending.spend.unnamed)
    yield from _insight(state, changes)


def _insight(state: State, changes: Changes) -> Iterator[Stat]:
    """What the rules' detector did."""
    yield Stat("insight_judged", changes.series["judged"])
    for reason in UNJUDGED:
        yield Stat("insight_unjudged", changes.series[reason], {"reason": reason})
    yield Stat("insight_ignored", changes.series["ignored"])
    yield Stat("insight_series_forgotten", changes.series["forgotten"])
    for rule, series in state.detector.series.items():
        yield Stat("insight_series", series, {"rule": rule})
