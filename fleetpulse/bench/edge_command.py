"""The command ``fleetpulse bench edge``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fleetpulse.bench.telling import Json, Results, Seed, finish
from fleetpulse.commands.output import err, out


def edge(
    seconds: Annotated[int, typer.Option(min=2, max=3_600, help="How long each part is watched.")] = 60,
    part: Annotated[
        list[str] | None, typer.Option("--part", help="agent, proxy or sdk; several times for several. Default: all.")
    ] = None,
    seed: Seed = 1,
    json: Json = False,
    results: Results = None,
) -> None:
    """What the edge costs: agent on stub GPUs, proxy in pairs with and without, SDK. Exit 1 beyond a bound.

    Example: [bold]fleetpulse bench edge --seconds 60 --json[/bold]
    """
    from fleetpulse.bench import edge as measuring
    from fleetpulse.bench.progress import Progress

    with Progress() as progress:
        result = measuring.measure(part or (), seconds, progress.say)
    finish("edge", result, seed, json=json, results=results, show=lambda: _show_edge(result))
    if beyond := measuring.outside(result):
        err.print(f"beyond its bound: {', '.join(beyond)}", style="red", highlight=False)
        raise typer.Exit(1)


def _show_edge(result: dict[str, Any]) -> None:
    from fleetpulse.bench.edge import rows
    from fleetpulse.commands.output import table

    out.print(table("The edge", ("part", "figure", "value"), rows(result)))
