"""What the alert job counts: the step and its judge stay pure, this shell tells what each commit holds."""

from __future__ import annotations

import logging
from functools import partial
from weakref import WeakKeyDictionary

from runtime.counters import COUNTERS, Counters
from schemas.record import Output
from stream_jobs.alerts.changes import Changes, State
from stream_jobs.alerts.evidence import Evidence
from stream_jobs.alerts.figures import Figures
from stream_jobs.alerts.spending import NO_BUDGETS
from stream_jobs.alerts.step import AlertStep
from stream_jobs.budgets.load import Budgets
from stream_jobs.insight.judge import Counters as Judged
from stream_jobs.insight.judge import Judge
from stream_jobs.rules.ruleset import RuleSet
from stream_jobs.step import Commit

_log = logging.getLogger(__name__)


class ObservedAlertStep(AlertStep):
    """Puts the figures of every commit into ``counters`` when its records are made.

    A commit that fails ends the process, so no process counts one twice.
    """

    def __init__(
        self, upstreams: int, ruleset: RuleSet, counters: Counters = COUNTERS, budgets: Budgets = NO_BUDGETS
    ) -> None:
        observe = partial(count, counters=counters)
        super().__init__(upstreams, ruleset, Judge, Evidence, observe=observe, budgets=budgets)
        self._counters = counters
        self._told: WeakKeyDictionary[Judge, Judged] = WeakKeyDictionary()

    def rows(self, state: State, changes: Changes, commit: Commit) -> list[Output]:
        judge = state.judge
        assert isinstance(judge, Judge)
        now = judge.counters
        count_judged(now, self._told.get(judge, Judged()), self._counters)
        self._told[judge] = now
        return super().rows(state, changes, commit)


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
    counters.set("spend_unnamed", figures.unnamed)
    counters.add("alert_windows_failed", len(figures.failed))
    for failed in figures.failed:
        _log.error("window %s; it was left out, please report it", failed)


def count_judged(now: Judged, before: Judged, counters: Counters) -> None:
    """What a judge has done since ``before``; its own numbers only grow."""
    counters.add("insight_judged", now.judged - before.judged)
    for reason, windows in now.unjudged.items():
        counters.add("insight_unjudged", windows - before.unjudged.get(reason, 0), reason=reason)
    counters.add("insight_ignored", now.windows_ignored - before.windows_ignored)
    counters.add("insight_series_forgotten", now.series_forgotten - before.series_forgotten)
    for rule, series in now.series.items():
        counters.set("insight_series", series, rule=rule)
