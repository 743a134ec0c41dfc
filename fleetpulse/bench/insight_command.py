"""The command ``fleetpulse bench insight``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fleetpulse.bench.telling import Json, Results, Seed, finish
from fleetpulse.commands.output import err, out


def insight(
    series: Annotated[int, typer.Option(min=100, max=1_000_000, help="Series under each rule.")] = 100_000,
    windows: Annotated[int, typer.Option(min=1, max=10_000, help="Windows that are measured.")] = 10,
    seed: Seed = 1,
    json: Json = False,
    results: Results = None,
) -> None:
    """Baselines and rules on one core: series-windows a second, memory per series, snapshot. Exit 1 beyond a bound.

    Example: [bold]fleetpulse bench insight --series 100000 --json[/bold]
    """
    from fleetpulse.bench import insight as measuring
    from fleetpulse.bench.progress import Progress

    with Progress() as progress:
        result = measuring.measure(series, windows, seed, progress.say)
    finish("insight", result, seed, json=json, results=results, show=lambda: _show(result))
    if beyond := measuring.outside(result):
        err.print(f"beyond its bound: {', '.join(beyond)}", style="red", highlight=False)
        raise typer.Exit(1)


def _show(result: dict[str, Any]) -> None:
    from fleetpulse.bench.insight import rows
    from fleetpulse.commands.output import table

    title = f"Insight: {result['series']:,} series a rule, {result['windows']} windows, one core"
    out.print(table(title, ("figure", "value", "bound"), rows(result)))
