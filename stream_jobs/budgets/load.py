"""Budget files: their shape as models, every mistake with its line. Only ``load`` touches the disk.

A file is a mapping of ``teams`` (tenants by team), ``budgets`` and ``unusual``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, model_validator

from stream_jobs.budgets.model import EACH, KINDS, LEVELS, PPM, SCOPES, Budget, Budgets, Level, Unusual
from stream_jobs.yaml_files import fields
from stream_jobs.yaml_files.errors import WrongError, quoted
from stream_jobs.yaml_files.sections import Section, read, validated
from stream_jobs.yaml_files.tree import Word, parse

BUDGETS_MAX = 1_000
_NAMED = tuple(scope for scope in SCOPES if scope != "all")
_DOLLARS = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))? USD", re.ASCII)
_SHARE = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?%", re.ASCII)


def share(above: int, must: str) -> PlainValidator:
    """Validates a share like ``80%`` as ppm, above a bound and at most 1000 %."""

    def ppm(text: str) -> int | None:
        found = _SHARE.fullmatch(text)
        share_ppm = int(found[1]) * 10_000 + int((found[2] or "").ljust(4, "0")) if found else 0
        return share_ppm if above < share_ppm <= 10 * PPM else None

    return fields.parsed(ppm, f"must be {must}, at most 1000%")


def _dollars(text: str) -> int | None:
    """Nano-dollars of ``500 USD`` or ``0.25 USD``, exactly."""
    found = _DOLLARS.fullmatch(" ".join(text.split()))
    return (int(found[1]) * 10**9 + int((found[2] or "").ljust(9, "0")) if found else 0) or None


Dollars = Annotated[int, fields.parsed(_dollars, "must be like `500 USD`, above 0, below a billion")]


def _with_days(since: date, info: ValidationInfo) -> date:
    if info.data.get("days", 0) is None:
        raise ValueError("needs `days` beside it: how long a period is")
    return since


Named = Annotated[Word | None, PlainValidator(fields.word)]
"""Written, it names somebody: null is no budget for all."""


class LevelEntry(Section):
    """A level of a budget."""

    at: Annotated[int, share(0, "a share of the budget like 80%, above 0")]
    kind: Annotated[str, fields.choice(KINDS)] = "soft"
    ahead: fields.Flag = False

    def level(self) -> Level:
        """As data."""
        return Level(self.at, self.kind, self.ahead)


class BudgetEntry(Section):
    """A budget."""

    name: fields.Sentence
    amount: Dollars
    tenant: Named = None
    team: Named = None
    model: Named = None
    days: Annotated[int | None, fields.whole(1, 366)] = None
    since: Annotated[
        date | None, fields.parsed(date.fromisoformat, "must be a day like 2026-01-05"), AfterValidator(_with_days)
    ] = None
    levels: Annotated[
        fields.OneOrMore[LevelEntry], fields.once(lambda one, _: one.level(), "a level is notified once")
    ] = ()

    @model_validator(mode="after")
    def _of_one(self) -> Self:
        named = [scope for scope in _NAMED if getattr(self, scope) is not None]
        if len(named) > 1:
            raise ValueError(f"a budget is for one of {', '.join(_NAMED)}; this one names {' and '.join(named)}")
        return self

    def budget(self) -> Budget:
        """As data."""
        scope = next((scope for scope in _NAMED if getattr(self, scope) is not None), "all")
        of = None if scope == "all" else str(getattr(self, scope))
        levels = tuple(one.level() for one in self.levels) if "levels" in self.model_fields_set else LEVELS
        since = {} if self.since is None else {"since": self.since}
        return Budget(self.name, self.amount, scope, of, self.days, levels=levels, **since)


class UnusualEntry(Section):
    """A rule of unusual days."""

    each: Annotated[str, fields.choice(EACH)]
    above: Annotated[int, share(PPM, "like 200%: of the usual, above 100%")]
    at_least: Dollars

    def unusual(self) -> Unusual:
        """As data."""
        return Unusual(self.each, self.above, self.at_least)


def _one_team_each(teams: Mapping[str, tuple[Word, ...]]) -> Mapping[str, tuple[Word, ...]]:
    team_of: dict[Word, str] = {}
    wrong = []
    for team, tenant in ((team, tenant) for team, tenants in teams.items() for tenant in tenants):
        if tenant in team_of:
            wrong.append((tenant.at, f"tenant {quoted(tenant)} is in team {quoted(team_of[tenant])} already"))
        team_of[tenant] = team
    if wrong:
        raise WrongError(*wrong)
    return teams


def _known_teams(budgets: tuple[BudgetEntry, ...], info: ValidationInfo) -> tuple[BudgetEntry, ...]:
    teams = info.data.get("teams", {})
    wrong = [
        (one.team.at, f"team {quoted(one.team)} has no tenants; list them under teams")
        for one in budgets
        if one.team is not None and "teams" in info.data and not teams.get(one.team)
    ]
    return fields.none_wrong(budgets, wrong)


class BudgetFile(Section):
    """The whole file."""

    teams: Annotated[Mapping[str, fields.OneOrMore[fields.Text]], AfterValidator(_one_team_each)] = Field(
        default_factory=dict
    )
    budgets: Annotated[
        tuple[BudgetEntry, ...],
        fields.up_to(BUDGETS_MAX),
        fields.some("{name: ..., amount: 500 USD}"),
        fields.once(lambda one, _: one.name, "give each its own name"),
        AfterValidator(_known_teams),
    ] = ()
    unusual: Annotated[
        tuple[UnusualEntry, ...],
        fields.some("{each: tenant, above: 200%, at_least: 50 USD}"),
        fields.once(lambda one, _: (one.each, one.above), "each is notified once"),
    ] = ()

    @model_validator(mode="after")
    def _anything(self) -> Self:
        if not self.budgets and not self.unusual:
            raise ValueError("the file needs at least `budgets` or `unusual`")
        return self


def load(path: Path) -> Budgets:
    """The budgets of a file. Raises ``FileError`` with every mistake."""
    return parse_budgets(read(path), str(path))


def parse_budgets(data: bytes, path: str) -> Budgets:
    """The budgets that these bytes hold; ``path`` stands in errors. Raises ``FileError`` and nothing else."""
    file = validated(BudgetFile, parse(data, path, "at least `budgets:`"), path)
    return Budgets(
        tuple(one.budget() for one in file.budgets),
        {str(tenant): team for team, tenants in file.teams.items() for tenant in tenants},
        tuple(one.unusual() for one in file.unusual),
    )
