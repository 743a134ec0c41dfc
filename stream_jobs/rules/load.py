"""Rule files: read, put together with the shipped rules, and checked. Every mistake comes at once, with its line.

A file is a mapping: ``include: defaults``, ``disable: [name, ...]``, ``rules: [...]``, ``silences``, ``slo_classes``,
``gpu_events``. With ``include`` a rule of the same name as a shipped one changes only what it names; entries of
``gpu_events`` come before the shipped ones. What is no rule by its shape is left as it is: the models refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stream_jobs.rules.file import Names, RuleFile, SloEntry, slo_class
from stream_jobs.rules.kinds import KINDS
from stream_jobs.rules.model import Rule, RuleSet, SloClass
from stream_jobs.rules.rule_entry import LATENCIES, ONLY_CHECKED, RATE_MAX
from stream_jobs.rules.units import level
from stream_jobs.yaml_files.sections import read, validated
from stream_jobs.yaml_files.tree import Items, Table, Word, parse

DEFAULTS = "defaults.yaml"


def load(path: Path | None = None) -> tuple[Rule, ...]:
    """The rules that judge: of a file, or the shipped ones. Raises ``FileError``."""
    return load_set(path).rules


def load_set(path: Path | None = None) -> RuleSet:
    """Everything in a file. Raises ``FileError`` with every mistake, also for a file that cannot be read."""
    return parse_set(shipped(), DEFAULTS) if path is None else parse_set(read(path), str(path))


def shipped() -> bytes:
    """The shipped rules, as YAML."""
    return Path(__file__).with_name(DEFAULTS).read_bytes()


def parse_set(data: bytes, path: str) -> RuleSet:
    """The set that these bytes hold; ``path`` stands in errors. Raises ``FileError`` and nothing else."""
    tree = parse(data, path, "`rules:` or `include: defaults`")
    if tree.get("include") == "defaults":
        tree = merged(tree, parse(shipped(), DEFAULTS, "rules"))
    written = [called(rule) for rule in _listed(tree.get("rules"))]
    _switch_off(tree)
    if isinstance(tree.get("rules"), Items):
        tree["rules"] = per_class(tree["rules"], [*_classes(tree.get("slo_classes"))])
    judging = [called(rule) for rule in _listed(tree.get("rules")) if not _is_only_checked(rule)]
    return validated(RuleFile, tree, path, Names(written, judging)).rule_set()


def _switch_off(tree: Table) -> None:
    """Write ``enabled: false`` into the rules under ``disable``, before service classes change their names."""
    names = {name for name in _listed(tree.get("disable")) if isinstance(name, Word)}
    for rule in _listed(tree.get("rules")):
        if isinstance(rule, Table) and called(rule) in names:
            rule[Word("enabled", rule.at)] = Word("false", rule.at)


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, Items) else [value] if isinstance(value, Word) else []


def _classes(table: object) -> Iterator[SloClass]:
    """Those that are right; the others are mistakes that are found with the file's."""
    for name, entry in table.items() if isinstance(table, Table) else ():
        with suppress(ValidationError):
            yield slo_class(name, SloEntry.model_validate(entry))


_INNER = ("options", "measures", "while")
"""Keys whose own keys are replaced one by one."""
_STAND_IN = SloClass("any", 0.99, 1_000_000, 1_000_000, 1_000_000)
"""Of it are rules that are only checked."""


def merged(mine: Table, base: Table) -> Table:
    """The file with what it includes: a rule of the same name is changed in its place, others come behind those of the
    base; of other lists the file's entries come first, of service classes its own count."""
    written = {key: value for key, value in mine.items() if value is not None}
    found = {key: value for key, value in base.items() if key not in written} | written
    for key in base.keys() & written.keys():
        value = written[key]
        if isinstance(value, Items | Table) and type(value) is not type(base[key]):
            continue  # of another shape: a mistake that is found with the file's
        if isinstance(value, Items):
            found[key] = Items([*_rules(value, base[key])] if key == "rules" else [*value, *base[key]], value.at)
        elif isinstance(value, Table):
            found[key] = Table(value | {one: base[key][one] for one in base[key] if one not in value}, value.at)
    return Table(found, mine.at)


def _rules(mine: Items, base: Items) -> Iterator[Any]:
    changes: dict[str, list[Table]] = {}
    for rule in mine:
        changes.setdefault(called(rule), []).append(rule)
    for rule in base:
        yield from [_changed(rule, one) for one in changes.get(called(rule), ())] or [rule]
    known = {called(rule) for rule in base}
    yield from (rule for rule in mine if called(rule) not in known)


def called(rule: Any) -> str:
    """The name of a rule as written; empty where there is none."""
    name = rule.get("name") if isinstance(rule, Table) else None
    return name if isinstance(name, Word) else ""


def _changed(base: Table, mine: Table) -> Table:
    """``mine`` over ``base``. Another kind of detector inherits no options."""
    dropped = {"options"} if mine.get("kind", base["kind"]) != base["kind"] else set()
    if mine.get("metric") is not None:
        dropped |= {"topic", "slo"}
    inherited = {key: value for key, value in base.items() if key not in dropped}
    pairs = {key: value for key, value in inherited.items() if key not in mine}
    for key, value in mine.items():
        before = inherited.get(key) if key in _INNER else None
        is_both = isinstance(before, Table) and isinstance(value, Table)
        pairs[key] = _inner(before, value, base["kind"]) if is_both else value
    return Table(pairs, mine.at)


def _inner(base: Any, mine: Table, kind: str) -> Table:
    """Keys of ``mine`` over those of ``base``; of options that exclude one another the new one stays alone."""
    replaced = set(mine)
    for group in KINDS[kind].one_of:
        if replaced & set(group):
            replaced |= {*group, "leave"}
    return Table({key: value for key, value in base.items() if key not in replaced} | mine, mine.at)


def per_class(rules: Items, classes: Sequence[SloClass]) -> Items:
    """Each rule with ``slo: ttft`` once for every class that has that objective, named after the class, of its requests
    that took longer. A rule that no class has stays once, only to be checked."""
    made: list[Any] = []
    for rule in rules:
        slo = rule.get("slo") if isinstance(rule, Table) and "metric" not in rule else None
        column = LATENCIES.get(slo) if isinstance(slo, Word) else None
        if column is None:
            made.append(rule)
            continue
        having = [one for one in classes if getattr(one, column) is not None]
        made += [_of_class(rule, one, column) for one in having]
        if not having:
            unnamed = {key: value for key, value in rule.items() if key == "name"}
            made.append(Table(_of_class(rule, _STAND_IN, column) | unnamed | {"slo": ONLY_CHECKED}, rule.at))
    return Items(made, rules.at)


def _is_only_checked(rule: Any) -> bool:
    return isinstance(rule, Table) and rule.get("slo") is ONLY_CHECKED


def _of_class(rule: Table, one: SloClass, column: str) -> Table:
    at = rule.at_of("slo")
    name = called(rule) + "_" + re.sub("[^a-z0-9_]", "_", one.name.lower())
    changes = {
        "name": Word(name[:64], at),
        "metric": Word(f"share({column} > {getattr(one, column)}us)", at),
        "where": _with(rule.get("where"), "slo_class", Word(one.name, at)),
        "options": _with(_in_reach(rule.get("options"), one.share, at), "objective", Word(repr(one.share), at)),
    }
    kept = {key: value for key, value in rule.items() if key not in {*changes, "slo"}}
    return Table({Word(key, at): value for key, value in changes.items()} | kept, rule.at)


_NEARLY_ALL = 0.9


def _in_reach(options: Any, share: float, at: str) -> Any:
    """Options of a burn rate without rates that no request could burn: they are what ``_NEARLY_ALL`` of them burn."""
    most = _NEARLY_ALL / (1 - share)
    pairs = options.get("pairs") if isinstance(options, Table) else None
    if pairs is None:
        default = next(option.default for option in KINDS["burn_rate"].options if option.name == "pairs")
        pairs = Items([Items([Word(repr(one), at) for one in pair], at) for pair in default], at)
    if not isinstance(pairs, Items):
        return options
    capped = Items([_capped(pair, most) for pair in pairs], pairs.at)
    return options if capped == pairs else _with(options, "pairs", capped)


def _capped(pair: Any, most: float) -> Any:
    """What is no pair stays as it is."""
    if not isinstance(pair, Items) or len(pair) != 3 or not isinstance(pair[2], Word):
        return pair
    is_over = most < (level(pair[2], "") or 0.0) <= RATE_MAX
    return Items([*pair[:2], Word(f"{most:.4g}", pair[2].at)], pair.at) if is_over else pair


def _with(table: Any, key: str, value: Word | Items) -> Any:
    """The mapping with one key more; what is no mapping stays as it is."""
    if table is not None and not isinstance(table, Table):
        return table
    return Table({**(table or {}), Word(key, value.at): value}, table.at if table else value.at)
