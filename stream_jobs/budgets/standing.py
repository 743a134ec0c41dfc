"""Budgets: what was spent of them, what will be, when they are used up, and which thresholds were crossed.

A budget is an amount for whatever of a tenant, team or model it names (or for all), in every calendar month (UTC) or
every so many days from a day on. Levels are shares of the amount: a *soft* one tells, a *hard* one is where whoever
enforces budgets should stop. A level is crossed by what was spent, or ahead of time when the forecast says that the
period will end above it. Each (budget, level, period) is told once, under an id that follows from these three, however
often it is asked; the amount is compared as whole nano-dollars, so that nothing depends on rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from schemas.errors import ConfigError
from schemas.limits import DAY_MS
from stream_jobs.budgets.forecast import Forecast, forecast

PPM = 1_000_000
SCOPES = ("all", "tenant", "team", "model")
KINDS = ("soft", "hard")
_EPOCH = date(1970, 1, 1)
_forecast = lru_cache(maxsize=4_096)(forecast)
"""Days that are over change rarely, and budgets are asked every minute."""


@dataclass(frozen=True, slots=True)
class Level:
    """``share_ppm`` of the amount; ``ahead``: crossed when the forecast of the period's end is above it."""

    share_ppm: int
    kind: str = "soft"
    ahead: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share_ppm <= 10 * PPM:
            raise ConfigError("share", self.share_ppm / PPM, "must be above 0 and at most 10 (1 is all of the budget)")
        if self.kind not in KINDS:
            raise ConfigError("kind", self.kind, "must be soft or hard")


LEVELS = (Level(500_000), Level(800_000), Level(PPM, ahead=True), Level(PPM, "hard"))


@dataclass(frozen=True, slots=True)
class Budget:
    """``days`` None: calendar months; else periods of so many days, one of which begins on ``since``."""

    name: str
    amount_nusd: int
    scope: str = "all"
    of: str | None = None
    days: int | None = None
    since: date = _EPOCH
    levels: tuple[Level, ...] = LEVELS

    def __post_init__(self) -> None:
        if self.amount_nusd <= 0:
            raise ConfigError(f"budget {self.name}: amount", self.amount_nusd, "must be above 0")
        if self.scope not in SCOPES:
            raise ConfigError(f"budget {self.name}: scope", self.scope, f"must be one of {', '.join(SCOPES)}")
        if (self.of is None) != (self.scope == "all"):
            raise ConfigError(f"budget {self.name}: of", self.of, "must name one tenant, team or model; none for all")
        if self.days is not None and not 1 <= self.days <= 366:
            raise ConfigError(f"budget {self.name}: days", self.days, "must be from 1 to 366")

    def covers(self, tenant: str | None, model: str | None, teams: Mapping[str, str]) -> bool:
        """Whether costs of this tenant and model count; ``teams``: team by tenant."""
        named = {"tenant": tenant, "model": model, "team": teams.get(tenant or "")}
        return self.scope == "all" or named[self.scope] == self.of

    def period(self, at_ms: int) -> tuple[int, int]:
        """The period [start, end) in ms that holds a moment."""
        day = _EPOCH + timedelta(days=at_ms // DAY_MS)
        if self.days is None:
            first = day.replace(day=1)
            return _ms(first), _ms((first + timedelta(days=31)).replace(day=1))
        first = day - timedelta(days=(day - self.since).days % self.days)
        return _ms(first), _ms(first + timedelta(days=self.days))


@dataclass(frozen=True, slots=True)
class Standing:
    """A budget at a moment. ``forecast_*``: the whole period's spend, None without history enough.

    ``exhausted_ms``: when it is used up, by the forecast or in fact (then to the day: the end of it, or now); None: not
    within the period, or not known.
    """

    budget: str
    start_ms: int
    end_ms: int
    spent_nusd: int
    left_nusd: int
    forecast_nusd: int | None
    forecast_low_nusd: int | None
    forecast_high_nusd: int | None
    exhausted_ms: int | None


@dataclass(frozen=True, slots=True)
class Crossing:
    """A level that was crossed; ``key`` is the same for every time this is found out in this period."""

    key: str
    budget: str
    level: Level
    start_ms: int
    spent_nusd: int
    forecast_nusd: int | None


def standing(budget: Budget, days_nusd: Mapping[int, int], now_ms: int) -> Standing:
    """Where a budget stands at ``now_ms``. ``days_nusd``: spend by number of the UTC day since the epoch, today so far.

    Days from the first one known up to yesterday are history, those without a figure 0. Of today what is still to come
    is the forecast's share of the day that is left.
    """
    start, end = budget.period(now_ms)
    today = now_ms // DAY_MS
    spent = sum(amount for day, amount in days_nusd.items() if start // DAY_MS <= day <= today)
    history = tuple(float(days_nusd.get(day, 0)) for day in range(min(days_nusd, default=today), today))
    ahead = _forecast(history, end // DAY_MS - today)
    done = (now_ms % DAY_MS) / DAY_MS
    outlook = _outlook(spent, ahead, done)
    used_up = _exhausted(budget.amount_nusd, spent, ahead, now_ms)
    if spent >= budget.amount_nusd:
        used_up = min(now_ms, _crossed_ms(budget.amount_nusd, days_nusd, start, today))
    return Standing(budget.name, start, end, spent, budget.amount_nusd - spent, *outlook, used_up)


def crossings(budget: Budget, stands: Standing, told: frozenset[str] = frozenset()) -> list[Crossing]:
    """Levels that were crossed and whose key is not among those ``told``, in their order."""
    found = [_crossing(budget, stands, level) for level in budget.levels if _reached(budget, stands, level)]
    return [one for one in found if one.key not in told]


def _reached(budget: Budget, stands: Standing, level: Level) -> bool:
    amount = stands.forecast_nusd if level.ahead else stands.spent_nusd
    return amount is not None and amount * PPM >= budget.amount_nusd * level.share_ppm


def _crossing(budget: Budget, stands: Standing, level: Level) -> Crossing:
    when = "ahead" if level.ahead else "spent"
    key = f"{budget.name}/{level.kind}/{when}/{level.share_ppm}/{stands.start_ms}"
    return Crossing(key, budget.name, level, stands.start_ms, stands.spent_nusd, stands.forecast_nusd)


def _outlook(spent: int, ahead: Forecast | None, done: float) -> tuple[int | None, int | None, int | None]:
    """Expected, low and high spend of the whole period."""
    if ahead is None:
        return None, None, None
    gone = ahead.steps[0] * done
    total, low, high = (spent + max(0, round(part - gone)) for part in (ahead.total, ahead.low, ahead.high))
    return total, low, high


def _exhausted(amount: int, spent: int, ahead: Forecast | None, now_ms: int) -> int | None:
    """When the rest is used up if every day is spent evenly; None: not within the period, or no forecast."""
    if ahead is None:
        return None
    left, at_ms = float(amount - spent), now_ms
    for step in ahead.steps:
        until_ms = at_ms - at_ms % DAY_MS + DAY_MS
        coming = step * (until_ms - at_ms) / DAY_MS
        if coming >= left and coming > 0:
            return at_ms + max(0, round((until_ms - at_ms) * left / coming))
        left, at_ms = left - coming, until_ms
    return None


def _crossed_ms(amount: int, days_nusd: Mapping[int, int], start_ms: int, today: int) -> int:
    """End of the day in which the amount was reached."""
    total = 0
    for day in range(start_ms // DAY_MS, today):
        total += days_nusd.get(day, 0)
        if total >= amount:
            return (day + 1) * DAY_MS
    return (today + 1) * DAY_MS


def _ms(day: date) -> int:
    return round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000


def by_day(rows: Sequence[tuple[int, int | None]]) -> dict[int, int]:
    """Spend by day of (minute_ms, nano-dollars); what has no price is not counted."""
    days: dict[int, int] = {}
    for minute_ms, amount in rows:
        day = minute_ms // DAY_MS
        days[day] = days.get(day, 0) + (amount or 0)
    return days
