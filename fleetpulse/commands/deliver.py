"""The command ``deliver``: notify people and machines of alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fleetpulse.commands.output import Result, answers, for_program, print_json, print_rows
from fleetpulse.commands.services import HealthPort

if TYPE_CHECKING:
    from fleetpulse.services.deliver import Checked


@answers
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
    name: Annotated[
        str, typer.Option(help="Name of this process; keep it over restarts, give a standby one of its own.")
    ] = "deliver-0",
    health_port: HealthPort = None,
) -> Result | None:
    """Send alerts to Alertmanager, webhooks, Slack and PagerDuty, until SIGTERM.

    Targets are set in fleetpulse.toml ([bold]\\[\\[delivery.targets]][/bold], how-to/alerts.md); one more may be
    given by FLEETPULSE_DELIVERY__DEFAULT__KIND and FLEETPULSE_DELIVERY__DEFAULT__ENDPOINT_URL. Each transition reaches
    each target at least once, with the same Idempotency-Key; what cannot be delivered goes to topic alerts.undelivered.

    Example: [bold]fleetpulse deliver --check[/bold]
    """
    from fleetpulse.services import deliver as shell

    if check and dry_run:
        raise typer.BadParameter("give --check or --dry-run, not both")
    if (target or for_program()) and not (check or dry_run):
        raise typer.BadParameter("--target and --json need --check or --dry-run")
    if check:
        return _checked(shell.check_targets(shell.load_with_targets(target or ()).delivery.all_targets))
    if dry_run:
        requests = shell.would_send(shell.load_with_targets(target or ()))
        return Result(requests, lambda: print_json(requests))
    shell.run_deliver(name, health_port)
    return None


def _checked(found: list[Checked]) -> Result:
    from sinks.delivery.schedule import Verdict

    columns = ("target", "kind", "to", "transition", "status", "response", "took_ms")
    rows = [
        (target.name, target.kind, target.origin, one.transition, response.status or None, response.detail,
         round(one.took_ms, 1))
        for one in found for target, response in ((one.target, one.response),)
    ]  # fmt: skip
    return Result(
        [dict(zip(columns, row, strict=True)) for row in rows],
        lambda: print_rows("test alerts", columns, rows, empty="no target"),
        wrong=any(one.response.verdict is not Verdict.DELIVERED for one in found),
    )
