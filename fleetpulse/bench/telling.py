"""What the measurements' commands share: their options, and how a result is kept and shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetpulse.commands.output import err, print_json

Json = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where the local stack lives; the bench uses bench/ below it.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the bench's Kafka and ClickHouse running.")]
Seed = Annotated[int, typer.Option(help="Same seed, same events.")]
Results = Annotated[
    Path | None, typer.Option("--results", help="Folder for the result. Default: bench/results of a checkout.")
]


def finish(
    name: str, result: dict[str, Any], seed: int, *, json: bool, results: Path | None, show: Callable[[], None]
) -> None:
    """Keep a result with what it depends on, and print it."""
    from fleetpulse.bench.results import keep, plain, surroundings

    whole = {"measurement": name, **surroundings(seed), **result}
    kept = keep(name, whole, results)
    if json:
        print_json(plain(whole))
    else:
        show()
    if kept is not None:
        err.print(f"kept in {kept}", style="dim", highlight=False)
