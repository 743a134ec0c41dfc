"""The command that looks for what is wrong with a set-up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from fleetpulse.commands.output import Result, answers, has_width, out, show
from fleetpulse.commands.progress import spinner
from fleetpulse.doctor.finding import State

if TYPE_CHECKING:
    from fleetpulse.doctor.finding import Finding, Report

_MARKS = {
    "good": ("ok", "green"),
    "note": ("note", ""),
    "unknown": ("unknown", "yellow"),
    "wrong": ("WRONG", "bold red"),
}
_MARK_CELLS = 7


@answers
def doctor(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show what is good.")] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Make a topic for a moment, to read the broker's clock on a quiet cluster.")
    ] = False,
    servers: Annotated[
        list[str] | None,
        typer.Option("--clickhouse", help="URL of a copy of ClickHouse, whose tables are checked too. Repeatable."),
    ] = None,
    within: Annotated[float, typer.Option(min=1, max=600, help="Seconds that each look may take.")] = 20.0,
    disk_free: Annotated[
        int, typer.Option(min=0, help="MiB that must be free on every disk; of the data folder's a tenth is enough.")
    ] = 2_048,
    lag: Annotated[int, typer.Option(min=0, help="Consumer lag that is fine: records of one topic.")] = 10_000,
    skew: Annotated[int, typer.Option(min=1, help="Milliseconds that two clocks may differ.")] = 1_000,
    config_file: Annotated[Path | None, typer.Option("--config", help="The configuration file to use.")] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Where the local stack lives.")] = None,
) -> Result:
    """Check Kafka, topics, ClickHouse, tables, rights, lag, clocks, disks; each finding has the command that mends it.

    Exit 0 when nothing is wrong, 1 when something is. Nothing is changed.

    Example: [bold]fleetpulse doctor[/bold], [bold]fleetpulse doctor --json --within 5[/bold]
    """
    from fleetpulse.doctor.examine import examine
    from fleetpulse.doctor.facts import Bounds

    flags = {"config_file": str(config_file) if config_file else None, "data_dir": data_dir}
    bounds = Bounds(disk_free_bytes_min=disk_free << 20, lag_records_max=lag, skew_ms_max=skew, within_s=within)
    with spinner("checking Kafka, ClickHouse and this machine"):
        report = examine(flags, os.environ, bounds, probe=probe, copies=servers or ())
    return Result(report.as_dict(), lambda: show_report(report, verbose=verbose), wrong=bool(report.wrong))


def show_report(report: Report, *, verbose: bool) -> None:
    """Every finding with what mends it, for people."""

    states = tuple(State) if verbose else (State.WRONG, State.UNKNOWN, State.NOTE)
    for one in report.of(*states):
        _show(one)
    goods, wrongs = len(report.of(State.GOOD)), len(report.wrong)
    out.print(f"{goods} checks are good, {wrongs} {'is' if wrongs == 1 else 'are'} wrong", highlight=False)


def _show(one: Finding) -> None:
    """A finding wrapped under its beginning, in a pipe on one line; what mends it is one line, to be copied whole."""
    word, style = _MARKS[one.state]
    says = Text(f"{one.check} {show(one.subject)}: {show(one.says)}")
    if has_width():
        line = Table.grid(padding=(0, 1))
        line.add_column(min_width=_MARK_CELLS)
        line.add_row(Text(word, style), says)
        out.print(line)
    else:
        out.print(Text(word.ljust(_MARK_CELLS + 1)) + says, soft_wrap=True)
    if one.mend is not None:
        out.print(Text.assemble(" " * (_MARK_CELLS + 1), "mend: ", (show(one.mend), "bold")), soft_wrap=True)
    if one.runbook is not None:
        out.print(Text(" " * (_MARK_CELLS + 1) + f"runbook: {one.runbook}"), soft_wrap=True)
