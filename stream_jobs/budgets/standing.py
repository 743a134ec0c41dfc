"""Where a budget stands: what is spent of it, what will be, when it is used up, and which levels are crossed.

A level is crossed by what was spent, or ahead of time when the forecast says that the period will end above it. Amounts
are compared as whole nano-dollars, so that nothing depends on rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from schemas.limits import DAY_MS
from stream_jobs.budgets.forecast import Forecast, forecast
from stream_jobs.budgets.model import PPM, Budget, Level

_forecast = lru_cache(maxsize=4_096)(forecast)
"""Days that are over change rarely, and budgets are judged every minute."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A budget at a moment. ``forecast_*``: the whole period's spend, None without history enough.

    ``exhausted_ms``: when it is used up, by the forecast or in fact (then as if that day, or today so far, were spent
    evenly, the first one from the first bill on); None: not within the period, or not known.
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


def standing(budget: Budget, days_nusd: Mapping[int, int], now_ms: int, first_ms: int = 0) -> Standing:
    """Where a budget stands at ``now_ms``. ``days_nusd``: spend by number of the UTC day since the epoch, today so far.
    ``first_ms``: when the first bill began, where that is known.

    Days from the first one known up to yesterday are history, those without spend 0. Of today what is still to come
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
        used_up = _crossed_ms(budget.amount_nusd, days_nusd, (max(start, first_ms), now_ms))
    return Standing(budget.name, start, end, spent, budget.amount_nusd - spent, *outlook, used_up)


def crossings(budget: Budget, stands: Standing) -> list[tuple[str, Level]]:
    """Levels that are crossed, in their order, each under a key that is the same throughout the period."""
    return [
        (f"{budget.name}/{level.kind}/{'ahead' if level.ahead else 'spent'}/{level.share_ppm}/{stands.start_ms}", level)
        for level in budget.levels
        if crossed(budget, stands, level, level.share_ppm)
    ]


def crossed(budget: Budget, stands: Standing, level: Level, share_ppm: int) -> bool:
    """Whether the spend, or for levels ahead of time the forecast, has reached a share of the amount."""
    amount = stands.forecast_nusd if level.ahead else stands.spent_nusd
    return amount is not None and amount * PPM >= budget.amount_nusd * share_ppm


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


def _crossed_ms(amount: int, days_nusd: Mapping[int, int], span: tuple[int, int]) -> int:
    """When the amount was reached, between these moments; it was by the last one."""
    left, (from_ms, now_ms) = amount, span
    for day in range(from_ms // DAY_MS, now_ms // DAY_MS + 1):
        spent, begin_ms = days_nusd.get(day, 0), max(from_ms, day * DAY_MS)
        if spent >= left:
            lasted_ms = min((day + 1) * DAY_MS, now_ms) - begin_ms
            return begin_ms + (lasted_ms * left // spent if spent else 0)
        left -= spent
    return now_ms
