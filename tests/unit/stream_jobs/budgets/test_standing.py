"""Budgets: periods, what counts, levels that are crossed, when the money is gone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stream_jobs.budgets.model import LEVELS, Budget, Level
from stream_jobs.budgets.standing import Standing, crossings, standing

DAY_MS = 86_400_000
DOLLAR = 1_000_000_000


def ms(year: int, month: int, day: int, hour: int = 0) -> int:
    return round(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * 1_000


def spent(amount: int, since_ms: int, days: int) -> dict[int, int]:
    return {since_ms // DAY_MS + day: amount for day in range(days)}


def test_where_a_budget_stands() -> None:
    """Ten dollars a day, at noon of a day on which five are gone: 300 by the end of the month; 200 last 20 days."""
    days = spent(10 * DOLLAR, ms(2026, 3, 20), 28)
    now_ms = ms(2026, 4, 17, 12)
    days[now_ms // DAY_MS] = 5 * DOLLAR

    found = standing(Budget("b", 200 * DOLLAR), days, now_ms)

    assert found == Standing(
        budget="b",
        start_ms=ms(2026, 4, 1),
        end_ms=ms(2026, 5, 1),
        spent_nusd=165 * DOLLAR,
        left_nusd=35 * DOLLAR,
        forecast_nusd=300 * DOLLAR,
        forecast_low_nusd=300 * DOLLAR,
        forecast_high_nusd=300 * DOLLAR,
        exhausted_ms=ms(2026, 4, 21),
    )


def test_a_budget_that_lasts() -> None:
    """Not used up within the period: no time."""
    found = standing(Budget("b", 301 * DOLLAR), spent(10 * DOLLAR, ms(2026, 3, 20), 28), ms(2026, 4, 17))

    assert (found.forecast_nusd, found.exhausted_ms) == (300 * DOLLAR, None)


def test_a_budget_that_is_used_up() -> None:
    """When it was, as if each day, and today so far, were spent evenly; not the moment in which somebody asks."""
    days = spent(10 * DOLLAR, ms(2026, 4, 1), 17)

    assert standing(Budget("b", 30 * DOLLAR), days, ms(2026, 4, 17, 6)).exhausted_ms == ms(2026, 4, 4)
    assert standing(Budget("b", 170 * DOLLAR), days, ms(2026, 4, 17, 6)).exhausted_ms == ms(2026, 4, 17, 6)
    assert standing(Budget("b", 170 * DOLLAR), days, ms(2026, 4, 17, 6)).left_nusd == 0
    assert standing(Budget("b", 25 * DOLLAR), days, ms(2026, 4, 17, 6)).exhausted_ms == ms(2026, 4, 3, 12)
    assert standing(Budget("b", 165 * DOLLAR), days, ms(2026, 4, 17, 6)).exhausted_ms == ms(2026, 4, 17, 3)


def test_a_budget_is_not_used_up_before_the_first_bill() -> None:
    """The day that holds it is spent evenly from then on; before it nothing was. Later days are whole."""
    days, began_ms = spent(10 * DOLLAR, ms(2026, 4, 1), 2), ms(2026, 4, 1, 18)

    found = [
        standing(Budget("b", amount * DOLLAR), days, now_ms, began_ms).exhausted_ms
        for amount, now_ms in ((5, ms(2026, 4, 3)), (15, ms(2026, 4, 3)), (10, ms(2026, 4, 1, 20)))
    ]

    assert found == [ms(2026, 4, 1, 21), ms(2026, 4, 2, 12), ms(2026, 4, 1, 20)]
    assert standing(Budget("b", 1), days, ms(2026, 4, 3), began_ms).exhausted_ms == began_ms


def test_without_history_there_is_no_forecast() -> None:
    """Nothing known yet, or two days of it: null, not 0."""
    for days in ({}, spent(DOLLAR, ms(2026, 4, 1), 2)):
        found = standing(Budget("b", DOLLAR * 9), days, ms(2026, 4, 3))
        assert (found.forecast_nusd, found.forecast_low_nusd, found.exhausted_ms) == (None, None, None)
        assert found.spent_nusd == sum(days.values())


def stands(spent_nusd: int, forecast_nusd: int | None = None, start_ms: int = 0) -> Standing:
    return Standing("b", start_ms, 1, spent_nusd, 0, forecast_nusd, None, None, None)


@pytest.mark.parametrize(
    ("spent_nusd", "forecast_nusd", "levels"),
    [
        pytest.param(499, None, [], id="below the first"),
        pytest.param(500, None, [0], id="on it"),
        pytest.param(500, 999, [0], id="a forecast just below"),
        pytest.param(500, 1_000, [0, 2], id="ahead of time"),
        pytest.param(1_000, 1_000, [0, 1, 2, 3], id="all of them"),
    ],
)
def test_levels_that_are_crossed(spent_nusd: int, forecast_nusd: int | None, levels: list[int]) -> None:
    """Half, four fifths, all of it by the forecast, all of it in fact."""
    found = crossings(Budget("b", 1_000), stands(spent_nusd, forecast_nusd))

    assert [level for _, level in found] == [LEVELS[i] for i in levels]


def test_a_crossed_level_has_one_key_a_period() -> None:
    """Whatever is spent then; the next period has its own."""
    budget = Budget("b", 1_000, levels=(Level(500_000), Level(500_000, "hard", ahead=True)))
    first = crossings(budget, stands(600, 600))

    assert first == [("b/soft/spent/500000/0", Level(500_000)), ("b/hard/ahead/500000/0", budget.levels[1])]
    assert crossings(budget, stands(900, 900)) == first
    assert [key for key, _ in crossings(budget, stands(900, start_ms=7))] == ["b/soft/spent/500000/7"]
