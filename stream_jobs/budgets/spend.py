"""What was spent, by day: sums for all, for every tenant and for every model, added up from differences.

All budgets are made of these three, those of teams too, so a budget that is new finds what was spent before it was
written. ``DAYS_KEPT`` days are kept of all and of ``names_max`` tenants and models, first come (those that budgets name
always); what others spend is in the sum for all alone, and ``unnamed`` counts how often that was so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.limits import DAY_MS
from stream_jobs.budgets.model import Budget, Budgets

DAYS_KEPT = 400
"""The longest period, and a month behind it."""
NAMES_MAX = 5_000

Series = tuple[str, str]
"""Scope (``tenant`` or ``model``) and name; of all two empty words."""
ALL: Series = ("", "")


class Spend:
    """``sums`` in nano-dollars by series and number of the UTC day. ``budgets`` say which names always count."""

    def __init__(self, budgets: Budgets, names_max: int = NAMES_MAX) -> None:
        always = [series for one in budgets.budgets for series in series_of(one, budgets.teams)]
        self._always = frozenset([ALL, *always])
        self._names_max = names_max
        self.sums: dict[Series, dict[int, int]] = {}
        self.newest = 0
        self.unnamed = 0

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take rows of ``spend/1``."""
        for row in rows:
            day, amount = row["day_ms"] // DAY_MS, row["cost_nusd"]
            for series in (ALL, ("tenant", row["tenant"]), ("model", row["model"])):
                if series[1] is not None:
                    self._add(series, day, amount)
            if day > self.newest:
                self._forget(day)

    def _add(self, series: Series, day: int, amount: int) -> None:
        days = self.sums.get(series)
        if days is None:
            if series not in self._always and len(self.sums) >= self._names_max:
                self.unnamed += 1
                return
            days = self.sums[series] = {}
        days[day] = days.get(day, 0) + amount

    def _forget(self, newest: int) -> None:
        self.newest = newest
        for series, days in list(self.sums.items()):
            for day in [day for day in days if day <= newest - DAYS_KEPT]:
                del days[day]
            if not days:
                del self.sums[series]

    def of(self, budget: Budget, teams: Mapping[str, str]) -> dict[int, int]:
        """Spend that counts for a budget, by day."""
        found: dict[int, int] = {}
        for series in series_of(budget, teams):
            for day, amount in self.sums.get(series, {}).items():
                found[day] = found.get(day, 0) + amount
        return found

    @property
    def since_ms(self) -> int | None:
        """The first day of which anything is known; None: nothing is."""
        days = self.sums.get(ALL)
        return min(days) * DAY_MS if days else None

    def dump(self) -> dict[str, Any]:
        """As plain values; series in the order in which they came, which decides who keeps a name."""
        sums = [[*series, sorted(days.items())] for series, days in self.sums.items()]
        return {"newest": self.newest, "unnamed": self.unnamed, "sums": sums}

    def load(self, found: Mapping[str, Any]) -> None:
        self.newest, self.unnamed = found["newest"], found["unnamed"]
        self.sums = {(scope, name): dict(days) for scope, name, days in found["sums"]}


def series_of(budget: Budget, teams: Mapping[str, str]) -> tuple[Series, ...]:
    """The series whose sum a budget is about."""
    if budget.scope == "team":
        return tuple(("tenant", tenant) for tenant, team in sorted(teams.items()) if team == budget.of)
    return (ALL,) if budget.of is None else ((budget.scope, budget.of),)
