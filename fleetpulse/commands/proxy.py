"""The command ``proxy``: requests to engines, passed through and counted."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetpulse.commands.edge import Spool
from fleetpulse.commands.services import HealthPort


def proxy(
    upstream: Annotated[
        list[str] | None,
        typer.Option(metavar="URL[=WEIGHT]", help="An engine; several share the requests by weight."),
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

    flags: dict[str, object] = {
        "host": host,
        "port": port,
        "ask_usage": ask_usage,
        "tenant_from": tenant_from,
        "log_requests": log_requests,
        "health_port": health_port,
    }
    run_proxy(upstream or (), flags, spool)
