"""Rule files: read, checked, and put together. Every mistake of a file is told at once, with its line.

A file is a mapping: ``include: defaults``, ``disable: [name, ...]``, ``rules: [...]``, ``mutes``, ``slo_classes`` and
``gpu_events``. With ``include`` a rule of the same name as a shipped one changes only what it says; entries of
``gpu_events`` come before the shipped ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from stream_jobs.rules.model import Rule
from stream_jobs.rules.overriding import called, merged, per_class
from stream_jobs.rules.problems import RulesError
from stream_jobs.rules.reading import Read, read_rule
from stream_jobs.rules.ruleset import RuleSet, SloClass
from stream_jobs.rules.sections import entries, gpu_events_of, mutes_of, slo_classes_of
from stream_jobs.yaml_files.nodes import BYTES_MAX, Node, Scalar, Table, parse
from stream_jobs.yaml_files.problems import FileError, Problems, WrongError
from stream_jobs.yaml_files.scalars import choice, known_keys, listing, table

DEFAULTS = "defaults.yaml"
FILE_KEYS = ("include", "disable", "rules", "mutes", "slo_classes", "gpu_events")
RULES_MAX = 1_000
_STAND_IN = SloClass("any", 0.99, 1_000_000, 1_000_000, 1_000_000)
"""Checks rules of objectives where no class is known; what it makes is thrown away."""


def load(path: Path | None = None) -> tuple[Rule, ...]:
    """The rules that judge: of a file, or the shipped ones. Raises ``RulesError``."""
    return load_set(path).rules


def load_set(path: Path | None = None) -> RuleSet:
    """Everything a file holds. Raises ``RulesError`` with every mistake, also for a file that cannot be read."""
    if path is None:
        return parse_set(shipped(), DEFAULTS)
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise RulesError(str(path), (f"{path}:1: cannot be read: {said}; check path and rights",)) from None
    return parse_set(data, str(path))


def shipped() -> bytes:
    """The shipped rules, as YAML."""
    return files("stream_jobs.rules").joinpath(DEFAULTS).read_bytes()


def parse_set(data: bytes, path: str) -> RuleSet:
    """The set that these bytes hold; ``path`` stands in errors. Raises ``RulesError`` and nothing else."""
    told = Problems()
    root = _root(data, path, told)
    base = _root(shipped(), DEFAULTS, told) if root is not None and _includes(root, told) else None
    made = RuleSet(()) if root is None else _set(root, base, told)
    if told.lines:
        raise RulesError(path, told.in_order())
    return made


def _root(data: bytes, path: str, told: Problems) -> Table | None:
    try:
        node = parse(data, path)
    except FileError as error:
        raise RulesError(path, error.problems) from None
    with told.collected():
        if node is None or (isinstance(node, Scalar) and node.null):
            raise WrongError(f"{path}:1", "the file is empty; it needs `rules:` or `include: defaults`")
        root = table(node, "a rule file")
        for wrong in known_keys(root, "a rule file", FILE_KEYS):
            told.add(wrong.at, wrong.what)
        return root
    return None


def _includes(root: Table, told: Problems) -> bool:
    given = root.get("include")
    with told.collected():
        return given is not None and choice(given, "include", ("defaults",)) == "defaults"
    return False


def _set(root: Table, base: Table | None, told: Problems) -> RuleSet:
    def both(key: str) -> list[Node | None]:
        return [root.get(key), base.get(key) if base else None]

    classes = _by_name(one for node in both("slo_classes") for one in slo_classes_of(node, told))
    nodes = merged(entries(root.get("rules"), "rules", told), _base_rules(base), told)
    off = _disabled(root, [called(node) for node in nodes], told)
    read = [(one, called(node) in off) for node in nodes for one in _read(node, classes, told)]
    _names_once([one.rule for one, _ in read], told)
    return RuleSet(
        rules=tuple(one.rule for one, disabled in read if one.enabled and not disabled),
        mutes=tuple(mute for node in both("mutes") for mute in mutes_of(node, told)),
        slo_classes=classes,
        gpu_events=tuple(event for node in both("gpu_events") for event in gpu_events_of(node, told)),
        disabled=tuple(one.rule for one, disabled in read if disabled or not one.enabled),
    )


def _by_name(found: Iterable[SloClass]) -> tuple[SloClass, ...]:
    """The first of each name."""
    first: dict[str, SloClass] = {}
    for one in found:
        first.setdefault(one.name, one)
    return tuple(first.values())


def _base_rules(base: Table | None) -> list[Table]:
    return entries(base.get("rules"), "rules", Problems()) if base else []


def _disabled(root: Table, names: list[str], told: Problems) -> set[str]:
    found: set[str] = set()
    given = root.get("disable")
    if given is None:
        return found
    with told.collected():
        for one in listing(given, "disable"):
            with told.collected():
                found.add(choice(one, "disable", names))
    return found


def _read(node: Table, classes: tuple[SloClass, ...], told: Problems) -> list[Read]:
    if node.get("slo") is None:
        one = read_rule(node, told)
        return [one] if one else []
    with told.collected(called(node)):
        nodes = per_class(node, classes)
        if nodes:
            return [one for each in nodes if (one := read_rule(each, told))]
        for each in per_class(node, (_STAND_IN,), named=False):
            read_rule(each, told)
    return []


def _names_once(rules: list[Rule], told: Problems) -> None:
    first: dict[str, Rule] = {}
    if len(rules) > RULES_MAX:
        told.add(rules[RULES_MAX].where_read, f"more than {RULES_MAX} rules; no fleet needs so many")
    for rule in rules:
        before = first.setdefault(rule.name, rule)
        if before is not rule:
            told.add(rule.where_read, f"the name is taken by {before.where_read}; give it another", rule.name)
