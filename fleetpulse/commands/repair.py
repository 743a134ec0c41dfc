"""``fleetpulse repair``: a copy of the database is filled from another."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetpulse.commands.output import Result, answers, out
from fleetpulse.commands.people import duration_ms
from fleetpulse.commands.progress import spinner


@answers
def repair(
    source: Annotated[str, typer.Option("--from", help="URL of the ClickHouse server that has the rows.")],
    target: Annotated[str, typer.Option("--to", help="URL of the one that lacks them.")],
    last: Annotated[str, typer.Option(help="How far back, such as 24h or 30d.")] = "24h",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print how many hours of which tables differ.")
    ] = False,
) -> Result:
    """Fill a copy with what another has and Kafka no longer holds. Safe to repeat, and beside running sinks.

    Rollups of what was copied are computed again by the copy's own sink.

    Example: [bold]fleetpulse repair --from http://ch-a:8123 --to http://ch-b:8123 --last 7d[/bold]
    """
    from dataclasses import asdict

    from fleetpulse.alerts.actions import record_run
    from fleetpulse.repair.run import repair as run_repair
    from runtime.clock import SystemClock
    from runtime.config import load

    config, now_ms = load(), SystemClock().now_ms()
    there, here = config.clickhouse.at(source), config.clickhouse.at(target)
    span_ms = now_ms - duration_ms(last), now_ms
    if not dry_run:
        record_run(config.kafka, "repair", {"--from": source, "--to": target, "--last": last})
    with spinner("comparing tables by the hour"):
        found = run_repair(
            there,
            here,
            span_ms,
            config.limits,
            dry_run=dry_run,
        )
    shown = [(one, " differ" if one.rows is None else f", {one.rows:,} rows") for one in found.filled]
    lines = [f"{one.table}: {one.hours} hours{rows}" for one, rows in shown]
    lines = lines or [f"--to lacks nothing that --from has, in {len(found.ahead)} tables"]
    ahead = {table: hours for table, hours in found.ahead.items() if hours}
    if ahead:
        lacks = ", ".join(f"{table} {hours}" for table, hours in ahead.items())
        lines.append(f"--from has nothing of hours that --to has: {lacks}; that is a repair the other way round")
    data = {"dry_run": dry_run, "filled": [asdict(one) for one in found.filled], "ahead_hours": ahead}
    return Result(data, lambda: out.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True))
