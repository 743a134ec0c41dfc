"""``fleetpulse bench alerts``: the command."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fleetpulse.bench.telling import DataDir, Json, Results, Seed, finish
from fleetpulse.commands.output import out


def alerts(
    hosts: Annotated[int, typer.Option(min=8, max=1_250, help="Hosts of eight GPUs.")] = 312,
    seconds: Annotated[int, typer.Option(min=90, max=3_600, help="How long the fleet runs.")] = 180,
    seed: Seed = 1,
    json: Json = False,
    results: Results = None,
    data_dir: DataDir = None,
) -> None:
    """How soon alerts stand on their topic while a fleet runs and GPUs fail. Exit 1 beyond a bound.

    Example: [bold]fleetpulse bench alerts --hosts 312 --seconds 180[/bold]
    """
    from fleetpulse.bench.alerting import measure
    from fleetpulse.bench.progress import Progress

    with Progress() as progress:
        result = measure(data_dir, hosts, seconds, seed, progress)
    finish("alerts", result, seed, json=json, results=results, show=lambda: _show(result))
    if not all(result["within"].values()):
        raise typer.Exit(1)


def _show(result: dict[str, Any]) -> None:
    from fleetpulse.commands.output import table

    columns = ("by", "p50_s", "p99_s", "max_s", "count")
    rows = [(name, *(result[name][key] for key in columns[1:])) for name in ("events", "rules", "finals")]
    title = "From a GPU's loss, and from a window's last finals, to the alert; from a window's end to its last finals"
    out.print(table(title, columns, rows))
