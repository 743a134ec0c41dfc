"""Commands about alerts: what is open, one of them in full, what was, silences; and marks of deployments."""

from __future__ import annotations

import asyncio
import secrets
import socket
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import orjson
import typer

from fleetpulse.commands.output import Result, answers, demand_alone, err, json_text, out, print_rows
from fleetpulse.commands.people import Last, duration_ms
from runtime.clock import SystemClock
from schemas.errors import ConfigError, FleetpulseError

For = Annotated[
    str | None, typer.Option("--for", help="How long: 30m, 2h, 1d. Without it 2h; with --every it must be given.")
]
All = Annotated[bool, typer.Option("--all", help="Every alert of the fleet.")]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit 1 when a critical alert is open and not silenced.")]

group = typer.Typer(help="Show open and past alerts; silence alerts.")
marks = typer.Typer(no_args_is_help=True)


@marks.callback()
def _mark() -> None:
    """Record what people did, so that it stands beside alerts."""


@group.callback(invoke_without_command=True)
@answers
def alerts(ctx: typer.Context, exit_code: ExitCode = False) -> Result | None:
    """Alerts that are open, the worst first.

    Example: [bold]fleetpulse alerts[/bold], [bold]fleetpulse alerts --json --exit-code[/bold]
    """
    demand_alone(ctx, {"--exit-code": exit_code})
    if ctx.invoked_subcommand is not None:
        return None

    from fleetpulse.alerts.view import newest, open_of, row_of
    from runtime.config import load

    found = open_of(asyncio.run(newest(load().kafka)))
    now_ms = SystemClock().now_ms()
    rows = [row_of(alert, now_ms) for alert in found]
    active = [one for one in found if one.muted_until_ms is None or one.muted_until_ms <= now_ms]
    return Result(
        [_plain(alert) for alert in found],
        lambda: print_rows("Open alerts", ("alert", "what", "since (UTC)"), rows, empty="no alert is open"),
        wrong=exit_code and any(one.severity == "critical" for one in active),
    )


def _plain(alert: Any) -> dict[str, Any]:
    """The record's own JSON, as it stands on the topic."""
    from schemas.contract.alerts import encode

    found: dict[str, Any] = orjson.loads(encode(alert))
    return found


@group.command("show")
@answers
def show_one(fingerprint: Annotated[str, typer.Argument(help="The alert's id, or the beginning of it.")]) -> Result:
    """One alert in full: values, members, evidence; whom it touched and what that cost, where ClickHouse answers.

    Example: [bold]fleetpulse alerts show 3f2b[/bold]
    """
    from fleetpulse.alerts.view import find, lines_of, newest
    from runtime.config import load

    config = load()
    alert = find(asyncio.run(newest(config.kafka)), fingerprint)
    touched = _touched(config, alert)
    lines = [(what, value if isinstance(value, str) else json_text(value)) for what, value in lines_of(alert, touched)]
    show = partial(print_rows, alert.summary, ("", ""), lines, empty="nothing")
    return Result({**_plain(alert), "touched": touched}, show)


def _touched(config: Any, alert: Any) -> dict[str, Any] | None:
    """None without a database: the alert itself comes from Kafka."""
    from fleetpulse.alerts.touched import touched
    from fleetpulse.sql.database import Database

    try:
        return touched(Database(config.reading), alert, SystemClock().now_ms())
    except FleetpulseError as error:
        err.print(f"whom it touched is not known: {error}", markup=False, highlight=False)
        return None


@group.command()
@answers
def history(
    last: Last = "24h",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The newest so many transitions.")] = 200,
) -> Result:
    """Every transition of every alert, newest first, from ClickHouse.

    Example: [bold]fleetpulse alerts history --last 24h[/bold]
    """
    from fleetpulse.alerts.view import HISTORY, moment
    from fleetpulse.sql.database import Database
    from runtime.config import load

    range_ms, now_ms = duration_ms(last), SystemClock().now_ms()
    parameters = {"from_ms": max(0, now_ms - range_ms), "to_ms": now_ms + 60_000, "limit": limit}
    found = Database(load().reading).sql(HISTORY, parameters).records()
    if len(found) == limit:
        err.print(f"the newest {limit} transitions are shown; --limit for more", highlight=False)
    rows = [
        (f"{moment(row['at_ms'])}\n{row['fingerprint']}", f"{row['transition']}\n{row['severity']}", row["summary"])
        for row in found
    ]
    columns, empty = ("time (UTC), alert", "transition", "what"), f"no alert in the last {last}"
    return Result(
        [{**row, "record": orjson.loads(row["record"])} for row in found],
        lambda: print_rows(f"Alerts, last {last}", columns, rows, empty=empty),
    )


@group.command()
@answers
def silence(
    labels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LABEL=VALUE]...",
            help="Alerts that have all of these: labels, rule, severity or fingerprint (the beginning will do).",
        ),
    ] = None,
    all_: All = False,
    for_: For = None,
    every: Annotated[
        str, typer.Option(help='While it lasts, only in these hours of the week: "Mon-Fri 22:00-06:00".')
    ] = "",
    zone: Annotated[str, typer.Option(help="Whose clock --every means: a time zone such as Europe/Berlin.")] = "UTC",
    reason: Annotated[str, typer.Option(help="Why, for whoever looks.")] = "",
) -> Result:
    """Silence matching alerts for a while: nobody is notified, and they are recorded. Prints the id that ends it on
    standard output.

    Example: [bold]fleetpulse alerts silence host=gpu-017 --for 2h --reason "new power supply"[/bold]

    Example: [bold]fleetpulse alerts silence cluster=eu-1 --every "Sat 22:00-06:00" --zone Asia/Tokyo --for 90d[/bold]
    """
    from fleetpulse.alerts.actions import who
    from fleetpulse.alerts.view import checked, labels_of, publish, with_whole_fingerprint
    from runtime.config import load
    from schemas.contract.alert_commands import Command

    if every and not for_:
        raise ConfigError("--for", "", "must be given with --every: how long it comes again, such as 90d")
    length, now_ms = for_ or "2h", SystemClock().now_ms()
    until_ms = now_ms + _for_ms(length)
    name = f"s-{secrets.token_hex(4)}"
    command = checked(Command("mute", name, labels_of(labels or ()), now_ms, until_ms, reason, who(), every, zone))
    if bool(command.labels) == all_:
        raise ConfigError("LABEL=VALUE", " ".join(labels or ()), "must be given, or --all alone for every alert")
    kafka = load().kafka
    command = replace(command, labels=asyncio.run(with_whole_fingerprint(kafka, command.labels)))
    asyncio.run(publish(kafka, command))
    what = ", ".join(f"{label}={value}" for label, value in command.labels.items()) or "every alert"
    when = f" {every} ({zone})" if every else ""
    return _done(command, f"silenced: {what}{when} for {length}; end it with: fleetpulse alerts unsilence {name}", name)


@group.command()
@answers
def unsilence(silence_id: Annotated[str, typer.Argument(help="What `alerts silence` printed.")]) -> Result:
    """End a silence before its time.

    Example: [bold]fleetpulse alerts unsilence s-3f2b9c1e[/bold]
    """
    from fleetpulse.alerts.actions import who
    from fleetpulse.alerts.view import checked, publish, silences_of
    from runtime.config import load
    from schemas.contract.alert_commands import Command

    command, kafka = checked(Command("unmute", silence_id, by=who())), load().kafka
    if silence_id not in asyncio.run(silences_of(kafka)):
        raise ConfigError("SILENCE_ID", silence_id, "is no silence that was sent; see `fleetpulse ask silences`")
    asyncio.run(publish(kafka, command))
    return _done(command, f"sent: {silence_id} ends")


def _for_ms(text: str) -> int:
    try:
        return duration_ms(text)
    except ConfigError as error:
        raise ConfigError("--for", text, error.bound) from error


def _done(data: Any, sentence: str, line: str = "") -> Result:
    """``line`` is for scripts, on stdout."""

    def show() -> None:
        if line:
            out.print(line, markup=False, highlight=False)
        err.print(sentence, markup=False, highlight=False, soft_wrap=True)

    return Result(data, show)


@marks.command("deploy")
@answers
def mark_deploy(
    model: Annotated[str, typer.Option(help="The model as served.")],
    version: Annotated[str, typer.Option(help="The version that is served from now on.")],
    engine: Annotated[str | None, typer.Option(help="Only this engine.")] = None,
    message: Annotated[str | None, typer.Option(help="What else is to be known.")] = None,
) -> Result:
    """Mark a deployment: alerts of the model that begin within an hour show it as evidence.

    Example: [bold]fleetpulse mark deploy --model llama-3.3-70b --version 2026-11-21[/bold]
    """
    from fleetpulse.alerts.view import mark, mark_batch
    from fleetpulse.services.jobs_and_sink import partitions_of
    from runtime.config import load

    row = {
        "at_ms": SystemClock().now_ms(),
        "host": socket.gethostname(),
        "engine_id": engine,
        "model": model,
        "model_version": version,
        "kind": "marked",
        "origin": "measured",
        "message": message,
    }
    config = load()
    asyncio.run(mark(config.kafka, mark_batch(row), partitions_of(config)))
    return _done(row, f"marked: {model} is {version}")
