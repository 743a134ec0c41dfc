"""Unusual days: from the bill that makes them so to the end of the day, for each name by itself."""

from __future__ import annotations

import numpy as np
import pytest

from stream_jobs.budgets.model import Budgets, Unusual
from stream_jobs.budgets.spend import Spend
from stream_jobs.budgets.unusual_days import HISTORY_MIN, DayKey, UnusualDays
from stream_jobs.budgets.watch import GRACE_MS
from tests.unit.stream_jobs.budgets.spend_cases import DAY_MS, DOLLAR, spend_row
from tests.unit.stream_jobs.budgets.test_forecast import HELD, spend

TWICE = Unusual("tenant", 2_000_000, 5 * DOLLAR)
TODAY = 20_000
NOON = TODAY * DAY_MS + DAY_MS // 2


class Case:
    """Two tenants that spend 10 and 100 dollars a day, for so many days before today."""

    def __init__(self, *rules: Unusual, days: int = 20) -> None:
        self.sums = Spend(Budgets())
        self.days = UnusualDays(rules or (TWICE,))
        for day in range(TODAY - days, TODAY):
            self.spent("small", 10, day)
            self.spent("large", 100, day)

    def spent(self, tenant: str, dollars: float, day: int = TODAY) -> None:
        self.sums.add([spend_row(day, round(dollars * DOLLAR), tenant, "m")])

    def judge(self, at_ms: int = NOON) -> tuple[list[tuple[str, str, int]], list[tuple[str, int]]]:
        """(scope, name, since) of what is unusual and (name, end) of what is no more."""
        found, ended = self.days.judge(self.sums, at_ms)
        return (
            [(one.key.each, one.key.name, one.since_ms) for one in found],
            [(key.name, at_ms) for key, at_ms in ended],
        )


def test_a_day_is_unusual_on_the_bound_and_not_before() -> None:
    """Twice the usual, to the nano-dollar; since the first time; of that tenant alone."""
    case = Case()
    case.spent("large", 150)
    case.spent("small", 20 - 1e-9)
    before = case.judge()
    case.spent("small", 1e-9)

    assert before == ([], [])
    assert case.judge(NOON + 1) == ([("tenant", "small", NOON + 1)], [])
    assert case.judge(NOON + 9) == ([("tenant", "small", NOON + 1)], [])


def test_little_money_is_never_unusual() -> None:
    """Ten times of almost nothing: the sum above the usual is a bound of its own."""
    case = Case(Unusual("tenant", 2_000_000, 50 * DOLLAR))
    case.spent("small", 59.9)
    before = case.judge()
    case.spent("small", 0.1)

    assert (before, case.judge()) == (([], []), ([("tenant", "small", NOON)], []))


def test_models_and_all_have_rules_of_their_own() -> None:
    """The model of both tenants, and everything: 110 dollars a day."""
    case = Case(Unusual("model", 2_000_000, DOLLAR), Unusual("all", 1_500_000, DOLLAR))
    case.spent("large", 165)
    half = case.judge()
    case.spent("large", 55)

    assert half[0] == [("all", "", NOON)]
    assert sorted(case.judge()[0]) == [("all", "", NOON), ("model", "m", NOON)]


def test_it_ends_with_its_day_once_late_bills_are_in_or_when_bills_are_corrected() -> None:
    """The old day is judged a while beside the new one; what was found then is of the old day."""
    midnight = (TODAY + 1) * DAY_MS
    case = Case()
    case.spent("small", 19)
    case.judge()
    case.spent("small", 1)
    late = case.judge(midnight + 60_000)
    over = case.judge(midnight + GRACE_MS)
    corrected = Case()
    corrected.spent("small", 30)
    corrected.judge()
    corrected.spent("small", -15)

    assert late == ([("tenant", "small", midnight - 1)], [])
    assert over == ([], [("small", midnight)])
    assert corrected.judge(NOON + 5) == ([], [("small", NOON + 5)])


@pytest.mark.parametrize(("days", "told"), [(HISTORY_MIN - 1, 0), (HISTORY_MIN, 2)], ids=["too young", "a week old"])
def test_whoever_is_new_is_not_judged(days: int, told: int) -> None:
    """There is nothing to compare with."""
    case = Case(days=days)
    case.spent("small", 1_000)
    case.spent("large", 1_000)
    case.spent("new", 1_000)

    assert len(case.judge()[0]) == told


def test_a_weekend_after_quiet_weekends_is_judged_by_them() -> None:
    """Spend that is usual on a Wednesday is not on a Sunday."""
    sums, days = Spend(Budgets()), UnusualDays((TWICE,))
    week = [100, 100, 100, 100, 100, 20, 20]
    sums.add([spend_row(TODAY - 28 + day, week[day % 7] * DOLLAR, "t") for day in range(28)])
    sums.add([spend_row(TODAY + day, 90 * DOLLAR, "t") for day in range(7)])

    found = [bool(days.judge(sums, (TODAY + day) * DAY_MS + DAY_MS - 1)[0]) for day in range(7)]

    assert found == [False] * 5 + [True, True]


def test_what_is_said_of_a_day() -> None:
    """Exact figures, unusual or not; nothing of a rule that is gone or of a name without history."""
    case = Case()
    case.spent("small", 12)
    key = DayKey("tenant", "small", TWICE.level, TODAY)

    found = case.days.stands(key, case.sums, NOON)

    assert found is not None
    assert (found.spent_nusd, found.usual_nusd, found.bound_nusd, found.days) == (
        12 * DOLLAR, 10 * DOLLAR, 20 * DOLLAR, 20,
    )  # fmt: skip
    assert case.days.stands(key._replace(level="unusual 300%"), case.sums, NOON) is None
    assert case.days.stands(key._replace(name="nobody"), case.sums, NOON) is None


def test_what_is_held_survives_a_dump() -> None:
    """Since when is kept, so that nothing is opened again."""
    case, other = Case(), UnusualDays((TWICE,))
    case.spent("small", 25)
    case.judge()
    other.load(case.days.dump())

    assert [one.since_ms for one in other.judge(case.sums, NOON + 9)[0]] == [NOON]


def test_usual_days_of_tenants_are_quiet_and_threefold_ones_are_found() -> None:
    """Of sixty tenants with weekends, noise and rare days of +80 %: no more than one day in two hundred is told."""
    told, found = [], []
    for seed in range(60):
        history, truth = spend(seed)
        for strange, into in ((1.0, told), (3.0, found)):
            sums, days = Spend(Budgets()), UnusualDays((Unusual("tenant", 2_000_000, 1),))
            rows = [*history.tolist(), *truth[:-1].tolist(), float(truth[-1]) * strange]
            sums.add([spend_row(day, round(amount * DOLLAR), "t") for day, amount in enumerate(rows)])
            judged = range(len(history), len(rows)) if strange == 1.0 else (len(rows) - 1,)
            into += [bool(days.judge(sums, (day + 1) * DAY_MS - 1)[0]) for day in judged]

    assert len(told) == 60 * HELD
    assert np.mean(told) <= 0.005
    assert np.mean(found) >= 0.98
