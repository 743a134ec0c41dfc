"""Money as signals: one for each (budget, level, period) that is crossed, and one for each unusual day of a tenant,
a model or all, emitted again every minute while it holds.

Nothing joins such a signal and it joins nothing: it is a matter of money, no cause of anything else. Its rule is
``budget`` (a soft level is a warning, a hard one critical) or ``spend`` (a warning). It is news once: nobody is
reminded of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from schemas.limits import DAY_MS, MINUTE_MS
from stream_jobs.alerts.signals import Level, Rank, Signal
from stream_jobs.budgets.model import PPM, Budgets
from stream_jobs.budgets.spend import Spend
from stream_jobs.budgets.unusual_days import Day, DayKey, UnusualDays
from stream_jobs.budgets.watch import Crossed, Key, Watch
from stream_jobs.insight.frame import Labels

RULE = "budget"
UNUSUAL = "spend"
RULES = (RULE, UNUSUAL)
NO_BUDGETS = Budgets()
SEVERITIES = {"soft": "warning", "hard": "critical"}
"""By kind of level."""
NEVER_MS = 1_000 * DAY_MS
"""Longer than any period."""
_NUSD = 10**9
_ADVICE = (
    "see who spends it with `fleetpulse report cost --budgets FILE`; limit the spender, or raise the budget in its file"
)
_DAY_ADVICE = "see what it was spent for with `fleetpulse report cost --last 24h`; where it is to stay so, do nothing"


class Spending:
    """What was spent, which levels of which budgets hold, and which days are unusual."""

    def __init__(self, budgets: Budgets = NO_BUDGETS) -> None:
        self.spend = Spend(budgets)
        self.watch = Watch(budgets)
        self.unusual = UnusualDays(budgets.unusual)
        self.judged_ms = 0

    def signals(self, now_ms: int) -> list[Signal]:
        """Of the levels that hold now or held until now; once a minute, else none."""
        if now_ms // MINUTE_MS <= self.judged_ms // MINUTE_MS:
            return []
        self.judged_ms = now_ms
        crossed, ended = self.watch.judge(self.spend, now_ms)
        days, over = self.unusual.judge(self.spend, now_ms)
        return [
            *(_fires(one, now_ms) for one in crossed),
            *(_ends(key, at_ms) for key, at_ms in ended),
            *(_day_fires(one, now_ms) for one in days),
            *(_day_ends(key, at_ms) for key, at_ms in over),
        ]

    def evidence(self, rule: str, labels: Mapping[str, str], now_ms: int) -> dict[str, Any]:
        """Where the budget, or the day, of an alert with these labels stands; empty where it is in the file no more."""
        if rule == UNUSUAL:
            day = self.unusual.stands(_day_key(labels), self.spend, now_ms)
            return {} if day is None else {"spend": _day_evidence(day)}
        key = Key(labels["budget"], labels["level"], _at_ms(labels["period"]))
        found = self.watch.stands(key, self.spend, now_ms)
        return {} if found is None else {"budget": _crossed_evidence(found)}

    def dump(self) -> dict[str, Any]:
        """As plain values."""
        held = {"held": self.watch.dump(), "unusual": self.unusual.dump()}
        return {"judged_ms": self.judged_ms, **held, "spend": self.spend.dump()}

    def load(self, found: Mapping[str, Any]) -> None:
        self.judged_ms = found["judged_ms"]
        self.watch.load(found["held"])
        self.unusual.load(found["unusual"])
        self.spend.load(found["spend"])


def _key(key: Key) -> Labels:
    return (("budget", key.budget), ("level", key.level), ("period", _day(key.start_ms)))


def _firing(rule: str, key: Labels, severity: str, since_ms: int, now_ms: int, **more: Any) -> Signal:
    labels = {**dict(key), **more.pop("scope", {})}
    about = rule, rule, key, labels, Level.BUDGET, Rank.FLEET, 0, severity
    return Signal(*about, since_ms, now_ms, True, unit="USD", count=1, renotify_ms=NEVER_MS, **more)


def _ended(rule: str, key: Labels, severity: str, at_ms: int) -> Signal:
    return Signal(rule, rule, key, dict(key), Level.BUDGET, Rank.FLEET, 0, severity, at_ms, at_ms, False)


def _fires(one: Crossed, now_ms: int) -> Signal:
    amount = one.stands.forecast_nusd if one.level.ahead else one.stands.spent_nusd
    return _firing(
        RULE,
        _key(one.key),
        SEVERITIES[one.level.kind],
        one.since_ms,
        now_ms,
        scope={} if one.budget.of is None else {one.budget.scope: one.budget.of},
        value=(amount or 0) / _NUSD,
        high=one.budget.amount_nusd * one.level.share_ppm // PPM / _NUSD,
        note="" if one.known_ms <= one.stands.start_ms else f"spend is known from {_day(one.known_ms)} on",
        summary=_summary(one),
        advice=_ADVICE,
    )


def _ends(key: Key, at_ms: int) -> Signal:
    return _ended(RULE, _key(key), SEVERITIES[key.level.split(" ")[0]], at_ms)


def _day_labels(key: DayKey) -> Labels:
    named = () if key.each == "all" else ((key.each, key.name),)
    return (("level", key.level), ("period", _day(key.day * DAY_MS)), *named)


def _day_key(labels: Mapping[str, str]) -> DayKey:
    each = next((each for each in ("tenant", "model") if each in labels), "all")
    return DayKey(each, labels.get(each, ""), labels["level"], _at_ms(labels["period"]) // DAY_MS)


def _day_fires(one: Day, now_ms: int) -> Signal:
    whose = "all" if one.key.each == "all" else f"{one.key.each} {one.key.name}"
    spent, usual = dollars(one.spent_nusd), dollars(one.usual_nusd)
    return _firing(
        UNUSUAL,
        _day_labels(one.key),
        "warning",
        one.since_ms,
        now_ms,
        value=one.spent_nusd / _NUSD,
        high=one.bound_nusd / _NUSD,
        summary=f"Spend of {whose} on {_day(one.key.day * DAY_MS)}: {spent} so far, usual is {usual} a day",
        advice=_DAY_ADVICE,
    )


def _day_ends(key: DayKey, at_ms: int) -> Signal:
    return _ended(UNUSUAL, _day_labels(key), "warning", at_ms)


def _day_evidence(one: Day) -> dict[str, Any]:
    names = ("spent_nusd", "usual_nusd", "bound_nusd", "days", "since_ms")
    return {**one.key._asdict(), **{name: getattr(one, name) for name in names}}


def _summary(one: Crossed) -> str:
    stands, amount = one.stands, dollars(one.budget.amount_nusd)
    period = f"{_day(stands.start_ms)} to {_day(stands.end_ms - 1)}; level {one.level.name}"
    if one.level.ahead and stands.forecast_nusd is not None:
        gone = "" if stands.exhausted_ms is None else f", used up by {_moment(stands.exhausted_ms)}"
        ends = dollars(stands.forecast_nusd)
        return f"Budget {one.budget.name} is expected to end at {ends} of {amount}{gone} ({period})"
    share = stands.spent_nusd * 100 / one.budget.amount_nusd
    return f"Budget {one.budget.name}: {dollars(stands.spent_nusd)} of {amount} are spent, {share:.1f} % ({period})"


def _crossed_evidence(one: Crossed) -> dict[str, Any]:
    scope = {"scope": one.budget.scope, "of": one.budget.of, "amount_nusd": one.budget.amount_nusd}
    level = {"share_ppm": one.level.share_ppm, "kind": one.level.kind, "ahead": one.level.ahead}
    return {**asdict(one.stands), **scope, "level": level, "known_ms": one.known_ms}


def dollars(nusd: int) -> str:
    """Such as ``1,234.50 USD``; of less than a dollar four digits behind the point."""
    return f"{nusd / _NUSD:,.{2 if abs(nusd) >= _NUSD else 4}f} USD"


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d")


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _at_ms(day: str) -> int:
    return round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1_000)
