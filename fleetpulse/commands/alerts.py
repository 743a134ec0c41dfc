"""Commands about alerts: what is open, one of them in full, what was, silences; and marks of deployments."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fleetpulse.commands.output import err, print_json, print_rows, spoken
from fleetpulse.commands.people import Json, Last, duration_ms
from schemas.errors import ConfigError

For = Annotated[str, typer.Option("--for", help="How long: 30m, 2h, 1d.")]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit 1 when a critical alert is open and not silenced.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    group = typer.Typer(invoke_without_command=True, help="Show open and past alerts; silence alerts.")
    group.callback(invoke_without_command=True)(spoken(alerts))
    for name, command in (("show", show_one), ("history", history), ("silence", silence), ("unsilence", unsilence)):
        group.command(name)(spoken(command))
    app.add_typer(group, name="alerts", rich_help_panel="People")
    marks = typer.Typer(no_args_is_help=True, help="Tell the fleet what people did, so that it stands beside alerts.")
    marks.callback()(_marks)
    marks.command("deploy")(spoken(mark_deploy))
    app.add_typer(marks, name="mark", rich_help_panel="People")


def _marks() -> None:
    """Tell the fleet what people did, so that it stands beside alerts."""


def alerts(ctx: typer.Context, json: Json = False, exit_code: ExitCode = False) -> None:
    """Alerts that are open, the worst first.

    Example: [bold]fleetpulse alerts[/bold], [bold]fleetpulse alerts --json --exit-code[/bold]
    """
    if ctx.invoked_subcommand is not None:
        return
    import asyncio

    from fleetpulse.alerts.view import newest, open_of, row_of
    from runtime.clock import SystemClock
    from runtime.config import load

    found = open_of(asyncio.run(newest(load().kafka)))
    now_ms = SystemClock().now_ms()
    if json:
        print_json([_plain(alert) for alert in found])
    else:
        rows = [row_of(alert, now_ms) for alert in found]
        print_rows("Open alerts", ("alert", "what", "since (UTC)"), rows, empty="no alert is open")
    active = [one for one in found if one.muted_until_ms is None or one.muted_until_ms <= now_ms]
    if exit_code and any(one.severity == "critical" for one in active):
        raise typer.Exit(1)


def _plain(alert: Any) -> dict[str, Any]:
    """The record's own JSON, as it stands on the topic."""
    import orjson

    from schemas.contract.alerts import encode

    found: dict[str, Any] = orjson.loads(encode(alert))
    return found


def show_one(
    fingerprint: Annotated[str, typer.Argument(help="The alert's id, or the beginning of it.")],
    json: Json = False,
) -> None:
    """One alert in full: figures, members, evidence; whom it touched and what that cost, where ClickHouse answers.

    Example: [bold]fleetpulse alerts show 3f2b[/bold]
    """
    import asyncio

    from fleetpulse.alerts.view import find, lines_of, newest
    from fleetpulse.commands.output import json_text
    from runtime.config import load

    config = load()
    alert = find(asyncio.run(newest(config.kafka)), fingerprint)
    touched = _touched(config, alert)
    if json:
        print_json({**_plain(alert), "touched": touched})
        return
    lines = [(what, value if isinstance(value, str) else json_text(value)) for what, value in lines_of(alert, touched)]
    print_rows(alert.summary, ("", ""), lines, empty="nothing")


def _touched(config: Any, alert: Any) -> dict[str, Any] | None:
    """None without a database: the alert itself comes from Kafka."""
    from fleetpulse.alerts.touched import touched
    from fleetpulse.sql.database import Database
    from runtime.clock import SystemClock
    from schemas.errors import FleetpulseError

    try:
        return touched(Database(config.reading), alert, SystemClock().now_ms())
    except FleetpulseError as error:
        err.print(f"whom it touched is not known: {error}", markup=False, highlight=False)
        return None


def history(
    last: Last = "24h",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The newest so many transitions.")] = 200,
    json: Json = False,
) -> None:
    """Every transition of every alert, newest first, from ClickHouse.

    Example: [bold]fleetpulse alerts history --last 24h[/bold]
    """
    import orjson

    from fleetpulse.alerts.view import HISTORY, moment
    from fleetpulse.sql.database import Database
    from runtime.clock import SystemClock
    from runtime.config import load

    range_ms, now_ms = duration_ms(last), SystemClock().now_ms()
    asked = {"from_ms": max(0, now_ms - range_ms), "to_ms": now_ms + 60_000, "limit": limit}
    found = Database(load().reading).sql(HISTORY, asked).records()
    if json:
        print_json([{**row, "record": orjson.loads(row["record"])} for row in found])
        return
    rows = [
        (f"{moment(row['at_ms'])}\n{row['fingerprint']}", f"{row['transition']}\n{row['severity']}", row["summary"])
        for row in found
    ]
    empty = f"no alert in the last {last}"
    print_rows(f"Alerts, last {last}", ("time (UTC), alert", "transition", "what"), rows, empty=empty)


def silence(
    labels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LABEL=VALUE]...",
            help="Alerts that have all of these: labels, rule, severity or fingerprint. None: every alert.",
        ),
    ] = None,
    for_: For = "2h",
    reason: Annotated[str, typer.Option(help="Why, for whoever looks.")] = "",
    json: Json = False,
) -> None:
    """Silence matching alerts for a while: nobody is notified, and they are recorded. Prints the id that ends it.

    Example: [bold]fleetpulse alerts silence host=gpu-017 --for 2h --reason "new power supply"[/bold]
    """
    import asyncio
    import secrets

    from fleetpulse.alerts.view import checked, labels_of, publish
    from runtime.clock import SystemClock
    from runtime.config import load
    from schemas.contract.alert_commands import Command

    now_ms = SystemClock().now_ms()
    until_ms = now_ms + _for_ms(for_)
    name = f"s-{secrets.token_hex(4)}"
    command = checked(Command("mute", name, labels_of(labels or ()), now_ms, until_ms, reason, _who()))
    asyncio.run(publish(load().kafka, command))
    _told(command, f"silenced for {for_}; end it with: fleetpulse alerts unsilence {name}", json=json)


def unsilence(
    silence_id: Annotated[str, typer.Argument(help="What `alerts silence` printed.")], json: Json = False
) -> None:
    """End a silence before its time.

    Example: [bold]fleetpulse alerts unsilence s-3f2b9c1e[/bold]
    """
    import asyncio

    from fleetpulse.alerts.view import checked, publish
    from runtime.config import load
    from schemas.contract.alert_commands import Command

    command = checked(Command("unmute", silence_id, by=_who()))
    asyncio.run(publish(load().kafka, command))
    _told(command, f"{silence_id} is over", json=json)


def _for_ms(text: str) -> int:
    try:
        return duration_ms(text)
    except ConfigError as error:
        raise ConfigError("--for", text, error.bound) from error


def _who() -> str:
    """The name of whoever sits here, as far as the system knows one."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _told(command: Any, sentence: str, *, json: bool) -> None:
    if json:
        print_json(command)
    else:
        err.print(sentence, markup=False, highlight=False)


def mark_deploy(
    model: Annotated[str, typer.Option(help="The model as served.")],
    version: Annotated[str, typer.Option(help="The version that is served from now on.")],
    engine: Annotated[str | None, typer.Option(help="Only this engine.")] = None,
    message: Annotated[str | None, typer.Option(help="What else is to be known.")] = None,
    json: Json = False,
) -> None:
    """Mark a deployment: alerts of the model that begin within an hour show it as evidence.

    Example: [bold]fleetpulse mark deploy --model llama-3.3-70b --version 2026-11-21[/bold]
    """
    import asyncio
    import socket

    from fleetpulse.alerts.view import mark, mark_batch
    from fleetpulse.services.jobs_and_sink import partitions_of
    from runtime.clock import SystemClock
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
    if json:
        print_json(row)
    else:
        err.print(f"marked: {model} is {version}", markup=False, highlight=False)
