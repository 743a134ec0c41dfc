"""Commands for services: the stream jobs and the sink, one process each."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """What hosts the steps."""

    FAUST = "faust"
    BARE = "bare"


class Job(StrEnum):
    """Which job to run."""

    WINDOWS = "windows"


HealthPort = Annotated[
    int | None,
    typer.Option("--health-port", min=0, max=65_535, help="Serve /healthz /readyz /metrics here; 0 picks one."),
]


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    for command in (jobs, sink):
        app.command(rich_help_panel="Services")(command)


def jobs(
    job: Annotated[Job, typer.Argument(help="Which job.")] = Job.WINDOWS,
    shell: Annotated[
        Shell, typer.Option(help="Host the steps in a Faust worker or in a bare aiokafka loop.")
    ] = Shell.FAUST,
    name: Annotated[
        str, typer.Option(help="Name of this worker; keep it over restarts (static membership).")
    ] = "worker-0",
    health_port: HealthPort = None,
) -> None:
    """Run a stream job until SIGTERM. Run as many as there are source partitions; give each its own name.

    Exit 70 means that a doubt ended it: a supervisor must start it again after 2 s, always (docs/running.md).

    Example: [bold]fleetpulse jobs windows --name worker-1[/bold]
    """
    from fleetpulse.services import run_job

    run_job(job.value, shell.value, name, health_port)


def sink(
    raw: Annotated[bool, typer.Option("--raw/--no-raw", help="Also keep raw events.")] = True,
    rollups: Annotated[
        bool, typer.Option("--rollups/--no-rollups", help="Also keep rollups up to date; one sink of many is enough.")
    ] = True,
    health_port: HealthPort = None,
) -> None:
    """Land topics in ClickHouse and keep rollups up to date, until SIGTERM.

    Example: [bold]fleetpulse sink --no-raw[/bold]
    """
    from fleetpulse.services import run_sink_service

    run_sink_service(raw=raw, roll=rollups, health_port=health_port)
