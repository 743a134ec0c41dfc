"""Budgets and rules of unusual days, as data.

A budget is an amount for one tenant, team or model (or for all), in every calendar month (UTC) or every so many days
from a day on. Levels are shares of the amount: a *soft* one warns, a *hard* one is where those who enforce budgets
should stop. A rule of unusual days needs no amount.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from schemas.errors import ConfigError
from schemas.limits import DAY_MS

PPM = 1_000_000
SCOPES = ("all", "tenant", "team", "model")
KINDS = ("soft", "hard")
EACH = ("all", "tenant", "model")
_EPOCH = date(1970, 1, 1)


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

    @property
    def name(self) -> str:
        """Such as ``soft 80%`` or ``soft 100% ahead``."""
        return f"{self.kind} {self.share_ppm / 10_000:g}%{' ahead' * self.ahead}"


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


def _ms(day: date) -> int:
    return round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000


@dataclass(frozen=True, slots=True)
class Unusual:
    """A rule for days on which a tenant, a model or all spend far more than usual.

    ``share_ppm`` of what is usual, and ``least_nusd`` above it, are both to be reached.
    """

    each: str
    share_ppm: int
    least_nusd: int

    def __post_init__(self) -> None:
        if self.each not in EACH:
            raise ConfigError("unusual: each", self.each, f"must be one of {', '.join(EACH)}")
        if not PPM < self.share_ppm <= 10 * PPM:
            raise ConfigError("unusual: above", self.share_ppm / PPM, "must be above 1 and at most 10 times the usual")
        if self.least_nusd <= 0:
            raise ConfigError("unusual: at_least", self.least_nusd, "must be above 0")

    @property
    def level(self) -> str:
        """Such as ``unusual 200%``."""
        return f"unusual {self.share_ppm / 10_000:g}%"


@dataclass(frozen=True, slots=True)
class Budgets:
    """Everything in a file of budgets. ``teams``: team by tenant; ``unusual``: rules of unusual days."""

    budgets: tuple[Budget, ...] = ()
    teams: Mapping[str, str] = field(default_factory=dict)
    unusual: tuple[Unusual, ...] = ()
