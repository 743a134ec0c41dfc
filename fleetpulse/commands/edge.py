"""``fleetpulse agent``: this host, its GPUs and its engines."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fleetpulse.commands.output import Result, answers, print_rows

Spool = Annotated[
    Path | None, typer.Option("--spool", help="Folder of the disk spool. Default: a folder in the data directory.")
]
Seconds = Annotated[float | None, typer.Option("--seconds", min=0.1, help="Stop after so long. Default: until Ctrl-C.")]


@answers
def agent(
    probe: Annotated[
        bool, typer.Option("--probe", help="Print what would be collected, and why not; then end.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Collect one round, print it as JSON lines, publish nothing.")
    ] = False,
    spool: Spool = None,
    seconds: Seconds = None,
    health_port: Annotated[
        int | None,
        typer.Option("--health-port", min=0, max=65_535, help="Serve /healthz /readyz /metrics here; 0 picks one."),
    ] = None,
) -> Result | None:
    """Measure this host, its GPUs and its engines, and take the requests of its applications.

    What is collected is probed for; section agent of fleetpulse.toml (or FLEETPULSE_AGENT__*) says otherwise.

    Example:

    [bold]fleetpulse agent --probe[/bold]   what would be collected here

    [bold]fleetpulse agent --once | jq .[/bold]   one round, to standard output

    [bold]fleetpulse agent --spool /var/lib/fleetpulse/spool --health-port 9464[/bold]   the service

    [bold]FLEETPULSE_AGENT__CLUSTER=eu-1 FLEETPULSE_AGENT__COLLECTORS__DCGM=on fleetpulse agent[/bold]
    """
    from fleetpulse.services import edge

    if probe:
        findings = edge.probe()
        rows = [(each.name, "yes" if each.chosen else "no", each.switch, each.reason) for each in findings]
        columns = ("source", "collected", "switch", "why")
        show = partial(print_rows, "Collected on this host", columns, rows, empty="There are no sources.")
        return Result([asdict(finding) for finding in findings], show)
    if once:
        edge.run_once()
    else:
        edge.run_agent_service(spool, seconds, health_port)
    return None
