"""Budgets as data: a YAML file of teams and budgets, every mistake told with its line. Only ``load`` touches the disk.

A budget names one tenant, team or model, or none for everything; an amount in dollars; and calendar months, or periods
of so many days of which one begins on a day. What it means is in ``stream_jobs.budgets.standing``. Rules of unusual
days (``unusual``) need no amount.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from schemas.errors import ConfigError
from stream_jobs.budgets.standing import KINDS, LEVELS, PPM, SCOPES, Budget, Level
from stream_jobs.budgets.unusual import EACH, Unusual
from stream_jobs.prices.tariff import required
from stream_jobs.yaml_files.nodes import BYTES_MAX, Listing, Node, Scalar, Table, parse
from stream_jobs.yaml_files.problems import FileError, Problems, WrongError, quoted
from stream_jobs.yaml_files.scalars import choice, flag, known_keys, listing, sentence, table, whole, word

BUDGETS_MAX = 1_000
_KEYS = ("name", "amount", "tenant", "team", "model", "days", "since", "levels")
_NAMED = tuple(scope for scope in SCOPES if scope != "all")
_DOLLARS = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))? USD", re.ASCII)
_SHARE = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?%", re.ASCII)


class BudgetsError(FileError):
    """Budgets cannot be used. ``problems`` are lines: ``file:line: what is wrong; what would be right``."""

    holds = "budgets"


@dataclass(frozen=True, slots=True)
class Budgets:
    """All that a file says. ``teams``: team by tenant; ``unusual``: which days are told as such."""

    budgets: tuple[Budget, ...] = ()
    teams: Mapping[str, str] = field(default_factory=dict)
    unusual: tuple[Unusual, ...] = ()


def load(path: Path) -> Budgets:
    """The budgets of a file. Raises ``BudgetsError`` with every mistake."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise BudgetsError(str(path), (f"{path}:1: cannot be read: {said}; check path and rights",)) from None
    return parse_budgets(data, str(path))


def parse_budgets(data: bytes, path: str) -> Budgets:
    """The budgets that these bytes hold; ``path`` stands in errors. Raises ``BudgetsError`` and nothing else."""
    told = Problems()
    try:
        node = parse(data, path)
    except FileError as error:
        raise BudgetsError(path, error.problems) from None
    found = Budgets()
    with told.collected():
        if node is None or (isinstance(node, Scalar) and node.null):
            raise WrongError(f"{path}:1", "the file is empty; it needs at least `budgets:`")
        root = table(node, "a file of budgets")
        _no_others(root, "a file of budgets", ("teams", "budgets", "unusual"), told)
        teams, rules = _teams(root.get("teams"), told), _unusual(root.get("unusual"), told)
        budgets = root.get("budgets")
        without = budgets is None and root.get("unusual") is not None
        found = Budgets(() if without else _budgets(budgets, root.at, set(teams.values()), told), teams, rules)
    if told.lines:
        raise BudgetsError(path, told.in_order())
    return found


def _no_others(node: Table, what: str, keys: tuple[str, ...], told: Problems) -> None:
    for wrong in known_keys(node, what, keys):
        told.add(wrong.at, wrong.what)


def _teams(node: Node | None, told: Problems) -> dict[str, str]:
    found: dict[str, str] = {}
    if node is None:
        return found
    for key, members in table(node, "teams").pairs:
        with told.collected():
            for member in listing(members, f"team {quoted(key.text)}"):
                tenant = word(member, "a tenant")
                if tenant in found:
                    raise WrongError(member.at, f"tenant {quoted(tenant)} is in team {quoted(found[tenant])} already")
                found[tenant] = key.text
    return found


def _budgets(node: Node | None, at: str, teams: set[str], told: Problems) -> tuple[Budget, ...]:
    if not isinstance(node, Listing) or not node.items:
        raise WrongError(at if node is None else node.at, "budgets must be a list of `{name: ..., amount: 500 USD}`")
    if len(node.items) > BUDGETS_MAX:
        raise WrongError(node.at, f"more than {BUDGETS_MAX} budgets; join some")
    found: dict[str, Budget] = {}
    for one in node.items:
        with told.collected():
            budget = _budget(table(one, "a budget"), teams, told)
            if budget.name in found:
                raise WrongError(one.at, f"budget {quoted(budget.name)} stands twice; give each its own name")
            found[budget.name] = budget
    return tuple(found.values())


def _budget(node: Table, teams: set[str], told: Problems) -> Budget:
    _no_others(node, "a budget", _KEYS, told)
    scope, of = _scope(node, teams)
    days, since, levels = node.get("days"), node.get("since"), node.get("levels")
    if since is not None and days is None:
        raise WrongError(since.at, "since needs `days` beside it: how long a period is")
    given = {} if since is None else {"since": _day(since)}
    try:
        return Budget(
            name=sentence(required(node, "name"), "name"),
            amount_nusd=dollars_nusd(required(node, "amount")),
            scope=scope,
            of=of,
            days=None if days is None else whole(days, "days", 1, 366),
            levels=LEVELS if levels is None else _levels(levels, told),
            **given,
        )
    except ConfigError as error:
        raise WrongError(node.at, str(error)) from None


def _scope(node: Table, teams: set[str]) -> tuple[str, str | None]:
    named = [scope for scope in _NAMED if node.get(scope) is not None]
    if not named:
        return "all", None
    if len(named) > 1:
        raise WrongError(node.at, f"a budget is for one of {', '.join(_NAMED)}; this one names {' and '.join(named)}")
    of = word(required(node, named[0]), named[0])
    if named[0] == "team" and of not in teams:
        raise WrongError(required(node, "team").at, f"team {quoted(of)} has no tenants; list them under teams")
    return named[0], of


def _unusual(node: Node | None, told: Problems) -> tuple[Unusual, ...]:
    found: dict[tuple[str, str], Unusual] = {}
    if node is not None and not (isinstance(node, Listing) and node.items):
        told.add(node.at, "unusual must be a list of `{each: tenant, above: 200%, at_least: 50 USD}`")
        return ()
    for one in () if node is None else listing(node, "unusual"):
        with told.collected():
            rule = _rule(table(one, "a rule of unusual days"), told)
            if (rule.each, rule.level) in found:
                raise WrongError(one.at, f"{rule.level} of {rule.each} stands twice; each is told once")
            found[rule.each, rule.level] = rule
    return tuple(found.values())


def _rule(node: Table, told: Problems) -> Unusual:
    _no_others(node, "a rule of unusual days", ("each", "above", "at_least"), told)
    above = required(node, "above")
    text, share = _share(above, "above")
    if not PPM < share <= 10 * PPM:
        raise WrongError(above.at, f"above {quoted(text)} must be like 200%: of the usual, above 100%, at most 1000%")
    each = choice(required(node, "each"), "each", EACH)
    return Unusual(each, share, dollars_nusd(required(node, "at_least"), "at_least"))


def _share(node: Node, what: str) -> tuple[str, int]:
    """A share as it is written, and in ppm: ``80%``; 0 where it is none."""
    text = word(node, what)
    found = _SHARE.fullmatch(text)
    return text, int(found[1]) * 10_000 + int((found[2] or "").ljust(4, "0")) if found else 0


def dollars_nusd(node: Node, what: str = "amount") -> int:
    """Nano-dollars of ``500 USD`` or ``0.25 USD``, above 0, exactly. Raises ``WrongError``."""
    text = " ".join(word(node, what).split())
    found = _DOLLARS.fullmatch(text)
    amount = int(found[1]) * 10**9 + int((found[2] or "").ljust(9, "0")) if found else 0
    if not amount:
        raise WrongError(node.at, f"{what} {quoted(text)} must be like `500 USD`, above 0, below a billion")
    return amount


def _day(node: Node) -> date:
    text = word(node, "since")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise WrongError(node.at, f"since {quoted(text)} must be a day like 2026-01-05") from None


def _levels(node: Node, told: Problems) -> tuple[Level, ...]:
    found: dict[Level, None] = {}
    for one in listing(node, "levels"):
        level = _level(one, told)
        if level in found:
            raise WrongError(one.at, "this level stands twice; each is told once")
        found[level] = None
    return tuple(found)


def _level(node: Node, told: Problems) -> Level:
    level = table(node, "a level")
    _no_others(level, "a level", ("at", "kind", "ahead"), told)
    at, kind, ahead = required(level, "at"), level.get("kind"), level.get("ahead")
    text, share = _share(at, "at")
    if not 0 < share <= 10 * PPM:
        raise WrongError(at.at, f"at {quoted(text)} must be a share of the budget like 80%, above 0, at most 1000%")
    return Level(
        share,
        "soft" if kind is None else choice(kind, "kind", KINDS),
        ahead=False if ahead is None else flag(ahead, "ahead"),
    )
