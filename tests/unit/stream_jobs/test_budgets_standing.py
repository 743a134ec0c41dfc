"""Budgets: periods, what counts, thresholds told once, when the money is gone."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from schemas.errors import ConfigError
from stream_jobs.budgets.standing import LEVELS, Budget, Crossing, Level, Standing, by_day, crossings, standing

DAY_MS = 86_400_000
DOLLAR = 1_000_000_000


def ms(year: int, month: int, day: int, hour: int = 0) -> int:
    return round(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * 1_000


def spent(amount: int, since_ms: int, days: int) -> dict[int, int]:
    return {since_ms // DAY_MS + day: amount for day in range(days)}


@pytest.mark.parametrize(
    ("days", "since", "at_ms", "period"),
    [
        pytest.param(None, None, ms(2026, 2, 1), (ms(2026, 2, 1), ms(2026, 3, 1)), id="the first moment of a month"),
        pytest.param(None, None, ms(2026, 3, 1) - 1, (ms(2026, 2, 1), ms(2026, 3, 1)), id="its last"),
        pytest.param(None, None, ms(2026, 12, 31), (ms(2026, 12, 1), ms(2027, 1, 1)), id="the end of a year"),
        pytest.param(None, None, ms(2028, 2, 29), (ms(2028, 2, 1), ms(2028, 3, 1)), id="a leap day"),
        pytest.param(14, date(2026, 1, 5), ms(2026, 1, 19), (ms(2026, 1, 19), ms(2026, 2, 2)), id="two weeks"),
        pytest.param(14, date(2026, 1, 5), ms(2026, 1, 4), (ms(2025, 12, 22), ms(2026, 1, 5)), id="before it began"),
    ],
)
def test_periods(days: int | None, since: date | None, at_ms: int, period: tuple[int, int]) -> None:
    """Calendar months in UTC, or so many days from a day on, before it too."""
    budget = Budget("b", 1, days=days, since=since or date(1970, 1, 1))

    assert budget.period(at_ms) == period


def test_what_counts() -> None:
    """All, a tenant, a model, or the team of a tenant; an unknown tenant is nobody's."""
    teams = {"a": "red", "b": "red"}

    assert Budget("x", 1).covers(None, None, teams)
    assert Budget("x", 1, "tenant", "a").covers("a", "m", teams)
    assert not Budget("x", 1, "tenant", "a").covers(None, "m", teams)
    assert Budget("x", 1, "model", "m").covers(None, "m", teams)
    assert Budget("x", 1, "team", "red").covers("b", None, teams)
    assert not Budget("x", 1, "team", "red").covers("c", None, teams)


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
    """The end of the day that did it; of today, now."""
    days = spent(10 * DOLLAR, ms(2026, 4, 1), 17)

    assert standing(Budget("b", 30 * DOLLAR), days, ms(2026, 4, 17, 6)).exhausted_ms == ms(2026, 4, 4)
    assert standing(Budget("b", 170 * DOLLAR), days, ms(2026, 4, 17, 6)).exhausted_ms == ms(2026, 4, 17, 6)
    assert standing(Budget("b", 170 * DOLLAR), days, ms(2026, 4, 17, 6)).left_nusd == 0


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

    assert [one.level for one in found] == [LEVELS[i] for i in levels]


def test_each_level_is_told_once_a_period() -> None:
    """Known keys are left out; the next period has its own."""
    budget = Budget("b", 1_000, levels=(Level(500_000),))
    first = crossings(budget, stands(600))

    assert first == [Crossing("b/soft/spent/500000/0", "b", Level(500_000), 0, 600, None)]
    assert crossings(budget, stands(900), frozenset(one.key for one in first)) == []
    assert [one.key for one in crossings(budget, stands(900, start_ms=7), frozenset({first[0].key}))] == [
        "b/soft/spent/500000/7"
    ]


def test_spend_by_day() -> None:
    """Minutes of a day add up; what has no price adds nothing."""
    assert by_day([(0, 5), (DAY_MS - 60_000, 6), (DAY_MS, None), (DAY_MS, 7)]) == {0: 11, 1: 7}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"amount_nusd": 0}, "budget b: amount = 0: must be above 0"),
        ({"scope": "city"}, "budget b: scope = 'city': must be one of all, tenant, team, model"),
        ({"scope": "team"}, "budget b: of = None: must name one tenant"),
        ({"of": "a"}, "budget b: of = 'a': must name one tenant"),
        ({"days": 0}, "budget b: days = 0: must be from 1 to 366"),
    ],
)
def test_a_budget_that_cannot_be(wrong: dict[str, Any], told: str) -> None:
    """Refused with what it must be."""
    with pytest.raises(ConfigError, match=told):
        Budget(**({"name": "b", "amount_nusd": 1} | wrong))


def test_a_level_that_cannot_be() -> None:
    """A share above 0, soft or hard."""
    with pytest.raises(ConfigError, match=r"share = 0\.0: must be above 0"):
        Level(0)
    with pytest.raises(ConfigError, match="kind = 'wet': must be soft or hard"):
        Level(1, "wet")
