"""Commands for the local stack: Kafka and ClickHouse without Docker, topics and tables."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetpulse.commands.output import Result, answers, for_program, out, print_rows, spoken
from fleetpulse.commands.progress import spinner

if TYPE_CHECKING:
    from fleetpulse.migrate.plan import Plan
    from fleetpulse.stack import PartStatus

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where the stack lives. Default: .fleetpulse in a checkout.")
]


@spoken
def up(
    data_dir: DataDir = None,
    new_ports: Annotated[
        bool, typer.Option("--new-ports", help="Choose other ports first, if the stack is down.")
    ] = False,
    brokers: Annotated[
        int | None,
        typer.Option(min=1, max=9, help="Brokers of Kafka, decided when the stack is made. Default: as it is, or 1."),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=9, help="Shards of ClickHouse, likewise. Default: as it is, or 1.")
    ] = None,
) -> None:
    """Start Kafka and ClickHouse on this machine and bring topics and tables up to date. Safe to repeat.

    Example: [bold]fleetpulse up[/bold]
    [bold]fleetpulse up --brokers 3 --shards 2 --data-dir cluster[/bold]
    """
    from fleetpulse.migrate.bring_up import bring_up

    migrated: list[Plan] = []
    with spinner("starting the local stack") as on_progress:
        config = bring_up(
            data_dir, on_progress, new_ports=new_ports, brokers=brokers, shards=shards, on_migrated=migrated.append
        )
    out.print(f"Kafka      {config.kafka.bootstrap}", highlight=False)
    out.print(f"ClickHouse {config.clickhouse.url} (people log in as {config.reading.user})", highlight=False)
    for plan in migrated:
        if plan.left or plan.notes:
            _print(replace(plan, steps=()))
        if plan.left:
            _print("`fleetpulse migrate --yes` does what is not done")


@spoken
def down(data_dir: DataDir = None) -> None:
    """Stop the local stack; data stays.

    Example: [bold]fleetpulse down[/bold]
    """
    from fleetpulse import stack
    from runtime.config import load

    stack.down(load({"data_dir": data_dir}).data_dir)


@answers
def status(data_dir: DataDir = None) -> Result:
    """What of the local stack runs. Exit 1 when a part that should run does not.

    Example: [bold]fleetpulse status --json[/bold]
    """
    from fleetpulse import stack
    from runtime.config import load

    found = stack.status(load({"data_dir": data_dir}).data_dir)
    rows = [(part.name, _state_of(part), part.pid, _mebibytes(part.memory_bytes), part.address) for part in found.parts]
    columns = ("part", "state", "pid", "memory", "address")
    show = partial(print_rows, "Local stack", columns, rows, empty="no parts")
    return Result(asdict(found), show, wrong=not found.running)


def _state_of(part: PartStatus) -> str:
    if not part.running:
        return "down"
    return "ready" if part.ready else "running, does not answer"


def _mebibytes(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else f"{size_bytes >> 20:,} MiB"


@answers
def migrate(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done and do nothing.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Shorten how long rows and records are kept without a question.")
    ] = False,
    servers: Annotated[
        list[str] | None,
        typer.Option(
            "--clickhouse", help="URL of one more ClickHouse server to migrate: a shard or a copy. Repeatable."
        ),
    ] = None,
    reader: Annotated[
        bool, typer.Option("--reader", help="Limit the user of clickhouse_reader too: its rights and its profile.")
    ] = False,
    acls: Annotated[
        list[str] | None,
        typer.Option(
            "--acls",
            metavar="ROLE=LOGIN",
            help="Give a login of Kafka the rights of a role: edge, gateway, jobs, sink, "
            "deliver, people or migrate. Repeatable.",
        ),
    ] = None,
) -> Result:
    """Bring topics, tables and how long both keep data to this version and its configuration. Safe to repeat.

    Exit 1 when something is left undone because it needs consent. --reader needs a writer who may manage users, and
    --acls a login that may alter Kafka's access lists.

    Example: [bold]FLEETPULSE_KAFKA__BOOTSTRAP=kafka-1:9092 fleetpulse migrate --dry-run[/bold]
    [bold]fleetpulse migrate --acls edge=User:CN=gpu-nodes --acls jobs=jobs --acls sink=sink[/bold]
    """
    from fleetpulse.migrate.logins import logins_of
    from fleetpulse.migrate.plan import Plan
    from fleetpulse.migrate.reader import limit_reader
    from fleetpulse.migrate.run import migrate as run_migration
    from runtime.config import load

    config = load()
    others = [config.clickhouse.at(url) for url in servers or ()]
    run = partial(
        run_migration,
        config.kafka,
        config.clickhouse,
        partitions=config.partitions,
        limits=config.limits,
        servers=others,
        acls=logins_of(acls or ()),
    )
    if not (yes or dry_run or for_program()) and out.is_terminal and (removing := run(dry_run=True).removing):
        _print(Plan(removing))
        yes = typer.confirm("Older rows and records are removed for good. Continue?")
    plan = run(dry_run=dry_run, yes=yes)
    if reader:
        plan = replace(plan, notes=(*plan.notes, *limit_reader(config, others, dry_run=dry_run)))
    return Result({"dry_run": dry_run, **plan.data()}, lambda: _print(plan), wrong=bool(plan.left))


def _print(plan: Plan | str) -> None:
    out.print(str(plan), markup=False, highlight=False, soft_wrap=True)
