"""Budgets and months in a report: spend by day from the database, where each stands, what it will be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from schemas.limits import DAY_MS
from stream_jobs.budgets.forecast import SEASON, SEASONS_MAX
from stream_jobs.budgets.model import Budget, Budgets
from stream_jobs.budgets.standing import Standing, crossings, standing

Rows = Sequence[Mapping[str, Any]]

HISTORY_MS = SEASONS_MAX * SEASON * DAY_MS
"""So far back a forecast looks."""


def look_back_ms(budget: Budget, now_ms: int) -> int:
    """From when on the spend must be known: the period's begin, and what the forecast learns from."""
    return min(budget.period(now_ms)[0], history_ms(now_ms))


def history_ms(now_ms: int) -> int:
    """The begin of the days that a forecast learns from; they hold the whole month so far."""
    return (now_ms - HISTORY_MS) // DAY_MS * DAY_MS


def standings(budgets: Budgets, days: Rows, now_ms: int) -> list[dict[str, Any]]:
    """Where every budget stands; ``days`` are rows of ``cost_by_day``."""
    return [_standing(one, budgets.teams, days, now_ms) for one in budgets.budgets]


TENANTS_MAX = 5
"""Those that spent most this month have a line of their own."""
_NO_LIMIT = 2**62


def months(days: Rows, now_ms: int) -> list[dict[str, Any]]:
    """What the calendar month of ``now_ms`` will have cost at its end: all of it, and tenants that spent most so far.

    ``days`` are rows of ``cost_by_day``. The standing of a month, without an amount.
    """
    everybody = Budget("", _NO_LIMIT)
    begin = everybody.period(now_ms)[0] // DAY_MS
    spent: dict[str, int] = {}
    for row in days:
        if row["tenant"] and row["day"] >= begin:
            spent[row["tenant"]] = spent.get(row["tenant"], 0) + (row["cost_nusd"] or 0)
    most = sorted(spent, key=lambda tenant: (-spent[tenant], tenant))[:TENANTS_MAX]
    listed = [everybody, *(Budget("", _NO_LIMIT, "tenant", tenant) for tenant in most)]
    return [{"tenant": one.of, **_month(standing(one, _spend(one, {}, days), now_ms))} for one in listed]


def _month(stands: Standing) -> dict[str, Any]:
    names = ("start_ms", "end_ms", "spent_nusd", "forecast_nusd", "forecast_low_nusd", "forecast_high_nusd")
    return {name: getattr(stands, name) for name in names}


def _spend(budget: Budget, teams: Mapping[str, str], days: Rows) -> dict[int, int]:
    """By day, what the budget covers and has a price."""
    spend: dict[int, int] = {}
    for row in days:
        if row["cost_nusd"] is not None and budget.covers(row["tenant"], row["model"], teams):
            spend[row["day"]] = spend.get(row["day"], 0) + row["cost_nusd"]
    return spend


def _standing(
    budget: Budget, teams: Mapping[str, str], days: Sequence[Mapping[str, Any]], now_ms: int
) -> dict[str, Any]:
    first_ms = min((row.get("first_ms") or 0 for row in days), default=0)
    stands = standing(budget, _spend(budget, teams, days), now_ms, first_ms)
    crossed = [
        {"share_ppm": level.share_ppm, "kind": level.kind, "ahead": level.ahead, "key": key}
        for key, level in crossings(budget, stands)
    ]
    scope = {"scope": budget.scope, "of": budget.of, "amount_nusd": budget.amount_nusd}
    return {**asdict(stands), **scope, "crossed": crossed}
