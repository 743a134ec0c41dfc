"""``fleetpulse demo``, ``chaos`` and ``audit simulated``: the whole product under a simulated load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleetpulse.commands.money import PricesFile, audited
from fleetpulse.commands.output import Result, answers, err, out
from fleetpulse.commands.prices import EXAMPLE

DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where the local stack lives.")]


def demo(
    seconds: Annotated[int, typer.Option(min=5, max=86_400, help="How long load is produced.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the simulated fleet.")] = 1,
    keep: Annotated[
        bool, typer.Option("--keep", help="Serve the dashboard, and let the fleet go on afterwards.")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="Also save the closing screen as an SVG picture.")] = None,
    data_dir: DataDir = None,
) -> None:
    """A 64-GPU fleet under the Azure traces on this machine, from the edge to SQL, ending with exact books.

    Example: [bold]fleetpulse demo --seconds 60[/bold], [bold]fleetpulse demo --keep[/bold]
    """
    from lab.demo.run import run_demo

    if not run_demo(seconds=seconds, seed=seed, keep=keep, svg=svg, data_dir=data_dir):
        raise typer.Exit(1)


@answers
def chaos(
    kills: Annotated[int, typer.Option(min=1, max=10_000, help="How many kill -9.")] = 20,
    seed: Annotated[int, typer.Option(help="Same seed, same blows.")] = 1,
    gpus: Annotated[int, typer.Option(min=8, help="Size of the simulated fleet that makes the load.")] = 64,
    data_dir: DataDir = None,
) -> Result:
    """Kill -9 every part under load, freeze workers, double them; then compare with the generator's own truth.

    Example: [bold]fleetpulse chaos --kills 100 --seed 1[/bold]
    """
    from lab.chaos.run import run_chaos

    report = run_chaos(kills=kills, seed=seed, gpus=gpus, data_dir=data_dir, say=err.print)
    return Result(report.as_dict(), lambda: out.print(report.text(), markup=False), wrong=not report.exact)


@answers
def audit_simulated(
    seed: Annotated[int, typer.Option(min=0, help="Seed of fleet, faults, delays and kills.")] = 1,
    hours: Annotated[float, typer.Option(min=0.1, max=240, help="How long the day is.")] = 24.0,
    prices: PricesFile = EXAMPLE,
    html: Annotated[Path | None, typer.Option(help="Also write the day's report to a file.")] = None,
    data_dir: DataDir = None,
) -> Result:
    """A simulated day in a database of its own, audited like the live tables. Exit 0 only if exact.

    The day has faults, late data, groups over hosts, MIG and shared GPUs; both jobs are killed now and then, on a
    virtual clock.

    Example: [bold]fleetpulse audit simulated --hours 24 --json[/bold]
    """
    from lab.audit.simulated import simulated

    return audited(simulated(seed, hours, prices, data_dir, html))
