"""Commands that prove: the demo, the books, chaos, the bench."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleetpulse.commands.output import err, out, print_json

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where the local stack lives.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    from fleetpulse.bench.command import app as bench

    for command in (demo, reconcile, chaos):
        app.command(rich_help_panel="Proof")(command)
    app.add_typer(bench, name="bench", rich_help_panel="Proof")


def demo(
    seconds: Annotated[int, typer.Option(min=5, max=86_400, help="How long load is produced.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the simulated fleet.")] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running afterwards.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Also save the closing screen as an SVG picture.")] = None,
    data_dir: DataDir = None,
) -> None:
    """A 64-GPU fleet under the Azure traces on this machine, from the edge to SQL, ending with exact books.

    Example: [bold]fleetpulse demo --seconds 60[/bold]
    """
    from fleetpulse.demo.run import run_demo

    if not run_demo(seconds=seconds, seed=seed, keep=keep, svg=svg, data_dir=data_dir):
        raise typer.Exit(1)


def reconcile(
    wait: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for what is still on its way.")] = 15.0,
    raw: Annotated[bool, typer.Option("--raw/--no-raw", help="Also check raw events.")] = True,
    json: Json = False,
) -> None:
    """Add up the producers' books, the job's books and every table. Exit 0 only when all agree exactly.

    Example: [bold]fleetpulse reconcile --json[/bold]
    """
    from fleetpulse.reconcile import reconcile as run_reconcile
    from runtime.config import load

    config = load()
    report = run_reconcile(config.kafka, config.clickhouse, wait_s=wait, raw=raw, limits=config.limits)
    if json:
        print_json(report.as_dict())
    else:
        out.print(report.text(), markup=False)
    if not report.exact:
        raise typer.Exit(1)


def chaos(
    kills: Annotated[int, typer.Option(min=1, max=10_000, help="How many kill -9.")] = 20,
    seed: Annotated[int, typer.Option(help="Same seed, same blows.")] = 1,
    gpus: Annotated[int, typer.Option(min=8, help="Size of the simulated fleet that makes the load.")] = 64,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Kill -9 every part under load, freeze workers, double them; then compare with the generator's own truth.

    Example: [bold]fleetpulse chaos --kills 100 --seed 1[/bold]
    """
    from fleetpulse.chaos.run import run_chaos

    report = run_chaos(kills=kills, seed=seed, gpus=gpus, data_dir=data_dir, tell=err.print)
    if json:
        print_json(report.as_dict())
    else:
        out.print(report.text(), markup=False)
    if not report.exact:
        raise typer.Exit(1)
