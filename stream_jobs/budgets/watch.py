"""Which levels of which budgets are crossed now: once each in a period, until it ends, or until they no longer are.

A level that was crossed by what was spent holds while the spend is at or above it: until the period ends, the budget is
raised, or bills are corrected below. One that was crossed by the forecast holds until the forecast is below
``LEAVE_PPM`` of it, because a forecast moves every day. Bills of the last minutes of a period come after its end; so it
is judged for ``GRACE_MS`` longer, beside the one that began, and what holds then ends with it.

Time is event time, given by the caller; what comes back depends on sums, budgets and that time alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemas.limits import MINUTE_MS
from stream_jobs.budgets.model import PPM, Budget, Budgets, Level
from stream_jobs.budgets.spend import Spend
from stream_jobs.budgets.standing import Standing, crossed, standing

GRACE_MS = 30 * MINUTE_MS
"""The longest request, and as long as a bill that is final may still change: 26 minutes."""
LEAVE_PPM = 950_000


class Key(NamedTuple):
    """One level of one budget in one period: what is notified once."""

    budget: str
    level: str
    start_ms: int


@dataclass(frozen=True, slots=True)
class Held:
    """``since_ms``: when it was found to be crossed. It ends with its period at the latest, ``until_ms``."""

    since_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Crossed:
    """A level that holds now. ``known_ms``: from which day on spend is known."""

    key: Key
    budget: Budget
    level: Level
    stands: Standing
    since_ms: int
    known_ms: int


class Watch:
    """``held`` by what is notified once; budgets and sums are the caller's."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self.held: dict[Key, Held] = {}

    def judge(self, spend: Spend, now_ms: int) -> tuple[list[Crossed], list[tuple[Key, int]]]:
        """All that holds now, and what held before and no longer does, each with when it ended."""
        crossed = [one for budget in self._budgets.budgets for one in self._of(budget, spend, now_ms)]
        before, self.held = self.held, {}
        for one in crossed:
            self.held[one.key] = before.get(one.key) or Held(one.since_ms, max(one.stands.end_ms, now_ms))
        ended = [(key, min(now_ms, held.until_ms)) for key, held in before.items() if key not in self.held]
        return crossed, ended

    def stands(self, key: Key, spend: Spend, now_ms: int) -> Crossed | None:
        """A level now, crossed or not; None where no budget has it."""
        for budget in self._budgets.budgets:
            for level in budget.levels if budget.name == key.budget else ():
                if level.name == key.level:
                    return self._at(budget, level, self._standing(budget, spend, key.start_ms, now_ms), spend, now_ms)
        return None

    def _of(self, budget: Budget, spend: Spend, now_ms: int) -> Iterator[Crossed]:
        """The levels of a budget that hold, in this period and in one that has just ended."""
        starts = dict.fromkeys(budget.period(at_ms)[0] for at_ms in (max(0, now_ms - GRACE_MS), now_ms))
        for start_ms in starts:
            stands = self._standing(budget, spend, start_ms, now_ms)
            for level in budget.levels:
                one = self._at(budget, level, stands, spend, now_ms)
                leaving = level.ahead and one.key in self.held
                if crossed(budget, stands, level, level.share_ppm * LEAVE_PPM // PPM if leaving else level.share_ppm):
                    yield one

    def _standing(self, budget: Budget, spend: Spend, start_ms: int, now_ms: int) -> Standing:
        end_ms = budget.period(start_ms)[1]
        return standing(budget, spend.of(budget, self._budgets.teams), min(now_ms, end_ms - 1))

    def _at(self, budget: Budget, level: Level, stands: Standing, spend: Spend, now_ms: int) -> Crossed:
        key = Key(budget.name, level.name, stands.start_ms)
        held = self.held.get(key)
        since_ms = min(now_ms, stands.end_ms - 1) if held is None else held.since_ms
        return Crossed(key, budget, level, stands, since_ms, now_ms if spend.since_ms is None else spend.since_ms)

    def dump(self) -> list[Any]:
        """As plain values."""
        return [[*key, held.since_ms, held.until_ms] for key, held in sorted(self.held.items())]

    def load(self, found: list[Any]) -> None:
        self.held = {Key(name, level, start): Held(since, until) for name, level, start, since, until in found}
