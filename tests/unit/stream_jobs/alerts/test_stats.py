"""Statistics of one commit of the alert job."""

from __future__ import annotations

from schemas.contract.record import Record
from stream_jobs.alerts.evidence import Evidence
from stream_jobs.alerts.step import AlertStep
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.rules.model import Function, Measure, RuleSet
from tests.unit.stream_jobs.alerts.cases import T0, at
from tests.unit.stream_jobs.alerts.log import Log, a_step
from tests.unit.stream_jobs.insight.cases import a_rule
from tests.unit.stream_jobs.stat_values import values_of

FINALS = "window.finals"
QUEUE = Measure("value", "engine.samples", Function.MEAN, "waiting", text="mean(waiting)")
RULES = RuleSet((a_rule(name="queue", measures=(QUEUE,), by=("engine_id",), options={"above": 800.0}),))


def two_windows() -> tuple[list[Record], list[Record]]:
    """The second of them is not complete."""
    log = Log()
    log.rows(0, 0, {"e-0": 900, "e-1": 1}, through=1)
    first = len(log.records)
    log.rows(0, 1, {"e-0": 900, "e-1": 1, "e-2": 900}, through=2, complete=False)
    return log.records[:first], log.records[first:]


def test_what_is_open_by_severity_and_transitions_by_kind() -> None:
    """Of events and of windows."""
    log, step = Log(), a_step()
    log.gpu_event("xid", "g-10", at(3), code=79)
    log.rows(0, 0, {"e-0": 900}, through=1)
    log.progress(1, 1)
    state, changes = step.new(FINALS, 0), step.changes()

    step.fold(state, log.records, changes)

    assert {key: value for key, value in values_of(step.stats(state, changes)).items() if value} == {
        ("alerts_open", "warning"): 1,
        ("alerts_open", "critical"): 1,
        ("alert_transitions", "opened"): 2,
        ("alert_windows", "yes"): 1,
        ("alert_progress_ms",): at(1),
    }


def test_each_commit_counts_what_came_since_the_one_before() -> None:
    """Also of the detector, whose own numbers only grow."""
    step = AlertStep(1, RULES, FleetDetector, Evidence)
    state, found = step.new(FINALS, 0), []
    for records in (*two_windows(), []):
        changes = step.changes()
        step.fold(state, records, changes)
        found.append({key: value for key, value in values_of(step.stats(state, changes)).items() if value})

    sizes = {("alerts_open", "warning"): 1, ("insight_series", "queue"): 2}
    assert found == [
        sizes
        | {
            ("alert_transitions", "opened"): 1,
            ("alert_windows", "yes"): 1,
            ("alert_progress_ms",): T0 + 10_000,
            ("insight_judged",): 2,
        },
        sizes
        | {
            ("alert_windows", "no"): 1,
            ("alert_progress_ms",): T0 + 20_000,
            ("insight_unjudged", "incomplete"): 3,
        },
        sizes | {("alert_progress_ms",): T0 + 20_000},
    ]


def test_windows_that_were_looked_at_early_are_counted() -> None:
    """Beside those that were judged."""
    log, step = Log(), a_step()
    log.rows(0, 0, {"e-0": 1}, through=1)
    log.progress(0, 2)
    state, changes = step.new(FINALS, 0), step.changes()
    step.fold(state, log.records, changes)

    stats = values_of(step.stats(state, changes))

    assert [stats[name] for name in (("alert_windows_early",), ("alert_windows", "yes"))] == [1, 0]


def test_windows_left_out_and_spend_without_a_name_are_counted() -> None:
    """So that whoever adds a budget knows why it misses something."""
    step = AlertStep(1, RULES, FleetDetector, Evidence)
    state, changes = step.new(FINALS, 0), step.changes()
    state.life.spending.spend.unnamed, changes.failed = 3, 2

    stats = values_of(step.stats(state, changes))

    assert (stats["spend_unnamed",], stats["alert_windows_failed",]) == (3, 2)


def test_records_of_upstreams_beyond_the_configuration_are_counted() -> None:
    """Its [partitions] is not that of the finals job."""
    log, step = Log(), a_step(upstreams=1)
    log.rows(1, 0, {"e-0": 1}, through=1)
    state, changes = step.new(FINALS, 0), step.changes()

    step.fold(state, log.records, changes)

    assert values_of(step.stats(state, changes))["alert_strange_records",] == 1
