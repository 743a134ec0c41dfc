"""``fleetpulse bench dashboard``: the command."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fleetpulse.bench.telling import DataDir, Json, Results, Seed, finish
from fleetpulse.commands.output import err, out


def dashboard(
    gpus: Annotated[int, typer.Option(min=8, max=100_000, help="GPUs of the history, eight to a host.")] = 10_000,
    hours: Annotated[int, typer.Option(min=1, max=48, help="Hours of history, each level as far as it is read.")] = 1,
    times: Annotated[int, typer.Option(min=3, max=1_000, help="How often each query and page is asked.")] = 20,
    seed: Seed = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the filled tables on disk, for --kept.")] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="Ask the tables that an earlier --keep filled (same GPUs, hours and seed).")
    ] = False,
    ask: Annotated[bool, typer.Option(help="With --no-ask --keep only fill, and ask another time.")] = True,
    json: Json = False,
    results: Results = None,
    data_dir: DataDir = None,
) -> None:
    """How long every query of the dashboard and every page takes over a big fleet. Exit 1 beyond a bound,
    or when a query finds nothing.

    Filling takes minutes. To ask another time: [bold]--keep --no-ask[/bold], then [bold]--kept[/bold].

    Example: [bold]fleetpulse bench dashboard --gpus 10000 --hours 24[/bold]
    """
    from fleetpulse.bench.dashboard import Asked, measure
    from fleetpulse.bench.progress import Progress

    asked = Asked(gpus - gpus % 8, hours, times, seed, keep, kept, ask)
    with Progress() as progress:
        result = measure(data_dir, asked, progress)
    if not ask:
        err.print(f"filled with {result['rows']:,} rows; ask them with --kept", style="dim", highlight=False)
        return
    finish("dashboard", result, seed, json=json, results=results, show=lambda: _show(result))
    wrong = {
        "beyond its bound": result["beyond"],
        "tables that queries read and nothing was filled into": result["empty_tables"],
        "found nothing, so their time says nothing": result["found_nothing"],
    }
    for what, names in wrong.items():
        if names:
            err.print(f"{what}: {', '.join(names)}", style="red", highlight=False)
    if any(wrong.values()):
        raise typer.Exit(1)


def _show(result: dict[str, Any]) -> None:
    from fleetpulse.commands.output import table

    rows = [(name, one["p50_ms"], one["p95_ms"], one.get("refused")) for name, one in result["queries"].items()]
    rows += [(path, one["p50_ms"], one["p95_ms"], None) for path, one in (result["pages"] or {}).items()]
    title = f"Dashboard over {result['gpus']:,} GPUs, {result['hours']} h"
    out.print(table(title, ("query or page", "p50 ms", "p95 ms", "refused"), rows))
