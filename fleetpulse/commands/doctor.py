"""The command that looks for what is wrong with a set-up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetpulse.commands.output import err, out, print_json, spoken

if TYPE_CHECKING:
    from fleetpulse.doctor.finding import Finding, Report

_MARKS = {"good": "[green]ok     [/green]", "note": "note   ", "unknown": "[yellow]unknown[/yellow]"}
_WRONG = "[bold red]WRONG  [/bold red]"


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    app.command(rich_help_panel="People")(spoken(doctor))


def doctor(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show what is good.")] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Make a topic for a moment, to read the broker's clock on a quiet cluster.")
    ] = False,
    within: Annotated[float, typer.Option(min=1, max=600, help="Seconds that each look may take.")] = 20.0,
    disk_free: Annotated[int, typer.Option(min=0, help="MiB that must be free on every disk.")] = 2_048,
    lag: Annotated[int, typer.Option(min=0, help="Records a group may be behind in one topic.")] = 10_000,
    skew: Annotated[int, typer.Option(min=1, help="Milliseconds that two clocks may differ.")] = 1_000,
    config_file: Annotated[Path | None, typer.Option("--config", help="The configuration file to use.")] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Where the local stack lives.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Check Kafka, topics, ClickHouse, tables, rights, lag, clocks, disks; each finding has the command that mends it.

    Exit 0 when nothing is wrong, 1 when something is. Nothing is changed.

    Example: [bold]fleetpulse doctor[/bold], [bold]fleetpulse doctor --json --within 5[/bold]
    """
    import os

    from fleetpulse.doctor.examine import examine
    from fleetpulse.doctor.facts import Bounds

    flags = {"config_file": str(config_file) if config_file else None, "data_dir": data_dir}
    bounds = Bounds(disk_free_bytes_min=disk_free << 20, lag_records_max=lag, skew_ms_max=skew, within_s=within)
    with err.status("looking"):
        report = examine(flags, os.environ, bounds, probe=probe)
    if json:
        print_json(report.as_dict())
    else:
        tell(report, verbose=verbose)
    if report.wrong:
        raise typer.Exit(1)


def tell(report: Report, *, verbose: bool) -> None:
    """Every finding with what mends it, for people."""
    from fleetpulse.doctor.finding import State

    states = tuple(State) if verbose else (State.WRONG, State.UNKNOWN, State.NOTE)
    for one in report.of(*states):
        _tell_one(one)
    goods, wrongs = len(report.of(State.GOOD)), len(report.wrong)
    out.print(f"{goods} checks are good, {wrongs} {'is' if wrongs == 1 else 'are'} wrong", highlight=False)


def _tell_one(one: Finding) -> None:
    from rich.markup import escape

    from fleetpulse.commands.output import show

    said = f"{escape(show(one.subject))}: {escape(show(one.says))}"
    out.print(f"{_MARKS.get(one.state, _WRONG)} {one.check} {said}", highlight=False, soft_wrap=True)
    if one.mend is not None:
        out.print(f"          mend: [bold]{escape(show(one.mend))}[/bold]", highlight=False, soft_wrap=True)
