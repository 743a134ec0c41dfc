"""Budgets in a report: spend by day from the database, where each stands, which levels it crossed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from schemas.limits import DAY_MS
from stream_jobs.budgets.forecast import SEASON, SEASONS_MAX
from stream_jobs.budgets.load import Budgets
from stream_jobs.budgets.standing import Budget, crossings, standing

Rows = Sequence[Mapping[str, Any]]

HISTORY_MS = SEASONS_MAX * SEASON * DAY_MS
"""So far back a forecast looks."""


def look_back_ms(budget: Budget, now_ms: int) -> int:
    """From when on the spend must be known: the period's begin, and what the forecast learns from."""
    return min(budget.period(now_ms)[0], (now_ms - HISTORY_MS) // DAY_MS * DAY_MS)


def standings(budgets: Budgets, days: Rows, now_ms: int) -> list[dict[str, Any]]:
    """Where every budget stands; ``days`` are rows of ``cost_by_day``."""
    return [_standing(one, budgets.teams, days, now_ms) for one in budgets.budgets]


def _standing(
    budget: Budget, teams: Mapping[str, str], days: Sequence[Mapping[str, Any]], now_ms: int
) -> dict[str, Any]:
    spend: dict[int, int] = {}
    for row in days:
        if row["cost_nusd"] is not None and budget.covers(row["tenant"], row["model"], teams):
            spend[row["day"]] = spend.get(row["day"], 0) + row["cost_nusd"]
    stands = standing(budget, spend, now_ms)
    crossed = [
        {"share_ppm": one.level.share_ppm, "kind": one.level.kind, "ahead": one.level.ahead, "key": one.key}
        for one in crossings(budget, stands)
    ]
    scope = {"scope": budget.scope, "of": budget.of, "amount_nusd": budget.amount_nusd}
    return {**asdict(stands), **scope, "crossed": crossed}
