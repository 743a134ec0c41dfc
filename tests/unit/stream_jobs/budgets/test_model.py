"""Budgets and rules of unusual days: their periods, what they cover, and what cannot be one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from schemas.errors import ConfigError
from stream_jobs.budgets.model import Budget, Level, Unusual


def ms(year: int, month: int, day: int) -> int:
    return round(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1_000


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


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"amount_nusd": 0}, "budget b: amount = 0: must be above 0"),
        ({"scope": "city"}, "budget b: scope = 'city': must be one of all, tenant, team, model"),
        ({"scope": "team"}, "budget b: of = None: must name one tenant"),
        ({"of": "a"}, "budget b: of = 'a': must name one tenant"),
        ({"days": 0}, "budget b: days = 0: must be from 1 to 366"),
    ],
)
def test_a_budget_that_cannot_be(wrong: dict[str, Any], text: str) -> None:
    """Refused with what it must be."""
    with pytest.raises(ConfigError, match=text):
        Budget(**({"name": "b", "amount_nusd": 1} | wrong))


def test_a_level_that_cannot_be() -> None:
    """A share above 0, soft or hard."""
    with pytest.raises(ConfigError, match=r"share = 0\.0: must be above 0"):
        Level(0)
    with pytest.raises(ConfigError, match="kind = 'wet': must be soft or hard"):
        Level(1, "wet")


def test_a_rule_is_known_by_its_share() -> None:
    """As it stands in the labels of an alert."""
    assert [Unusual("all", share, 1).level for share in (2_000_000, 1_505_000)] == ["unusual 200%", "unusual 150.5%"]


@pytest.mark.parametrize(
    ("each", "share_ppm", "least_nusd", "key"),
    [("team", 2_000_000, 1, "each"), ("all", 1_000_000, 1, "above"), ("all", 10_000_001, 1, "above"),
     ("all", 2_000_000, 0, "at_least")],
    ids=["of nobody known", "no more than usual", "beyond the bound", "any sum"],
)  # fmt: skip
def test_a_rule_that_cannot_be(each: str, share_ppm: int, least_nusd: int, key: str) -> None:
    """Refused with the key that is wrong."""
    with pytest.raises(ConfigError, match=f"unusual: {key}"):
        Unusual(each, share_ppm, least_nusd)
