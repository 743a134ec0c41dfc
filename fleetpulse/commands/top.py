"""The command that shows the fleet as it is now."""

from __future__ import annotations

import sys
from contextlib import closing
from enum import StrEnum
from typing import Annotated

import typer

from fleetpulse.commands.output import Result, answers, err, for_program, out, print_whole
from runtime.clock import SystemClock
from schemas.errors import ConfigError
from schemas.limits import MINUTE_MS

ROWS = 50
"""Of a table, where nobody says how many."""


class By(StrEnum):
    """What a row is."""

    GPU = "gpu"
    HOST = "host"


@answers
def top(
    by: Annotated[By, typer.Option(help="A row for each GPU or for each host.")] = By.GPU,
    sort: Annotated[str, typer.Option(help="Column to sort by, such as 'util %', 'temp C', waiting.")] = "util %",
    rising: Annotated[bool, typer.Option("--rising", help="The other way round.")] = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, max=20_000, help="Rows: without it 50 of a table, and with --json all."),
    ] = None,
    every: Annotated[float, typer.Option(min=1, max=3_600, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the table once and end.")] = False,
) -> Result | None:
    """The fleet as it is now, like htop: GPUs or hosts by any column, the worst on top. q ends it.

    Shows GPUs that reported in the last five minutes. Without a terminal it prints once.

    Example: [bold]fleetpulse top[/bold], [bold]fleetpulse top --by host --sort "temp C" --once[/bold]
    """
    from fleetpulse.commands.elsewhere import label_utc
    from fleetpulse.sql.database import Database
    from fleetpulse.sql.lookups import lacking
    from fleetpulse.top import table as showing
    from fleetpulse.top.screen import run
    from runtime.config import load

    if sort not in showing.HEADINGS:
        raise ConfigError("--sort", sort, f"must be one of {', '.join(showing.HEADINGS)}")
    view = showing.View(by.value, sort, rising)
    with closing(Database(load().reading)) as database:
        if not (once or for_program()) and out.is_interactive and sys.stdin.isatty():
            run(lambda view: database.sql(showing.sql(view)).records(), view, out, SystemClock(), every_s=every)
            return None
        gpus = database.sql(showing.sql(view)).records()
        now_ms = SystemClock().now_ms()
        without = None if gpus else lacking(database, ["GPU readings"], (now_ms - 5 * MINUTE_MS, now_ms))
    if gpus:
        rows = showing.table_of(gpus, view)
        shown = rows[: limit or (None if for_program() else ROWS)]
        if len(shown) < len(rows):
            err.print(f"{len(shown):,} of {len(rows):,} rows; --limit for more", highlight=False)
        if len(gpus) == showing.GPUS_MAX:
            err.print(f"the first {showing.GPUS_MAX:,} GPUs alone; there may be more", highlight=False)
        return Result(shown, lambda: print_whole(showing.drawn(gpus, view, len(shown))))
    quiet = "no GPU reported in the last five minutes; is an agent running? Try fleetpulse simulate"
    held = f"data covers {label_utc(*without.held[-1])}" if without and without.held else "none ever did"
    return Result([], lambda: err.print(f"{quiet}\n{held}", markup=False, highlight=False, soft_wrap=True))
