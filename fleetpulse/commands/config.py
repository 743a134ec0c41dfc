"""Commands about the configuration: every setting with its source, and whether all of it holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetpulse.commands.doctor import tell
from fleetpulse.commands.output import print_json, print_rows, show, spoken

if TYPE_CHECKING:
    from fleetpulse.commands.config_view import Setting

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
File = Annotated[Path | None, typer.Option("--config", help="The file to read instead of fleetpulse.toml.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    group = typer.Typer(help="The configuration: every setting, where it came from, whether it holds.")
    group.callback(invoke_without_command=True)(spoken(config))
    group.command("show")(spoken(config_show))
    group.command("check")(spoken(config_check))
    app.add_typer(group, name="config", rich_help_panel="People")


def config(ctx: typer.Context, config_file: File = None, json: Json = False) -> None:
    """The configuration: every setting, where it came from, whether it holds.

    Example: [bold]fleetpulse config[/bold]
    """
    if ctx.invoked_subcommand is None:
        config_show(None, config_file, False, json)


def config_show(
    name: Annotated[str | None, typer.Argument(help="Only settings that begin so, such as kafka.")] = None,
    config_file: File = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from the default.")] = False,
    json: Json = False,
) -> None:
    """Every setting in force, its value, and where it came from; secrets read ***.

    Example: [bold]fleetpulse config show kafka[/bold], [bold]fleetpulse config show --changed --json[/bold]
    """
    found = [
        one
        for one in _settings(config_file)
        if one.name.startswith(name or "") and not (changed and one.source == "default")
    ]
    if json:
        print_json({one.name: {"value": one.value, "source": one.source} for one in found})
        return
    rows = [(one.name, _value(one.value), one.source) for one in found]
    print_rows(
        "Configuration", ("setting", "value", "source"), rows, empty="no such setting; see fleetpulse config show"
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


def config_check(config_file: File = None, json: Json = False) -> None:
    """Whether every setting is known and within its bounds; unknown keys with the nearest that exists. Exit 1 when not.

    Example: [bold]fleetpulse config check --config /etc/fleetpulse/fleetpulse.toml[/bold]
    """
    import os

    from fleetpulse.commands.config_view import unknown_keys
    from fleetpulse.doctor.finding import Report
    from fleetpulse.doctor.judge_config import judge_config
    from runtime.config import layers, load
    from schemas.errors import ConfigError

    flags = {"config_file": str(config_file) if config_file else None}
    told = layers(flags)
    problem = None
    try:
        load(flags)
    except ConfigError as error:
        problem = error
    report = Report(tuple(judge_config(problem, unknown_keys(told, os.environ))))
    if json:
        print_json(report.as_dict())
    else:
        tell(report, verbose=True)
    if report.wrong:
        raise typer.Exit(1)
