"""Commands of the edge: the agent, for a host, its GPUs and engines, and the proxy before engines."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fleetpulse.commands.output import Result, answers, print_rows
from fleetpulse.commands.services import HealthPort

Spool = Annotated[
    Path | None, typer.Option("--spool", help="Folder of the disk spool. Default: a folder in the data directory.")
]
Seconds = Annotated[float | None, typer.Option("--seconds", min=0.1, help="Stop after so long. Default: until Ctrl-C.")]


@answers
def agent(
    probe: Annotated[
        bool, typer.Option("--probe", help="Print what would be collected, why not, flags that a vLLM lacks; then end.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Collect one round, print it as JSON lines, publish nothing.")
    ] = False,
    spool: Spool = None,
    seconds: Seconds = None,
    health_port: HealthPort = None,
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


def proxy(
    upstream: Annotated[
        list[str] | None, typer.Option(metavar="URL[=WEIGHT]", help="An engine; several share the requests by weight.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="0 takes a free one. Default: 8800.")] = None,
    ask_usage: Annotated[
        bool | None,
        typer.Option("--ask-usage/--no-ask-usage", help="Ask engines for token counts at the end of streams."),
    ] = None,
    tenant_from: Annotated[
        str | None,
        typer.Option(
            help="api_key (hashed), header:NAME, none, or unverified_jwt:CLAIM, whose signature is NOT checked."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Processes that serve, for more than one core. Default: 1.")
    ] = None,
    log_requests: Annotated[
        bool | None, typer.Option("--log-requests/--no-log-requests", help="One JSON line for each finished request.")
    ] = None,
    spool: Spool = None,
    health_port: HealthPort = None,
) -> None:
    """Stand between clients and OpenAI-compatible engines: every byte passed on at once, every request counted.

    Limits are settings of the section [bold]proxy[/bold]; prompts and answers are never stored or logged.

    Example: [bold]fleetpulse proxy --upstream http://127.0.0.1:8000 --port 8800[/bold]
    """
    from fleetpulse.services.proxy import run_proxy
    from fleetpulse.services.proxy_workers import run_workers
    from runtime.config import load

    flags: dict[str, object] = {
        "host": host,
        "port": port,
        "ask_usage": ask_usage,
        "tenant_from": tenant_from,
        "workers": workers,
        "log_requests": log_requests,
        "health_port": health_port,
    }
    run = run_workers if (workers or load().proxy.workers) > 1 else run_proxy
    run(upstream or (), flags, spool)
