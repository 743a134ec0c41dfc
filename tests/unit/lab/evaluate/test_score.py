"""Which alert is about which trouble, how soon, and what is a false alarm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fleetpulse.backtest.alerting import Transition, percentile, stories_of
from lab.evaluate.report import Report
from lab.evaluate.scenario import Scenario, Trouble, scenario
from lab.evaluate.score import Score, cause_of, explained_by, names, score
from lab.evaluate.table import BY_NAME
from schemas.contract.alerts import Alert, Member


def alert(opened_ms: int, labels: Mapping[str, str], at_ms: int | None = None, **more: Any) -> Alert:
    fields: dict[str, Any] = {
        "fingerprint": "f" * 16, "transition": "opened", "number": 1, "rule": "r", "severity": "warning",
        "summary": "", "advice": "", "labels": labels, "opened_ms": opened_ms, "since_ms": opened_ms,
        "at_ms": opened_ms if at_ms is None else at_ms, **more,
    }  # fmt: skip
    return Alert(**fields)


def told(*alerts: Alert) -> list[Transition]:
    return [Transition(one.at_ms, one) for one in alerts]


@pytest.fixture
def day() -> Scenario:
    return scenario(1, hours=6, cases=[BY_NAME["thermal_throttle"], BY_NAME["host_down"]])


@pytest.fixture
def heat(day: Scenario) -> Trouble:
    return next(trouble for trouble in day.troubles if trouble.case.name == "thermal_throttle")


def resolved(one: Alert, at_ms: int) -> Alert:
    return alert(one.opened_ms, one.labels, at_ms, transition="resolved", resolved_ms=at_ms, number=2)


def test_an_alert_in_time_and_place_finds_its_fault(heat: Trouble) -> None:
    """Its lateness is onset to opening; the cause is right when the GPU is named first; it is resolved in time."""
    opened = alert(heat.fault.from_ms + 15_000, {"gpu_uuid": heat.value, "host": "h-9"})

    found = score(1, [heat], told(opened, resolved(opened, heat.fault.to_ms + 60_000)))

    (outcome,) = found.outcomes
    assert (outcome.late_s, outcome.cause_first, outcome.resolved, outcome.doubles) == (15.0, True, True, ())
    assert outcome.on_time
    assert found.false_alarms == ()


@pytest.mark.parametrize(
    ("offset_ms", "about"),
    [(-1, False), (0, True), (15 * 60_000 + 900_000, True), (15 * 60_000 + 900_000 + 1, False)],
)
def test_an_alert_before_or_long_after_is_a_false_alarm(heat: Trouble, offset_ms: int, about: bool) -> None:
    """On the boundary, one before, one after."""
    found = score(1, [heat], told(alert(heat.fault.from_ms + offset_ms, {"gpu_uuid": heat.value})))

    assert (found.outcomes[0].found, len(found.false_alarms)) == (about, 0 if about else 1)


def test_an_alert_about_something_else_is_a_false_alarm(heat: Trouble) -> None:
    """Time alone connects nothing."""
    found = score(1, [heat], told(alert(heat.fault.from_ms, {"tenant": "acme"})))

    assert not found.outcomes[0].found
    assert [story.opened_ms for story in found.false_alarms] == [heat.fault.from_ms]


def test_a_member_connects_as_well(heat: Trouble) -> None:
    """An alert that names the model and holds the GPU among its members is about the GPU, but does not name it."""
    member = Member("heat", "warning", {"gpu_uuid": heat.value}, heat.fault.from_ms, None)
    found = score(1, [heat], told(alert(heat.fault.from_ms, {"tenant": "acme"}, members=(member,))))

    assert (found.outcomes[0].found, found.outcomes[0].cause_first) == (True, False)


def test_a_second_alert_about_one_fault_is_a_double(heat: Trouble) -> None:
    """The first counts; the other is told."""
    one = alert(heat.fault.from_ms + 10_000, {"gpu_uuid": heat.value})
    two = alert(heat.fault.from_ms + 20_000, {"gpu_uuid": heat.value}, fingerprint="e" * 16)

    (outcome,) = score(1, [heat], told(one, two)).outcomes

    assert (outcome.late_s, [story.opened_ms for story in outcome.doubles]) == (10.0, [two.opened_ms])


def test_transitions_of_one_alert_are_one_story(heat: Trouble) -> None:
    """Opened, moved to a likelier cause, resolved: what people saw last before the end counts."""
    first = alert(5, {"model": "m"})
    second = alert(5, {"gpu_uuid": heat.value}, 9, transition="updated", number=2)

    (story,) = stories_of(told(first, second, resolved(second, 20)))

    assert [one.labels for one in story.headlines()] == [{"model": "m"}, {"gpu_uuid": heat.value}]
    assert (story.opened_ms, story.resolved_ms) == (5, 20)
    assert names(story.headlines()[-1], heat)


def test_the_most_specific_label_is_the_cause() -> None:
    """A GPU before its engine, an engine before its host, a version before its model; nothing of no labels."""
    assert cause_of(alert(0, {"host": "h", "engine_id": "e", "gpu_uuid": "g"})) == ("gpu_uuid", "g")
    assert cause_of(alert(0, {"model": "m", "model_version": "v"})) == ("model_version", "v")
    assert cause_of(alert(0, {})) is None


def test_what_explains_most_names_the_cause_too() -> None:
    """The first of what the evidence says."""
    told = [(name, [{"value": value, "share": 0.9}]) for name, value in (("engine_id", "e"), ("model", "m"))]
    evidence = {"explained_by": [{"dimension": name, "elements": elements} for name, elements in told]}

    assert explained_by(alert(0, {"model": "m"}, evidence=evidence)) == ("engine_id", "e")
    assert explained_by(alert(0, {"model": "m"})) is None


def test_an_alert_in_a_healthy_surge_is_a_false_alarm() -> None:
    """Healthy cases can be found by nobody."""
    (surge,) = scenario(1, hours=6, cases=[BY_NAME["traffic_surge"]]).troubles

    found = score(1, [surge], told(alert(surge.fault.from_ms, {"model": surge.fault.value})))

    assert (found.outcomes, len(found.false_alarms)) == ((), 1)


def test_the_report_holds_when_everything_was_found(heat: Trouble) -> None:
    """One fault found in time: every bound holds; one false alarm more and precision does not."""
    opened = alert(heat.fault.from_ms + 15_000, {"gpu_uuid": heat.value})
    good = score(1, [heat], told(opened, resolved(opened, heat.fault.to_ms)))
    stray = stories_of(told(alert(0, {"tenant": "acme"}, fingerprint="d" * 16)))

    bad = Score(1, good.outcomes, tuple(stray))

    assert Report((good,)).holds
    assert {b.name: b.value for b in Report((bad,)).bounds() if not b.holds} == {"precision": 0.5}
    assert Report((bad,)).as_dict()["false_alarms"][0]["labels"] == {"tenant": "acme"}


def test_the_report_names_what_was_missed_late_and_left_open(heat: Trouble) -> None:
    """Recall, lateness and open alerts each break their bound, and say which fault."""
    late = alert(heat.fault.from_ms + 26_000, {"gpu_uuid": heat.value})
    report = Report((score(1, [heat], ()), score(2, [heat], told(late)))).as_dict()

    broken = [bound["name"] for bound in report["bounds"] if not bound["holds"]]
    assert broken == ["recall", "alerts not resolved", "p95 to detect thermal_throttle, s"]
    assert [(one["seed"], one["fault"]) for one in report["missed"]] == [(1, "thermal_throttle")]
    assert [(one["seed"], one["late_s"]) for one in report["late"]] == [(2, 26.0)]
    assert [one["seed"] for one in report["unresolved"]] == [2]


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [([], 0.5, None), ([3.0], 0.95, 3.0), ([1.0, 2.0], 0.5, 1.0), ([float(n) for n in range(1, 21)], 0.95, 19.0)],
)
def test_a_percentile_is_a_value_that_was_measured(values: list[float], q: float, expected: float | None) -> None:
    """Rank ceil(q n): the p95 of twenty is the nineteenth."""
    assert percentile(values, q) == expected
