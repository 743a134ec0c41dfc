"""``fleetpulse reconcile``: the books, added up."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetpulse.commands.output import Result, answers, out


@answers
def reconcile(
    wait: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for what is still on its way.")] = 15.0,
    raw: Annotated[bool, typer.Option("--raw/--no-raw", help="Also check raw events.")] = True,
) -> Result:
    """Add up the producers' books, the job's books and every table. Exit 0 only when all agree exactly.

    Example: [bold]fleetpulse reconcile --json[/bold]
    """
    from fleetpulse.reconcile.compare import reconcile as run_reconcile
    from runtime.config import load

    config = load()
    report = run_reconcile(config.kafka, config.clickhouse, wait_s=wait, raw=raw, limits=config.limits)
    return Result(report.as_dict(), lambda: out.print(report.text(), markup=False), wrong=not report.exact)
