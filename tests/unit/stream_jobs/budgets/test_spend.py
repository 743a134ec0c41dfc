"""Spend by day: three kinds of sums, bounded, and what a budget makes of them."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.budgets.model import Budget, Budgets
from stream_jobs.budgets.spend import ALL, DAYS_KEPT, Spend, series_of
from tests.unit.stream_jobs.budgets.spend_cases import DAY_MS, spend_row

TEAMS = {"a": "red", "b": "red", "c": "blue"}
BUDGETS = (
    Budget("all", 1),
    Budget("a", 1, "tenant", "a"),
    Budget("m", 1, "model", "m"),
    Budget("red", 1, "team", "red"),
)


def test_a_budget_is_a_sum_of_series() -> None:
    """All, one tenant or model, the tenants of a team; of a team without tenants nothing."""
    found = [series_of(one, TEAMS) for one in BUDGETS]

    assert found == [(ALL,), (("tenant", "a"),), (("model", "m"),), (("tenant", "a"), ("tenant", "b"))]


ROWS = st.lists(
    st.builds(
        spend_row,
        st.integers(100, 104),
        st.integers(-(2**50), 2**50),
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from(["m", "n", None]),
    ),
    max_size=30,
)


@settings(max_examples=50)
@given(ROWS, st.integers(0, 30))
def test_sums_are_those_of_the_rows_that_a_budget_covers(rows: list[dict[str, int]], cut: int) -> None:
    """Whole numbers of any size, by day, through a dump in between; ``covers`` says independently what counts."""
    spend = Spend(Budgets(BUDGETS, TEAMS))
    spend.add(rows[:cut])
    again = Spend(Budgets(BUDGETS, TEAMS))
    again.load(orjson.loads(orjson.dumps(spend.dump())))
    again.add(rows[cut:])

    for budget in BUDGETS:
        counted = [row for row in rows if budget.covers(row["tenant"], row["model"], TEAMS)]  # type: ignore[arg-type]
        days = {row["day_ms"] // DAY_MS for row in counted}
        sums = {day: sum(row["cost_nusd"] for row in counted if row["day_ms"] == day * DAY_MS) for day in days}
        assert again.of(budget, TEAMS) == sums
    assert again.since_ms == min((row["day_ms"] for row in rows), default=None)


def test_names_beyond_the_limit_count_for_all_alone() -> None:
    """Those that budgets name keep their sums whenever they come."""
    budgets = Budgets((Budget("late", 1, "tenant", "late"),))
    spend = Spend(budgets, names_max=2)

    spend.add([spend_row(100, 1, tenant) for tenant in ("first", "second", "first", "late", "second")])

    assert spend.sums == {ALL: {100: 5}, ("tenant", "first"): {100: 2}, ("tenant", "late"): {100: 1}}
    assert spend.unnamed == 2


@pytest.mark.parametrize(("day", "kept"), [(100 + DAYS_KEPT - 1, True), (100 + DAYS_KEPT, False)])
def test_old_days_are_forgotten(day: int, kept: bool) -> None:
    """With them series of which nothing is left; rows of an older day still count while that is kept."""
    spend = Spend(Budgets())
    spend.add([spend_row(100, 1, "a"), spend_row(day, 2), spend_row(101, 4)])

    assert spend.sums.get(("tenant", "a")) == ({100: 1} if kept else None)
    assert spend.sums[ALL] == ({100: 1} if kept else {}) | {101: 4, day: 2}
