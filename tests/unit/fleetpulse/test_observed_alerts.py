"""What the alert job counts."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from fleetpulse.observed_alerts import ObservedAlertStep, count, count_judged
from runtime.counters import Counters
from schemas.record import Record
from stream_jobs.alerts.changes import Changes
from stream_jobs.alerts.evidence import Evidence
from stream_jobs.alerts.figures import figures_of
from stream_jobs.alerts.step import AlertStep
from stream_jobs.insight.judge import Counters as Judged
from stream_jobs.insight.judge import Judge
from stream_jobs.rules.model import Function, Measure
from stream_jobs.rules.ruleset import RuleSet
from stream_jobs.step import Commit
from tests.unit.stream_jobs.alerts_cases import T0
from tests.unit.stream_jobs.alerts_log import Log
from tests.unit.stream_jobs.insight_cases import a_rule

FINALS = "window.finals"
COMMIT = Commit(FINALS, 0, 0, 1, 0, T0, False)
QUEUE = Measure("value", "engine.samples", Function.MEAN, "waiting", text="mean(waiting)")
RULES = RuleSet((a_rule(name="queue", measures=(QUEUE,), by=("engine_id",), options={"above": 800.0}),))
COUNTED = ("insight_judged", "insight_ignored", "insight_series_forgotten", "alert_progress_ms")


def two_windows() -> tuple[list[Record], list[Record]]:
    """The second of them is not complete."""
    log = Log()
    log.rows(0, 0, {"e-0": 900, "e-1": 1}, through=1)
    first = len(log.records)
    log.rows(0, 1, {"e-0": 900, "e-1": 1, "e-2": 900}, through=2, complete=False)
    return log.records[:first], log.records[first:]


def test_each_commit_counts_what_came_since_the_one_before() -> None:
    """Of the judge, whose own numbers only grow, and of the alerts; a state that is taken over begins at nothing."""
    counters = Counters()
    step = ObservedAlertStep(1, RULES, counters)
    state, seen = step.new(FINALS, 0), []
    for records in two_windows():
        changes = step.changes()
        step.fold(state, records, changes)
        step.rows(state, changes, COMMIT)
        step.rows(state, step.changes(), COMMIT)
        seen.append({name: counters.value(name) for name in COUNTED})
    again = step.load(FINALS, 0, step.dump(state))
    step.rows(again, step.changes(), COMMIT)

    base = {"insight_judged": 2, "insight_ignored": 0, "insight_series_forgotten": 0}
    assert seen == [{**base, "alert_progress_ms": T0 + 10_000}, {**base, "alert_progress_ms": T0 + 20_000}]
    assert {name: counters.value(name) for name in COUNTED} == seen[1]
    assert counters.value("insight_unjudged", reason="incomplete") == 3
    assert counters.value("insight_series", rule="queue") == 2
    assert [counters.value("alert_windows", complete=word) for word in ("yes", "no")] == [1, 1]
    assert counters.value("alert_transitions", transition="opened") == 1
    assert counters.value("alerts_open", severity="warning") == 1


def test_observing_changes_no_byte() -> None:
    """The observed step sends and keeps what the step does."""
    observed, plain = ObservedAlertStep(1, RULES, Counters()), AlertStep(1, RULES, Judge, Evidence)
    found = []
    for step in (observed, plain):
        state, changes = step.new(FINALS, 0), step.changes()
        step.fold(state, [record for records in two_windows() for record in records], changes)
        found.append((step.rows(state, changes, COMMIT), step.dump(state)))

    assert found[0] == found[1]
    assert [output.key for output in found[0][0]] != []


def test_every_number_of_the_judge_is_counted() -> None:
    """By what was added to it."""
    counters = Counters()
    before = Judged(judged=10, unjudged={"unknown": 1}, windows_ignored=2, series_forgotten=3, series={"a": 5})
    now = Judged(
        judged=17, unjudged={"unknown": 4, "beyond_limit": 6}, windows_ignored=7, series_forgotten=11, series={"a": 4}
    )

    count_judged(now, before, counters)

    assert [counters.value(f"insight_{name}") for name in ("judged", "ignored", "series_forgotten")] == [7, 5, 8]
    assert [counters.value("insight_unjudged", reason=word) for word in ("unknown", "beyond_limit")] == [3, 6]
    assert counters.value("insight_series", rule="a") == 4


def test_a_window_that_was_left_out_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """One line each, with which and why."""
    counters, step = Counters(), AlertStep(1, RULES, Judge, Evidence)
    figures = figures_of(step.new(FINALS, 0), step.changes())

    with caplog.at_level(logging.ERROR):
        count(replace(figures, failed=("10: KeyError: 'x'", "20: KeyError: 'x'")), counters)
        count(figures, counters)

    assert counters.value("alert_windows_failed") == 2
    assert [record.message.split(";")[0] for record in caplog.records] == [
        "window 10: KeyError: 'x'",
        "window 20: KeyError: 'x'",
    ]


def test_spend_without_a_name_is_counted() -> None:
    """So that whoever adds a budget knows why it misses something."""
    counters = Counters()
    figures = replace(figures_of(AlertStep(1, RULES, Judge, Evidence).new(FINALS, 0), Changes()), unnamed=3)

    count(figures, counters)

    assert counters.value("spend_unnamed") == 3
