"""Commands for money: the report of a range, budgets, the audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetpulse.commands.output import err, out, print_json, print_rows, print_whole, spoken
from fleetpulse.commands.prices import EXAMPLE

if TYPE_CHECKING:
    from fleetpulse.audit.report import Audit

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
PricesFile = Annotated[
    Path,
    typer.Option(
        "--prices", envvar="FLEETPULSE_PRICES", show_default=False, help="The price file; without it an example."
    ),
]
Last = Annotated[str, typer.Option("--last", help="How far back: 30m, 24h, 7d.")]
From = Annotated[str | None, typer.Option("--from", help="Begin: 2026-01-31 or 2026-01-31T06:00:00Z.")]
To = Annotated[str | None, typer.Option("--to", help="End, likewise; without it now.")]

audits = typer.Typer(no_args_is_help=True, help="Audits: do the figures add up, exactly.")


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    reports = typer.Typer(no_args_is_help=True, help="Reports for people.")
    reports.command("cost")(spoken(report_cost))
    app.add_typer(reports, name="report", rich_help_panel="People")
    plans = typer.Typer(no_args_is_help=True, help="Budgets: what may be spent, by tenant, team or model.")
    plans.command("check")(spoken(budgets_check))
    app.add_typer(plans, name="budgets", rich_help_panel="People")
    audits.command("cost")(spoken(audit_cost))
    app.add_typer(audits, name="audit", rich_help_panel="Proof")
    app.command(rich_help_panel="People")(spoken(rerate))


def report_cost(
    last: Last = "24h",
    from_: From = None,
    to: To = None,
    html: Annotated[Path | None, typer.Option(help="Write the page to this file.")] = None,
    prices: PricesFile = EXAMPLE,
    slo: Annotated[Path | None, typer.Option(help="A file of rules with `slo_classes`, for good requests.")] = None,
    budgets: Annotated[
        Path | None, typer.Option(envvar="FLEETPULSE_BUDGETS", help="A file of budgets: month to date, forecast.")
    ] = None,
    json: Json = False,
) -> None:
    """What a range cost: bill, split, unit costs, goodput, list price, energy, budgets, and where prices are written.

    The price file names list prices, grid and sources; the bill itself is as the cost job rated it.

    Example: [bold]fleetpulse report cost --last 24h --html cost.html[/bold]
    """
    from fleetpulse.commands.people import duration_ms
    from fleetpulse.report import ask
    from fleetpulse.report.compose import page
    from fleetpulse.report.html import html as html_of
    from fleetpulse.report.terminal import rendered
    from runtime.clock import SystemClock
    from runtime.config import load

    now_ms = SystemClock().now_ms()
    bounds = ask.span(duration_ms(last), from_, to, now_ms)
    figures = ask.figures_of(load().reading, ask.asked(bounds, now_ms, prices, slo, budgets))
    if html is not None:
        html.write_text(html_of(page(figures)), encoding="utf-8")
        err.print(f"written to {html}", markup=False, highlight=False)
    if json:
        print_json(figures)
    elif html is None:
        print_whole(*rendered(page(figures)))


def budgets_check(
    file: Annotated[Path, typer.Argument(help="A file of budgets.")],
    json: Json = False,
) -> None:
    """Check a file of budgets: every mistake with its line, and what it says.

    Example: [bold]fleetpulse budgets check my-budgets.yaml[/bold]
    """
    from dataclasses import asdict

    from fleetpulse.report.amounts import usd
    from stream_jobs.budgets.load import load
    from stream_jobs.yaml_files.errors import FileError

    try:
        found = load(file)
    except FileError as error:
        if json:
            print_json({"valid": False, "problems": list(error.problems)})
        else:
            err.print("\n".join(error.problems), style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    if json:
        listed = [asdict(one) for one in found.budgets]
        unusual = [asdict(rule) for rule in found.unusual]
        print_json({"valid": True, "problems": [], "budgets": listed, "teams": dict(found.teams), "unusual": unusual})
        return
    rows = [
        (one.name, f"{one.scope} {one.of or ''}".strip(), usd(one.amount_nusd), one.days or "calendar month",
         ", ".join(f"{level.share_ppm / 10_000:g} % {level.kind}{' ahead' * level.ahead}" for level in one.levels))
        for one in found.budgets
    ]  # fmt: skip
    rows += [("", f"each {one.each}".replace("each all", "all"), usd(one.least_nusd), "a day", one.level)
             for one in found.unusual]  # fmt: skip
    columns = ("budget", "for", "amount", "days", "levels")
    print_rows(
        f"{len(found.budgets)} budgets, {len(found.unusual)} rules of unusual days, all valid",
        columns,
        rows,
        empty="no budgets",
    )


_NO_BILL = "there is no bill in this range"
_NO_BILL_YET = f"{_NO_BILL} up to two minutes ago, and what is younger may still change: ask again in two minutes"


def audit_cost(
    last: Last = "24h",
    from_: From = None,
    to: To = None,
    prices: PricesFile = EXAMPLE,
    json: Json = False,
) -> None:
    """Check bills in SQL, to the nano-dollar: parts, measured time and tokens, prices, rollups. Exit 0 only if exact.

    Example: [bold]fleetpulse audit cost --last 24h --json[/bold]
    """
    from fleetpulse.audit.run import live
    from fleetpulse.commands.people import duration_ms

    found = live(duration_ms(last), from_, to, prices)
    show_audit(found, json=json, no_bill=_NO_BILL if to else _NO_BILL_YET)


def show_audit(found: Audit, *, json: bool, no_bill: str = _NO_BILL) -> None:
    """Print an audit; exit 1 unless it is exact. ``no_bill``: what to say where there was nothing to audit."""
    if json:
        print_json(found.as_dict())
    else:
        rows = [(one.name, one.compared, one.differing, one.difference) for one in found.checks]
        columns = ("check", "compared", "differing", "difference")
        print_rows(f"Audit of {found.bills:,} bills", columns, rows, empty="nothing was compared")
        for line in found.lines():
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    if not found.exact:
        said = "bills differ; the lines above name them" if found.bills else no_bill
        err.print(said, style="red", markup=False, highlight=False)
        raise typer.Exit(1)


def rerate(
    from_: Annotated[str, typer.Option("--from", help="Begin: 2026-01-31 or 2026-01-31T06:00:00Z.")],
    to: Annotated[str, typer.Option("--to", help="End, likewise; half an hour ago or more.")],
    prices: Annotated[Path, typer.Option("--prices", help="The price file to rate with.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    json: Json = False,
) -> None:
    """Compute the bills of a range again from stored windows, with these prices and with what came late.

    New bills take the place of the old ones in every view; the old ones are kept in token_costs_replaced.

    Example: [bold]fleetpulse rerate --from 2026-01-01 --to 2026-02-01 --prices my-prices.yaml[/bold]
    """
    from dataclasses import asdict

    from fleetpulse.commands.progress import Progress
    from fleetpulse.report.amounts import usd
    from fleetpulse.report.ask import span
    from fleetpulse.rerate.store import check_range
    from fleetpulse.rerate.store import rerate as run_rerate
    from runtime.clock import SystemClock
    from runtime.config import load
    from stream_jobs.prices.load import load as load_prices

    now_ms, config, known = SystemClock().now_ms(), load(), load_prices(prices)
    bounds = span(0, from_, to, now_ms)
    check_range(*bounds, now_ms, config.limits)
    with Progress() as progress, progress.task("rating again") as tell:
        found = run_rerate(config.clickhouse, bounds, known, f"{now_ms:x}", tell, dry_run=dry_run)
    if json:
        print_json(asdict(found) | {"difference_nusd": found.difference_nusd})
        return
    rows = [(one.tenant, usd(one.before_nusd), usd(one.after_nusd)) for one in found.tenants]
    rows.append(("all", usd(found.before_nusd), usd(found.after_nusd)))
    print_rows(f"Rated with prices {found.prices_version}", ("tenant", "before", "after"), rows, empty="nothing")
    counts = f"{found.bills:,} bills, {found.added:,} of them new; {found.left:,} left as they were"
    err.print(f"{counts}; {'written' if found.written else 'nothing is written'}", markup=False, highlight=False)
