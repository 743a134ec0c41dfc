"""The commands ``export``: metrics of windows for other systems."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetpulse.commands.services import HealthPort

group = typer.Typer(no_args_is_help=True, help="Send metrics of windows to other systems.")


@group.command()
def prometheus(
    url: Annotated[
        str | None, typer.Option(help="Where to write: http://prometheus:9090/api/v1/write; else remote_write.url.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Send what has settled by now, and exit; with 1 if samples were rejected.")
    ] = False,
    health_port: HealthPort = None,
) -> None:
    """Write each window's metrics of models, engines and GPUs to Prometheus by remote write, until SIGTERM.

    Prometheus takes them with --web.enable-remote-write-receiver; Mimir, Thanos and VictoriaMetrics at addresses of
    their own. One process is enough; how far it came is kept in the data directory (how-to/metrics-out.md).

    Example: [bold]fleetpulse export prometheus --url http://127.0.0.1:9090/api/v1/write[/bold]
    """
    from fleetpulse.services.export import run_export

    run_export(url, health_port, once=once)
