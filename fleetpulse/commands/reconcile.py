"""``fleetpulse reconcile``: the books, added up."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetpulse.commands.output import Result, answers, out
from fleetpulse.commands.output import show as shown
from fleetpulse.commands.progress import spinner


@answers
def reconcile(
    wait: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for what is still on its way.")] = 60.0,
    raw: Annotated[bool, typer.Option("--raw/--no-raw", help="Also check raw events.")] = True,
) -> Result:
    """Add up the producers' books, the job's books and every table. Exit 0 only when all agree exactly.

    Producers may run meanwhile: what they had produced when it began is compared, as soon as it has landed.

    Example: [bold]fleetpulse reconcile --json[/bold]
    """
    from fleetpulse.reconcile.compare import reconcile as run_reconcile
    from runtime.config import load

    config = load()
    with spinner("comparing; what is on its way is waited for"):
        report = run_reconcile(config.kafka, config.clickhouse, wait_s=wait, raw=raw, limits=config.limits)

    def show() -> None:
        out.print(shown(report.text()), markup=False, highlight=False, soft_wrap=True)

    return Result(report.as_dict(), show, wrong=not report.exact)
