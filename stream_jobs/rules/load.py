"""Rule files: read, put together with the shipped rules, and checked. Every mistake comes at once, with its line.

A file is a mapping: ``include: defaults``, ``disable: [name, ...]``, ``rules: [...]``, ``silences``, ``slo_classes``,
``gpu_events``. With ``include`` a rule of the same name as a shipped one changes only what it names; entries of
``gpu_events`` come before the shipped ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stream_jobs.rules.file import RuleFile, SloEntry, slo_class
from stream_jobs.rules.model import Rule, RuleSet, SloClass
from stream_jobs.rules.overriding import called, merged, per_class
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
    names = [called(rule) for rule in _listed(tree.get("rules"))]
    _switch_off(tree)
    if isinstance(tree.get("rules"), Items):
        tree["rules"] = per_class(tree["rules"], [*_classes(tree.get("slo_classes"))])
    return validated(RuleFile, tree, path, names).rule_set()


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
