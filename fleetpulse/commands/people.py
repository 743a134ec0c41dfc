"""Commands for people: percentiles, a look into topics, what was rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from typing import Annotated, Any

import typer

from fleetpulse.commands.output import Result, answers, err, print_rows, spoken
from runtime.clock import SystemClock
from schemas.errors import ConfigError

Last = Annotated[str, typer.Option("--last", help="How far back to look: 30s, 15m, 2h, 1d.")]
From = Annotated[str | None, typer.Option("--from", help="Begin: 2026-01-31 (midnight UTC) or 2026-01-31T06:00:00Z.")]
To = Annotated[str | None, typer.Option("--to", help="End, likewise, itself not in the range; without it now.")]
AsWriter = Annotated[
    bool, typer.Option("--as-writer", help="Run people's SQL as the writer where no reader is configured.")
]
_DIGITS_MAX = 6
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

rejected = typer.Typer(no_args_is_help=True, help="Events that were rejected, and why.")


def duration_ms(text: str) -> int:
    """Milliseconds of ``90s``, ``15m``, ``2h`` or ``1d``; raises ``ConfigError`` for anything else."""
    number, unit = text[:-1], text[-1:]
    if (
        not (number.isascii() and number.isdigit())
        or len(number) > _DIGITS_MAX
        or unit not in _UNIT_MS
        or int(number) == 0
    ):
        raise ConfigError("--last", text, "must be a whole number above 0 with a unit: 30s, 15m, 2h or 1d")
    return int(number) * _UNIT_MS[unit]


@answers
def percentiles(
    measure: Annotated[str, typer.Argument(help="ttft_us, tpot_us, e2e_us or queue_us.")] = "ttft_us",
    by: Annotated[str, typer.Option(help="A dimension of requests, such as model, tenant, region, status.")] = "model",
    last: Last = "1h",
    from_: From = None,
    to: To = None,
) -> Result:
    """Percentiles of a latency, by any dimension, over any range, with the number of values that went in.

    One of too few values reads *few*: p99 below 100, p99.9 below 1,000. With --json they are all there.

    Example: [bold]fleetpulse percentiles ttft_us --by tenant --last 15m[/bold]
    """
    from fleetpulse.commands.elsewhere import elsewhere, label_utc
    from fleetpulse.report.gather import span
    from fleetpulse.sql.database import Database
    from fleetpulse.sql.lookups import lacking
    from fleetpulse.sql.query import Query, at_limit, percentiles_sql, readable
    from runtime.config import load

    sql, range_ms, now_ms = percentiles_sql(measure, by), duration_ms(last), SystemClock().now_ms()
    given = from_ is not None or to is not None
    begin_ms, end_ms = span(range_ms, from_, to, now_ms) if given else (max(0, now_ms - range_ms), now_ms)
    with closing(Database(load().reading)) as database:
        answer = database.sql(sql, {"from_ms": begin_ms, "to_ms": end_ms})
        if full := at_limit(Query(sql, {}), len(answer.rows)):
            err.print(full, markup=False, highlight=False)
        without = None if answer.rows else lacking(database, ["requests"], (begin_ms, end_ms))
    title = f"{measure} by {by}, {label_utc(begin_ms, end_ms) if given else f'last {last}'}"
    again = elsewhere(without, f"fleetpulse percentiles {measure} --by {by}")
    empty = "\n".join([f"{title}: no requests with that measure", *again])
    return Result(answer.records(), lambda: print_rows(title, answer.columns, readable(answer), empty=empty))


@spoken
def tail(
    topic: Annotated[str, typer.Argument(help="A topic of the contract, such as llm.requests or window.partials.")],
    records: Annotated[
        int, typer.Option("--records", "-n", min=1, max=10_000, help="The newest so many records (not events).")
    ] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then wait for new records until Ctrl-C.")] = False,
) -> None:
    """Show a topic's newest records as JSON lines, one for each event, whatever format they are in.

    Example: [bold]fleetpulse tail llm.requests -n 1[/bold]
    """
    from fleetpulse.topics.tail import tail_topic
    from runtime.config import load

    config = load()
    asyncio.run(tail_topic(config.kafka, topic, records, follow=follow, limits=config.limits))


@rejected.command("show")
@answers
def rejected_show(
    reason: Annotated[str | None, typer.Option(help="Only this reason.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The newest so many.")] = 20,
) -> Result:
    """The newest rejected records and events: when, where, why, from whom. With --json also the bytes, as base64.

    Example: [bold]fleetpulse rejected show --reason out_of_range[/bold]
    """
    from fleetpulse.sql.database import Database
    from fleetpulse.topics.rejected import SHOW, check_reason
    from runtime.config import load

    wanted = check_reason(reason, "--reason") if reason else ""
    records = Database(load().reading).sql(SHOW, {"reason": wanted, "limit": limit}).records()
    columns = ("time (UTC), topic, partition, offset", "reason, detail", "source")
    rows = map(rejected_row, records)
    return Result(records, lambda: print_rows("Rejected, newest first", columns, rows, empty="nothing was rejected"))


def rejected_row(record: Mapping[str, Any]) -> tuple[str, str, str | None]:
    """A row of the table, two lines to a cell, so that all of it fits 80 characters."""
    row = "" if record["row"] is None else f", row {record['row']}"
    where = f"{record['time']}\n{record['topic']} {record['partition']} @ {record['offset']}{row}"
    source = record["source"]
    return where, f"{record['reason']}\n{record['detail']}", f"{source[:8]}…" if source else None


@rejected.command("replay")
@answers
def rejected_replay(
    reason: Annotated[str, typer.Argument(help="Which reason to try again.")],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many records.")] = 1_000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sent.")] = False,
) -> Result:
    """Send whole rejected records again, as records without identity (after a mapping or a limit was mended).

    Records cut when they were kept, and single events of readable records, are counted and left alone. What was sent
    again once is not sent a second time from this data folder. Events keep their time: old ones are booked as late.

    Example: [bold]fleetpulse rejected replay unknown_schema --dry-run[/bold]
    """
    from fleetpulse.alerts.actions import record_run
    from fleetpulse.topics.rejected import check_memory, check_reason, replay
    from runtime.config import load

    config = load()
    if not dry_run:
        check_memory(config, check_reason(reason, "REASON"))
        record_run(config.kafka, f"rejected replay {reason}", {"--limit": limit})
    plan = asyncio.run(replay(config, reason, limit, dry_run=dry_run))
    text = plan.text(sent=not dry_run)
    return Result(plan.as_dict(sent=not dry_run), lambda: err.print(text, markup=False, highlight=False))
