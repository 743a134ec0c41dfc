"""Commands for services: the stream jobs and the sink, one process each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetpulse.commands.output import until_reader_goes
from fleetpulse.commands.progress import Progress


class Shell(StrEnum):
    """What runs the steps."""

    FAUST = "faust"
    BARE = "bare"


class Job(StrEnum):
    """Which job to run."""

    WINDOWS = "windows"
    FINALS = "finals"
    ALERTS = "alerts"
    COSTS = "costs"
    ALL = "all"
    RESET = "reset"


def file_option(help: str) -> Any:
    """An option that takes a file which exists."""
    return typer.Option(help=help, exists=True, dir_okay=False)


HealthPort = Annotated[
    int | None,
    typer.Option("--health-port", min=0, max=65_535, help="Serve /healthz /readyz /metrics here; 0 picks one."),
]


def jobs(
    job: Annotated[
        Job,
        typer.Argument(
            help="windows: events to partial rows; finals: these to whole windows; alerts: these to alerts; "
            "costs: GPU time and usage to bills; all: each in a child process, started again when it ends; "
            "reset: a quarantined partition goes on, see --partition."
        ),
    ] = Job.WINDOWS,
    shell: Annotated[
        Shell, typer.Option(help="Run the steps in a Faust worker or in a bare aiokafka loop.")
    ] = Shell.FAUST,
    name: Annotated[
        str, typer.Option(help="Name of this worker; keep it over restarts (static membership).")
    ] = "worker-0",
    rules: Annotated[
        Path | None,
        file_option("alerts: rules; else the configured or shipped ones; windows: judge goodput by their SLO classes."),
    ] = None,
    prices: Annotated[
        Path | None, file_option("costs: a file of prices; else the configured one, or an example.")
    ] = None,
    budgets: Annotated[
        Path | None, file_option("alerts: a file of budgets to watch; without it that of the configuration, if any.")
    ] = None,
    health_port: HealthPort = None,
    partition: Annotated[str | None, typer.Option(help="reset: the source partition, TOPIC:N.")] = None,
    to: Annotated[
        str,
        typer.Option(help="reset: where to go on: earliest (the first record that was never counted), latest, OFFSET."),
    ] = "earliest",
    of: Annotated[str | None, typer.Option(help="reset: of which job, where several read the topic.")] = None,
    same_topic: Annotated[
        bool, typer.Option("--same-topic", help="reset: the topic is a copy with the offsets of the one counted.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="reset: do it; without it, only what it costs is shown.")] = False,
) -> None:
    """Run a stream job until SIGTERM. Run as many as there are source partitions; give each its own name.

    Exit 70 means a fatal error: a supervisor must restart it after 2 s, always (docs/how-to/running.md).

    Example: [bold]fleetpulse jobs windows --name worker-1[/bold], [bold]fleetpulse jobs all[/bold],
    [bold]fleetpulse jobs reset --partition llm.requests:3 --to earliest[/bold]
    """
    given = {"rules": rules, "prices": prices, "budgets": budgets}
    files = {option: path for option, path in given.items() if path is not None}
    if job is Job.RESET:
        _reset(partition, to, of, files, same_topic=same_topic, yes=yes)
        return
    from fleetpulse.services.compile_ahead import provide
    from fleetpulse.services.jobs_and_sink import run_all_jobs, run_job

    provide()

    if job is Job.ALL:
        run_all_jobs(shell.value, name, health_port, files)
    else:
        run_job(job.value, shell.value, name, health_port, files)


def _reset(
    partition: str | None, to: str, of: str | None, files: Mapping[str, Path], *, same_topic: bool, yes: bool
) -> None:
    import asyncio

    from fleetpulse.alerts.actions import record_run
    from fleetpulse.services.reset_partition import Cost, job_of, place_of, reset_partition
    from runtime.config import load
    from stream_jobs.runner.reset import check_to

    check_to(to)
    place = place_of(partition or "")
    job = job_of(place[0], of)

    def confirmed(cost: Cost) -> bool:
        with until_reader_goes():
            for line in cost.lines():
                typer.echo(line)
        return yes

    config = load()
    if yes:
        given = {"--partition": f"{place[0]}:{place[1]}", "--to": to, "--of": job, "--same-topic": same_topic or None}
        record_run(config.kafka, "jobs reset", given)
    _cost, done = asyncio.run(reset_partition(config, job, place, to, confirmed, files, same_topic=same_topic))
    with until_reader_goes():
        typer.echo(f"done: {job} goes on with {place[0]}/{place[1]}" if done else "nothing was changed: --yes does it")
    if not done:
        raise typer.Exit(1)


def sink(
    raw: Annotated[bool, typer.Option("--raw/--no-raw", help="Also keep raw events.")] = True,
    rollups: Annotated[
        bool, typer.Option("--rollups/--no-rollups", help="Also keep rollups up to date; several sinks share them.")
    ] = True,
    replica: Annotated[
        str, typer.Option(help="Feed a copy of the database, by consumer groups of this name; with --clickhouse.")
    ] = "",
    clickhouse: Annotated[str | None, typer.Option(help="URL of the copy's ClickHouse; the login is the same.")] = None,
    health_port: HealthPort = None,
) -> None:
    """Land topics in ClickHouse and keep rollups up to date, until SIGTERM.

    Example: [bold]fleetpulse sink --no-raw[/bold]
    """
    from fleetpulse.services.compile_ahead import provide
    from fleetpulse.services.jobs_and_sink import run_sink_service

    provide()
    run_sink_service(raw=raw, roll=rollups, health_port=health_port, replica=replica, url=clickhouse)


def compile_ahead(
    groups: Annotated[
        list[str] | None, typer.Argument(help="Of which commands: jobs, simulate; all by default.")
    ] = None,
) -> None:
    """Compile the loops of jobs (and simulator) ahead of time, for a quick first start; again, it only loads them.

    The cache is beside the modules, or in NUMBA_CACHE_DIR; NUMBA_CPU_NAME makes one for other processors.

    Example: [bold]fleetpulse compile[/bold], [bold]NUMBA_CACHE_DIR=/opt/numba fleetpulse compile[/bold]
    """
    from fleetpulse.services.compile_ahead import group_of, parts

    known = parts()
    unknown = sorted(set(groups or ()) - set(map(group_of, known)))
    if unknown:
        raise typer.BadParameter(f"nothing to compile for {', '.join(unknown)}", param_hint="GROUPS")
    found = {part: compiled for part, compiled in known.items() if not groups or group_of(part) in groups}
    with Progress() as progress, progress.task("compile") as report:
        for done, compiled in enumerate(found.values(), 1):
            compiled()
            report(done, len(found))
