"""Commands for rules: are they right, what do they mean, what is in force."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetpulse.commands.output import err, print_json, print_rows, spoken

if TYPE_CHECKING:
    from stream_jobs.rules.model import Rule, RuleSet
    from stream_jobs.yaml_files.errors import FileError

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
File = Annotated[Path | None, typer.Argument(help="A rule file; without it the shipped rules.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    group = typer.Typer(no_args_is_help=True, help="Rules: what is out of the ordinary, and what is notified of it.")
    for command in (check, explain, show):
        group.command()(spoken(command))
    app.add_typer(group, name="rules", rich_help_panel="People")


def check(file: File = None, json: Json = False) -> None:
    """Check a rule file: every mistake with its line and the nearest valid name, or a table of its rules.

    Example: [bold]fleetpulse rules check my-rules.yaml[/bold]
    """
    found = _read(file, json=json)
    if json:
        print_json({"valid": True, "problems": [], "rules": [_row(rule) for rule in found.rules], **_beside(found)})
        return
    columns = ("rule", "kind", "metric", "by", "window", "for", "severity")
    rows = [tuple(_row(rule)[name] for name in columns) for rule in found.rules]
    rows = [(*row[:3], ", ".join(row[3]) or "the fleet", *row[4:]) for row in rows]
    least = ("kind", "window")
    print_rows(f"{len(rows)} rules, all valid", columns, rows, empty="valid, and no rule in it", least=least)
    err.print(_said(_beside(found)), markup=False, highlight=False)


def explain(
    name: Annotated[str, typer.Argument(help="A rule's name.")],
    file: File = None,
    json: Json = False,
) -> None:
    """Explain a rule in plain words: what it looks at, when it fires and clears, its cost, how to change it.

    Example: [bold]fleetpulse rules explain gpu_throttled[/bold]
    """
    from stream_jobs.rules.explaining import explained

    found = _read(file, json=json)
    rule = _named(name, (*found.rules, *found.disabled))
    parts = [*explained(rule), ("in force", "no: switched off" if rule in found.disabled else "yes")]
    if json:
        print_json({"name": rule.name, **dict(parts)})
    else:
        print_rows(rule.name, ("", ""), parts, empty="nothing to explain")


def show(file: File = None, json: Json = False) -> None:
    """Show the rules in force as YAML, with every default filled in; a file to start from.

    Example: [bold]fleetpulse rules show > my-rules.yaml[/bold]
    """
    from stream_jobs.rules.writing import as_plain, as_yaml

    found = _read(file, json=json)
    if json:
        print_json(as_plain(found))
    else:
        typer.echo(as_yaml(found), nl=False)


def _read(file: Path | None, *, json: bool) -> RuleSet:
    """The set; a file with mistakes ends the command with 1 and all of them."""
    from stream_jobs.rules.load import load_set
    from stream_jobs.yaml_files.errors import FileError

    try:
        return load_set(file)
    except FileError as error:
        _tell(error, json=json)
        raise typer.Exit(1) from None


def _tell(error: FileError, *, json: bool) -> None:
    if json:
        print_json({"valid": False, "problems": list(error.problems)})
        return
    err.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
    count = len(error.problems)
    err.print(f"{count} mistake{'s' * (count != 1)}; no rule of this file is in force", markup=False, highlight=False)


def _named(name: str, rules: Sequence[Rule]) -> Rule:
    from schemas.errors import ConfigError
    from stream_jobs.yaml_files.errors import nearest

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
