"""Commands for the local stack: Kafka and ClickHouse without Docker, topics and tables."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetpulse.commands.output import err, out, print_json, print_rows, spoken

if TYPE_CHECKING:
    from fleetpulse.stack import PartStatus

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where the stack lives. Default: .fleetpulse in a checkout.")
]


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    for command in (up, down, status, migrate):
        app.command(rich_help_panel="Local stack")(spoken(command))


def up(
    data_dir: DataDir = None,
    new_ports: Annotated[
        bool, typer.Option("--new-ports", help="Choose other ports first, if the stack is down.")
    ] = False,
) -> None:
    """Start Kafka and ClickHouse on this machine and bring topics and tables up to date. Safe to repeat.

    Example: [bold]fleetpulse up[/bold]
    """
    from fleetpulse.bring_up import bring_up

    with err.status("starting the local stack") as spinner:
        config = bring_up(data_dir, spinner.update, new_ports=new_ports)
    out.print(f"Kafka      {config.kafka.bootstrap}", highlight=False)
    out.print(f"ClickHouse {config.clickhouse.url} (people log in as {config.reading.user})", highlight=False)


def down(data_dir: DataDir = None) -> None:
    """Stop the local stack; data stays.

    Example: [bold]fleetpulse down[/bold]
    """
    from fleetpulse import stack
    from runtime.config import load

    stack.down(load({"data_dir": data_dir}).data_dir)


def status(
    data_dir: DataDir = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """What of the local stack runs. Exit 1 when a part that should run does not.

    Example: [bold]fleetpulse status --json[/bold]
    """
    from fleetpulse import stack
    from runtime.config import load

    found = stack.status(load({"data_dir": data_dir}).data_dir)
    if json:
        print_json(asdict(found))
    else:
        rows = [
            (part.name, _state_of(part), part.pid, _mebibytes(part.memory_bytes), part.address) for part in found.parts
        ]
        print_rows("Local stack", ("part", "state", "pid", "memory", "address"), rows, empty="no parts")
    if not found.running:
        raise typer.Exit(1)


def _state_of(part: PartStatus) -> str:
    if not part.running:
        return "down"
    return "ready" if part.ready else "running, does not answer"


def _mebibytes(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else f"{size_bytes >> 20:,} MiB"


def migrate(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and do nothing.")] = False,
) -> None:
    """Create topics and tables, or bring them up to date, on any cluster the configuration names.

    Example: [bold]FLEETPULSE_KAFKA__BOOTSTRAP=kafka-1:9092 fleetpulse migrate --dry-run[/bold]
    """
    from fleetpulse.migrate import migrate as run_migration
    from runtime.config import load

    config = load()
    plan = run_migration(
        config.kafka, config.clickhouse, dry_run=dry_run, partitions=config.partitions, limits=config.limits
    )
    out.print(str(plan), markup=False, highlight=False, soft_wrap=True)
