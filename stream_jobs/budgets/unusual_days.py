"""Days on which somebody spends far more than usual: a rule for every tenant or model, or for all, without an amount.

What is usual is the forecast of that day from the days before it (``stream_jobs.budgets.forecast``): the week repeated
along its trend, the mean of what there is below two weeks. A day is unusual as soon as what was spent of it is at or
above a share of that and at least so many dollars above it. Bills of the day count as they come, so a day of three
times the usual is notified when two thirds of it have passed under a rule of 200 %: never by a guess of the rest.

Not judged: a name in its first ``HISTORY_MIN`` days (there is nothing to compare with), and names that ``Spend`` keeps
no sums of. A day is judged for ``GRACE_MS`` after its end, beside the one that began, because its last bills come then.
What comes back depends on sums, rules and event time alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from schemas.limits import DAY_MS
from stream_jobs.budgets.forecast import SEASON, SEASONS_MAX, forecast
from stream_jobs.budgets.model import PPM, Unusual
from stream_jobs.budgets.spend import Spend
from stream_jobs.budgets.watch import GRACE_MS

HISTORY_MIN = SEASON
"""Days."""
_HISTORY_MAX = SEASON * SEASONS_MAX
_forecast = lru_cache(maxsize=8_192)(forecast)


class DayKey(NamedTuple):
    """Whose day: what is notified once. ``name`` is empty for all."""

    each: str
    name: str
    level: str
    day: int


@dataclass(frozen=True, slots=True)
class Day:
    """A day so far. ``usual_nusd`` is of the whole day, learnt from ``days``; ``since_ms``: when it was found."""

    key: DayKey
    spent_nusd: int
    usual_nusd: int
    bound_nusd: int
    days: int
    since_ms: int


class UnusualDays:
    """``held``: since when each unusual day is known."""

    def __init__(self, rules: tuple[Unusual, ...]) -> None:
        self._rules = rules
        self.held: dict[DayKey, int] = {}

    def judge(self, spend: Spend, now_ms: int) -> tuple[list[Day], list[tuple[DayKey, int]]]:
        """All that is unusual now, and what was and is no more, each with when it ended: its day did, or bills fell."""
        found = [one for rule in self._rules for one in self._of(rule, spend, now_ms)]
        before, self.held = self.held, {one.key: one.since_ms for one in found}
        ended = [(key, min(now_ms, (key.day + 1) * DAY_MS)) for key in before if key not in self.held]
        return found, ended

    def stands(self, key: DayKey, spend: Spend, now_ms: int) -> Day | None:
        """A day now, unusual or not; None where no rule has it or nothing is usual."""
        series = "" if key.each == "all" else key.each, key.name
        rules = [rule for rule in self._rules if (rule.each, rule.level) == (key.each, key.level)]
        return self._day(rules[0], key.name, spend.sums.get(series, {}), key.day, now_ms) if rules else None

    def _of(self, rule: Unusual, spend: Spend, now_ms: int) -> Iterator[Day]:
        scope = "" if rule.each == "all" else rule.each
        for day in dict.fromkeys(at_ms // DAY_MS for at_ms in (max(0, now_ms - GRACE_MS), now_ms)):
            for (of, name), days in spend.sums.items():
                if of != scope or days.get(day, 0) < rule.least_nusd:
                    continue
                one = self._day(rule, name, days, day, now_ms)
                if one is not None and one.spent_nusd >= one.bound_nusd:
                    yield one

    def _day(self, rule: Unusual, name: str, days: Mapping[int, int], day: int, now_ms: int) -> Day | None:
        first = max(min(days, default=day), day - _HISTORY_MAX)
        if day - first < HISTORY_MIN:
            return None
        ahead = _forecast(tuple(float(days.get(number, 0)) for number in range(first, day)), 1)
        assert ahead is not None, "there are days enough"
        usual = round(ahead.steps[0])
        bound = max(usual * rule.share_ppm // PPM, usual + rule.least_nusd)
        key = DayKey(rule.each, name, rule.level, day)
        since_ms = self.held.get(key, min(now_ms, (day + 1) * DAY_MS - 1))
        return Day(key, days.get(day, 0), usual, bound, day - first, since_ms)

    def dump(self) -> list[Any]:
        """As plain values."""
        return [[*key, since_ms] for key, since_ms in sorted(self.held.items())]

    def load(self, found: list[Any]) -> None:
        self.held = {DayKey(each, name, level, day): since_ms for each, name, level, day, since_ms in found}
