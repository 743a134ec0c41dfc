"""Commands for rules: are they right, what do they mean, what is in force."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetpulse.commands.output import Result, answers, checking, err, print_rows
from schemas.errors import ConfigError
from stream_jobs.yaml_files.errors import nearest

if TYPE_CHECKING:
    from stream_jobs.rules.model import Rule, RuleSet

File = Annotated[Path | None, typer.Argument(help="A rule file; else that of the setting, else the shipped rules.")]

group = typer.Typer(no_args_is_help=True, help="Rules: what is out of the ordinary, and what is notified of it.")


@group.command()
@answers
def check(file: File = None) -> Result:
    """Check a rule file: every mistake with its line and the nearest valid name, or a table of its rules.

    Example: [bold]fleetpulse rules check my-rules.yaml[/bold]
    """
    found, columns = _read(file), ("rule", "kind", "metric", "by", "window", "for", "severity")
    listed, beside = [_row(rule) for rule in found.rules], _beside(found)

    def show() -> None:
        rows = [[(", ".join(row["by"]) or "the fleet") if c == "by" else row[c] for c in columns] for row in listed]
        title, least = f"{len(rows)} rules, all valid", ("kind", "window")
        print_rows(title, columns, rows, empty="valid, and no rule in it", least=least)
        err.print(_said(beside), markup=False, highlight=False)

    return Result({"valid": True, "problems": [], "rules": listed, **beside}, show)


@group.command()
@answers
def explain(name: Annotated[str, typer.Argument(help="A rule's name.")], file: File = None) -> Result:
    """Explain a rule in plain words: what it looks at, when it fires and clears, its cost, how to change it.

    Example: [bold]fleetpulse rules explain gpu_throttled[/bold]
    """
    from stream_jobs.rules.writing import explained

    found = _read(file)
    rule = _named(name, (*found.rules, *found.disabled))
    parts = [*explained(rule), ("in force", "no: switched off" if rule in found.disabled else "yes")]
    show = partial(print_rows, rule.name, ("", ""), parts, empty="nothing to explain")
    return Result({"name": rule.name, **dict(parts)}, show)


@group.command()
@answers
def show(file: File = None) -> Result:
    """Show the rules in force as YAML, with every default filled in; a file to start from.

    Example: [bold]fleetpulse rules show > my-rules.yaml[/bold]
    """
    from stream_jobs.rules.writing import as_plain, as_yaml

    found = _read(file)
    return Result(as_plain(found), lambda: typer.echo(as_yaml(found), nl=False))


def _read(file: Path | None) -> RuleSet:
    """The set; a file with mistakes ends the command with 1 and all of them."""
    from runtime.config import load
    from stream_jobs.rules.load import load_set

    with checking("no rule of this file is in force"):
        return load_set(file or load().rules)


def _named(name: str, rules: Sequence[Rule]) -> Rule:
    for rule in rules:
        if rule.name == name:
            return rule
    raise ConfigError("NAME", name, f"is no rule of this set; {nearest(name, [rule.name for rule in rules])}")


def _row(rule: Rule) -> dict[str, Any]:
    from stream_jobs.rules.units import duration_text
    from stream_jobs.rules.writing import for_text

    return {
        "rule": rule.name,
        "kind": rule.kind,
        "metric": rule.value.text,
        "by": list(rule.by),
        "window": duration_text(rule.window_ms / 1_000),
        "for": for_text(rule),
        "severity": rule.severity,
    }


def _beside(found: RuleSet) -> dict[str, Any]:
    return {
        "disabled": [rule.name for rule in found.disabled],
        "silences": len(found.silences),
        "slo_classes": [one.name for one in found.slo_classes],
        "gpu_events": len(found.gpu_events),
    }


def _said(beside: dict[str, Any]) -> str:
    off = ", ".join(beside["disabled"]) or "none"
    classes = ", ".join(beside["slo_classes"]) or "none"
    return f"off: {off}; silences: {beside['silences']}; service classes: {classes}; gpu events: {beside['gpu_events']}"
