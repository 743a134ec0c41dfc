"""Commands about the configuration: every setting with its source, and whether all of it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetpulse.commands.doctor import show_report
from fleetpulse.commands.output import Result, answers, demand_alone, print_rows, show
from fleetpulse.doctor.finding import Report

if TYPE_CHECKING:
    from fleetpulse.commands.config_view import Setting

File = Annotated[Path | None, typer.Option("--config", help="The file to read instead of fleetpulse.toml.")]

group = typer.Typer(help="The configuration: every setting, where it came from, whether it holds.")


@group.callback(invoke_without_command=True)
@answers
def config(ctx: typer.Context, config_file: File = None) -> Result | None:
    """The configuration: every setting, where it came from, whether it holds.

    Example: [bold]fleetpulse config[/bold]
    """
    demand_alone(ctx, {"--config": config_file and str(config_file)})
    return _shown(_settings(config_file)) if ctx.invoked_subcommand is None else None


@group.command("show")
@answers
def config_show(
    name: Annotated[str | None, typer.Argument(help="Only settings that begin so, such as kafka.")] = None,
    config_file: File = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from the default.")] = False,
) -> Result:
    """Every setting in force, its value, and where it came from; secrets read ***.

    Example: [bold]fleetpulse config show kafka[/bold], [bold]fleetpulse config show --changed --json[/bold]
    """
    return _shown(
        one
        for one in _settings(config_file)
        if one.name.startswith(name or "") and not (changed and one.source == "default")
    )


def _shown(settings: Iterable[Setting]) -> Result:
    found = list(settings)
    rows = [(one.name, _value(one.value), one.source) for one in found]
    columns, empty = ("setting", "value", "source"), "no such setting; see fleetpulse config show"
    return Result(
        {one.name: {"value": one.value, "source": one.source} for one in found},
        lambda: print_rows("Configuration", columns, rows, empty=empty),
    )


def _settings(config_file: Path | None) -> list[Setting]:
    from fleetpulse.commands.config_view import settings_of
    from runtime.config import layers, load

    flags = {"config_file": str(config_file) if config_file else None}
    return settings_of(load(flags), layers(flags))


def _value(value: object) -> str:
    """Whole numbers as they are written in a file, without separators."""
    if isinstance(value, list | dict):
        return ", ".join(map(str, value)) or "none"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else show(value)


@group.command("check")
@answers
def config_check(config_file: File = None) -> Result:
    """Whether every setting is known and within its bounds; unknown keys with the nearest that exists. Exit 1 when not.

    Example: [bold]fleetpulse config check --config /etc/fleetpulse/fleetpulse.toml[/bold]
    """
    from fleetpulse.doctor.examine import examine_config

    _config, findings = examine_config({"config_file": str(config_file) if config_file else None}, os.environ)
    report = Report(findings)
    return Result(report.as_dict(), lambda: show_report(report, verbose=True), wrong=bool(report.wrong))
