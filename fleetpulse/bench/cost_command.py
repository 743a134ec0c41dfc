"""The command ``fleetpulse bench cost``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fleetpulse.bench.telling import Json, Results, Seed, finish
from fleetpulse.commands.output import err, out


def cost(
    gpus: Annotated[int, typer.Option(min=8, max=1_000_000, help="GPUs of the fleet.")] = 10_000,
    engines: Annotated[int, typer.Option(min=8, max=100_000, help="Engines that share them.")] = 2_000,
    tenants: Annotated[int, typer.Option(min=1, max=100_000, help="Tenants in all.")] = 200,
    per_engine: Annotated[int, typer.Option(min=1, max=1_000, help="Tenants at work on each engine.")] = 10,
    minutes: Annotated[int, typer.Option(min=1, max=10_000, help="Minutes that are measured.")] = 5,
    seed: Seed = 1,
    json: Json = False,
    results: Results = None,
) -> None:
    """The cost job on one core: how many times real time it folds, bills and splits a fleet. Exit 1 below the bound.

    Example: [bold]fleetpulse bench cost --gpus 10000 --engines 2000 --tenants 200 --json[/bold]
    """
    from fleetpulse.bench import cost as measuring
    from fleetpulse.bench.cost_fleet import Fleet
    from fleetpulse.bench.progress import Progress

    fleet = Fleet(gpus, engines, tenants, min(per_engine, tenants))
    with Progress() as progress:
        result = measuring.measure(fleet, minutes, measuring.WARM_MINUTES, seed, progress.say)
    finish("cost", result, seed, json=json, results=results, show=lambda: _show(result))
    if result["times_real"] < measuring.TIMES_REAL_MIN:
        err.print(f"beyond its bound: {measuring.TIMES_REAL_MIN:g} times real time", style="red", highlight=False)
        raise typer.Exit(1)


def _show(result: dict[str, Any]) -> None:
    from fleetpulse.bench.cost import rows
    from fleetpulse.commands.output import table

    title = f"Costs: {result['gpus']:,} GPUs, {result['engines']:,} engines, {result['tenants']} tenants, one core"
    out.print(table(title, ("figure", "value", "bound"), rows(result)))
