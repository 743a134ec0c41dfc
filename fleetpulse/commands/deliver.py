"""The command ``deliver``: notify people and machines of alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fleetpulse.commands.output import print_json, print_rows, spoken
from fleetpulse.commands.services import HealthPort

if TYPE_CHECKING:
    from fleetpulse.services.deliver import Checked


def register(app: typer.Typer) -> None:
    """Add this group's command."""
    app.command(rich_help_panel="Services")(spoken(deliver))


def deliver(
    check: Annotated[
        bool, typer.Option("--check", help="Send each target a test alert and its end, print the responses, and exit.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sent for the alerts open now, as JSON, and exit.")
    ] = False,
    target: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="With --check or --dry-run: only this target.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="With --check: print JSON.")] = False,
    name: Annotated[
        str, typer.Option(help="Name of this process; keep it over restarts, give a standby one of its own.")
    ] = "deliver-0",
    health_port: HealthPort = None,
) -> None:
    """Send alerts to Alertmanager, webhooks, Slack and PagerDuty, until SIGTERM.

    Targets are set in fleetpulse.toml ([bold]\\[\\[delivery.targets]][/bold], how-to/alerts.md); one more may be
    given by FLEETPULSE_DELIVERY__DEFAULT__KIND and FLEETPULSE_DELIVERY__DEFAULT__ENDPOINT_URL. Each transition reaches
    each target at least once, with the same Idempotency-Key; what cannot be delivered goes to topic alerts.undelivered.

    Example: [bold]fleetpulse deliver --check[/bold]
    """
    from fleetpulse.services import deliver as shell

    if check and dry_run:
        raise typer.BadParameter("give --check or --dry-run, not both")
    if (target or json) and not (check or dry_run):
        raise typer.BadParameter("--target and --json need --check or --dry-run")
    if check:
        _show(shell.check_targets(shell.load_with_targets(target or ()).delivery.all_targets), json)
    elif dry_run:
        print_json(shell.would_send(shell.load_with_targets(target or ())))
    else:
        shell.run_deliver(name, health_port)


def _show(found: list[Checked], json: bool) -> None:
    from sinks.delivery.schedule import Verdict

    columns = ("target", "kind", "to", "transition", "status", "response", "took_ms")
    rows = [
        (
            one.target.name,
            one.target.kind,
            one.target.origin,
            one.transition,
            one.response.status or None,
            one.response.detail,
            round(one.took_ms, 1),
        )
        for one in found
    ]
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_rows("test alerts", columns, rows, empty="no target")
    if any(one.response.verdict is not Verdict.DELIVERED for one in found):
        raise typer.Exit(1)
