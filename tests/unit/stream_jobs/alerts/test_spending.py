"""Budgets as alerts: one for each (budget, level, period), alone, through the life of every alert."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.alerts import Alert
from schemas.contract.record import Record
from schemas.limits import MINUTE_MS
from stream_jobs.alerts.spending import dollars
from stream_jobs.alerts.step import AlertStep
from stream_jobs.budgets.model import Budget, Budgets, Level, Unusual
from stream_jobs.budgets.watch import GRACE_MS
from stream_jobs.step import Commit
from tests.unit.stream_jobs.alerts.cases import T0, WINDOW
from tests.unit.stream_jobs.alerts.log import Log, a_step
from tests.unit.stream_jobs.budgets.spend_cases import BUDGETS, DAY_MS, DOLLAR, spend_row

TODAY = T0 // DAY_MS
NOVEMBER, DECEMBER = (round(datetime(2023, month, 1, tzinfo=UTC).timestamp()) * 1_000 for month in (11, 12))
MINUTE = MINUTE_MS // WINDOW
"""Windows."""


class Story:
    """A log of spend and windows, without any other trouble."""

    def __init__(self) -> None:
        self.log = Log()
        self.window = 0

    def spend(self, dollars: float, tenant: str | None = None, day: int = TODAY) -> None:
        self.log.spend([spend_row(day, round(dollars * DOLLAR), tenant, "m")])

    def windows(self, number: int) -> None:
        """So many windows pass on both upstreams."""
        for _ in range(number):
            self.window += 1
            for upstream in (0, 1):
                self.log.progress(upstream, self.window)

    def until(self, at_ms: int) -> None:
        """Nothing is told until this window, which has an engine in it."""
        self.window = (at_ms - T0) // WINDOW
        for upstream in (0, 1):
            self.log.rows(upstream, self.window, {"e-1": 1}, through=self.window + 1)
        self.window += 1


def told(step: AlertStep, records: Sequence[Record]) -> list[Alert]:
    state, changes = step.new("window.finals", 0), step.changes()
    step.fold(state, records, changes)
    assert changes.skipped == 0
    return changes.alerts


def short(alerts: Sequence[Alert]) -> list[tuple[str, str, str, str]]:
    return [(a.transition, a.labels["budget"], a.labels["level"], a.severity) for a in alerts]


def started() -> Story:
    story = Story()
    story.log.rows(0, 0, {"e-1": 1}, through=1)
    story.log.rows(1, 0, {"e-1": 1}, through=1)
    story.window = 1
    return story


def test_every_level_is_an_alert_of_its_own() -> None:
    """Two of one budget that are crossed at once, and those of its team: none joins another."""
    story = started()
    story.spend(11, "acme")
    story.spend(10, "globex")
    story.windows(2 * MINUTE)

    alerts = told(a_step(budgets=BUDGETS), story.log.records)

    assert sorted(short(alerts)) == [
        ("opened", "acme", "hard 100%", "critical"),
        ("opened", "acme", "soft 50%", "warning"),
        ("opened", "red", "soft 50%", "warning"),
    ]
    assert len({alert.fingerprint for alert in alerts}) == len({alert.summary for alert in alerts}) == 3
    assert all(alert.members == () for alert in alerts)


def test_what_an_alert_says() -> None:
    """Who, how much of how much, since when; the exact figures are its evidence."""
    story = started()
    story.spend(3, "acme", day=NOVEMBER // DAY_MS)
    story.spend(3, "acme")
    story.windows(MINUTE)

    (alert,) = told(a_step(budgets=BUDGETS), story.log.records)

    assert (
        alert.summary
        == "Budget acme: 6.00 USD of 10.00 USD are spent, 60.0 % (2023-11-01 to 2023-11-30; level soft 50%)"
    )
    assert alert.labels == {"budget": "acme", "level": "soft 50%", "period": "2023-11-01", "tenant": "acme"}
    assert (alert.rule, alert.value, alert.high, alert.unit, alert.note) == ("budget", 6.0, 5.0, "USD", "")
    found = alert.evidence["budget"]
    assert (found["spent_nusd"], found["amount_nusd"], found["known_ms"]) == (6 * DOLLAR, 10 * DOLLAR, NOVEMBER)
    assert (found["start_ms"], found["end_ms"]) == (NOVEMBER, DECEMBER)
    assert found["level"] == {"share_ppm": 500_000, "kind": "soft", "ahead": False}


def test_what_is_not_known_of_a_period_is_said() -> None:
    """Spend of its first days is missing; a forecast says what comes, and when the money is gone."""
    ahead = Budgets((Budget("b", 40 * DOLLAR, levels=(Level(1_000_000, ahead=True),)),))
    story = started()
    for day in range(TODAY - 4, TODAY):
        story.spend(4, day=day)
    story.windows(MINUTE)

    (alert,) = told(a_step(budgets=ahead), story.log.records)

    assert alert.note == "spend is known from 2023-11-10 on"
    assert alert.value == pytest.approx(16 + 4 * (DECEMBER - alert.at_ms) / DAY_MS)
    assert alert.summary.startswith("Budget b is expected to end at 80.29 USD of 40.00 USD, used up by 2023-11-20 ")


def test_a_whole_life() -> None:
    """Opened once however long it holds; resolved when bills are corrected; the same alert when it comes back at once,
    a new one of the same fingerprint later; resolved by the end of the period, when the next may begin."""
    story = started()
    story.spend(60)
    story.windows(20 * MINUTE)
    story.spend(-20)
    story.windows(MINUTE)
    story.spend(20)
    story.windows(10 * MINUTE)
    story.until(DECEMBER - WINDOW)
    story.spend(55, day=TODAY + 17)
    story.until(DECEMBER + 10 * MINUTE_MS)
    story.until(DECEMBER + 40 * MINUTE_MS)
    story.windows(5 * MINUTE)

    alerts = told(a_step(budgets=BUDGETS), story.log.records)

    periods = [(alert.transition, alert.labels["period"]) for alert in alerts]
    assert periods == [
        ("opened", "2023-11-01"),
        ("resolved", "2023-11-01"),
        ("updated", "2023-11-01"),
        ("opened", "2023-12-01"),
        ("resolved", "2023-11-01"),
    ]
    assert alerts[-1].resolved_ms == DECEMBER
    assert len({(alert.fingerprint, alert.opened_ms) for alert in alerts}) == 2


def test_raised_it_ends_and_a_job_without_budgets_tells_nothing() -> None:
    """The file is another after a restart: what is crossed no more is resolved."""
    story = started()
    story.spend(60)
    story.windows(MINUTE)
    step, more = a_step(budgets=BUDGETS), len(story.log.records)
    story.windows(4 * MINUTE)
    state, changes = step.new("window.finals", 0), step.changes()
    step.fold(state, story.log.records[:more], changes)
    raised = replace(BUDGETS, budgets=(replace(BUDGETS.budgets[0], amount_nusd=121 * DOLLAR),))

    ends = [_rest(step, state, a_step(budgets=one), story.log.records[more:]) for one in (raised, Budgets())]

    assert short(changes.alerts) == [("opened", "fleet", "soft 50%", "warning")]
    assert [short(alerts) for alerts in ends] == [[("resolved", "fleet", "soft 50%", "warning")]] * 2
    assert told(a_step(), story.log.records) == []


def _rest(step: AlertStep, state: Any, again: AlertStep, records: Sequence[Record]) -> list[Alert]:
    changes = again.changes()
    again.fold(again.load("window.finals", 0, step.dump(state)), records, changes)
    return changes.alerts


def test_it_stays_apart_from_every_other_trouble() -> None:
    """An engine that is slow as the budget is crossed, and one that was before."""
    story = started()
    story.windows(2)
    story.log.rows(0, 3, {"e-1": 900}, through=4)
    story.log.rows(1, 3, {"e-2": 900}, through=4)
    story.spend(60)
    story.window = 4
    for window in range(4, 4 + MINUTE):
        story.log.rows(0, window, {"e-1": 900, "e-3": 900}, through=window + 1)
        story.log.rows(1, window, {"e-2": 900}, through=window + 1)

    alerts = told(a_step(budgets=BUDGETS), story.log.records)

    (budget,) = [alert for alert in alerts if alert.rule == "budget"]
    assert (budget.transition, budget.members) == ("opened", ())
    assert all(member.rule != "budget" for alert in alerts for member in alert.members)


def test_an_unusual_day_is_an_alert_until_it_ends() -> None:
    """Whose, how much, what is usual; the exact figures are its evidence; of others nothing is said."""
    rules = Budgets(unusual=(Unusual("tenant", 2_000_000, 5 * DOLLAR), Unusual("all", 3_000_000, DOLLAR)))
    story = started()
    for day in range(TODAY - 8, TODAY):
        story.spend(4, "acme", day)
        story.spend(90, "globex", day)
    story.spend(9.5, "acme")
    story.windows(2 * MINUTE)
    story.until((TODAY + 1) * DAY_MS + GRACE_MS + MINUTE_MS)
    story.windows(MINUTE)

    opened, resolved = told(a_step(budgets=rules), story.log.records)

    day = datetime.fromtimestamp(TODAY * DAY_MS / 1_000, UTC).strftime("%Y-%m-%d")
    assert (opened.transition, resolved.transition) == ("opened", "resolved")
    assert opened.fingerprint == resolved.fingerprint
    assert (opened.rule, opened.severity, opened.members) == ("spend", "warning", ())
    assert opened.labels == {"level": "unusual 200%", "period": day, "tenant": "acme"}
    assert opened.summary == f"Spend of tenant acme on {day}: 9.50 USD so far, usual is 4.00 USD a day"
    assert (opened.value, opened.high, opened.unit) == (9.5, 9.0, "USD")
    found = opened.evidence["spend"]
    assert (found["each"], found["name"], found["spent_nusd"], found["usual_nusd"], found["days"]) == (
        "tenant", "acme", 9_500_000_000, 4 * DOLLAR, 8,
    )  # fmt: skip


MOVES = st.one_of(
    st.tuples(st.just("spend"), st.integers(-30, 60), st.sampled_from(["acme", "globex", None])),
    st.tuples(st.just("windows"), st.integers(1, 3 * MINUTE), st.just(None)),
)


@settings(max_examples=25)
@given(st.lists(MOVES, max_size=10), st.integers(0, 60), st.integers(1, 40))
def test_a_replay_from_any_snapshot_tells_the_same(moves: list[Any], crash: int, cut: int) -> None:
    """Byte for byte, wherever batches are cut; and never two open alerts of one (budget, level, period)."""
    story = started()
    for day in range(TODAY - 8, TODAY):
        story.spend(4, "acme", day)
    for kind, amount, tenant in moves:
        if kind == "spend":
            story.spend(amount, tenant)
        else:
            story.windows(amount)
    ahead = Budget("ahead", 300 * DOLLAR, levels=(Level(1_000_000, ahead=True),))
    unusual = (Unusual("tenant", 2_000_000, 5 * DOLLAR), Unusual("all", 3_000_000, DOLLAR))
    step = a_step(budgets=replace(BUDGETS, budgets=(*BUDGETS.budgets, ahead), unusual=unusual))
    expected = told(step, story.log.records)

    found: list[Alert] = []
    state = step.new("window.finals", 0)
    for number, records in enumerate(_cut(story.log.records, cut)):
        if number == crash:
            state = step.load("window.finals", 0, step.dump(state))
        changes = step.changes()
        step.fold(state, records, changes)
        step.rows(state, changes, Commit("window.finals", 0, 0, 1, 0, T0, idle=False))
        found += changes.alerts

    assert found == expected
    opened: set[str] = set()
    for alert in found:
        assert (alert.fingerprint in opened) == (alert.transition == "resolved")
        opened ^= {alert.fingerprint}


def _cut(records: Sequence[Record], cut: int) -> Iterator[Sequence[Record]]:
    for start in range(0, len(records), cut):
        yield records[start : start + cut]


@pytest.mark.parametrize(
    ("nusd", "text"),
    [(1_234_500_000_000, "1,234.50 USD"), (999_999_999, "1.0000 USD"), (12_300_000, "0.0123 USD"), (0, "0.0000 USD")],
)
def test_dollars_as_people_read_them(nusd: int, text: str) -> None:
    """Cents, or four digits of less than a dollar."""
    assert dollars(nusd) == text
