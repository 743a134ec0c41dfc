"""Commands for money: the report of a range, budgets, the audit."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetpulse.commands.output import Result, answers, checking, err, out, print_rows, print_whole
from fleetpulse.commands.output import show as shown
from fleetpulse.commands.people import From, To, duration_ms
from fleetpulse.commands.progress import Progress
from fleetpulse.report import EXAMPLE_PRICES
from runtime.clock import SystemClock
from runtime.file_lock import alone
from schemas.errors import ConfigError, FleetpulseError
from schemas.limits import HOUR_MS

if TYPE_CHECKING:
    from fleetpulse.audit.report import Audit

PricesFile = Annotated[
    Path | None,
    typer.Option(
        "--prices", show_default=False, help="The price file; without it that of the configuration, else an example."
    ),
]
Last = Annotated[str, typer.Option("--last", help="How far back: 30m, 24h, 7d.")]

audits = typer.Typer(no_args_is_help=True, help="Audits: do the numbers add up, exactly.")
reports = typer.Typer(no_args_is_help=True, help="Reports for people.")
plans = typer.Typer(no_args_is_help=True, help="Budgets: what may be spent, by tenant, team or model.")


@reports.command("cost")
@answers
def report_cost(
    last: Last = "24h",
    from_: From = None,
    to: To = None,
    html: Annotated[Path | None, typer.Option(help="Write the page to this file.")] = None,
    prices: PricesFile = None,
    slo: Annotated[
        Path | None,
        typer.Option(
            help="A file of rules with `slo_classes`, for good requests; without it that of the configuration."
        ),
    ] = None,
    budgets: Annotated[
        Path | None,
        typer.Option(help="A file of budgets: month to date, forecast; without it that of the configuration."),
    ] = None,
) -> Result | None:
    """What a range cost: bill, split, unit costs, goodput, list price, energy, budgets, and where prices are written.

    The price file names list prices, grid and sources; the bill itself is as the cost job rated it.

    Example: [bold]fleetpulse report cost --last 24h --html cost.html[/bold]
    """
    from fleetpulse.commands.elsewhere import elsewhere
    from fleetpulse.report import gather
    from fleetpulse.report.compose import page
    from fleetpulse.report.html import html as html_of
    from fleetpulse.report.terminal import rendered
    from fleetpulse.whole_file import replacing
    from runtime.config import load

    now_ms = SystemClock().now_ms()
    bounds = gather.span(duration_ms(last), from_, to, now_ms)
    config = load()
    files = prices or config.prices or EXAMPLE_PRICES, slo or config.rules, budgets or config.budgets
    try:
        report = gather.cost_report(config.reading, gather.report_query(bounds, now_ms, *files, config.limits))
    except gather.NoBillError as error:
        again = elsewhere(gather.without_bills(config.reading, bounds), "fleetpulse report cost")
        raise FleetpulseError("\n".join([str(error), *again])) from error
    if html is None:
        return Result(report, lambda: print_whole(*rendered(page(report))))
    with replacing(html) as file:
        file.write(html_of(page(report)).encode())
    err.print(f"written to {html}", markup=False, highlight=False)
    return Result(report, lambda: None)


@plans.command("check")
@answers
def budgets_check(file: Annotated[Path, typer.Argument(help="A file of budgets.")]) -> Result:
    """Check a file of budgets: every mistake with its line, and what it says.

    Example: [bold]fleetpulse budgets check my-budgets.yaml[/bold]
    """
    from fleetpulse.report.amounts import usd
    from stream_jobs.budgets.load import load

    with checking("no budget of this file is watched"):
        found = load(file)
    rows = [
        (one.name, f"{one.scope} {one.of or ''}".strip(), usd(one.amount_nusd), one.days or "calendar month",
         ", ".join(f"{level.share_ppm / 10_000:g} % {level.kind}{' ahead' * level.ahead}" for level in one.levels))
        for one in found.budgets
    ]  # fmt: skip
    rows += [("", f"each {one.each}".replace("each all", "all"), usd(one.least_nusd), "a day", one.level)
             for one in found.unusual]  # fmt: skip
    columns = ("budget", "for", "amount", "days", "levels")
    title = f"{len(found.budgets)} budgets, {len(found.unusual)} rules of unusual days, all valid"
    listed = {"budgets": [asdict(one) for one in found.budgets], "teams": dict(found.teams)}
    listed["unusual"] = [asdict(rule) for rule in found.unusual]
    show = partial(print_rows, title, columns, rows, empty="no budgets")
    return Result({"valid": True, "problems": [], **listed}, show)


_NO_BILL = "there is no bill in this range"
_UNPRICED = "bills were not priced again, so their prices are not checked; --without-prices leaves that out"
_MISSING = "minutes have no bill at all; the lines above count them"
_NO_BILL_YET = f"{_NO_BILL} up to two minutes ago, and what is younger may still change: try again in two minutes"


@audits.command("cost")
@answers
def audit_cost(
    last: Last = "24h",
    from_: From = None,
    to: To = None,
    prices: PricesFile = None,
    without_prices: Annotated[
        bool, typer.Option("--without-prices", help="Exact also where bills cannot be priced again.")
    ] = False,
) -> Result:
    """Check bills in SQL, to the nano-dollar: parts, measured time and tokens, prices, rollups. Exit 0 only if exact.

    Bills that the price file did not rate cannot be priced again: not exact, unless --without-prices is given.

    Example: [bold]fleetpulse audit cost --last 24h --json[/bold]
    """
    from fleetpulse.audit.ask import live
    from runtime.config import load

    known = prices or load().prices or EXAMPLE_PRICES
    found = live(duration_ms(last), from_, to, known, not without_prices)
    return audited(found, _NO_BILL if to and not found.cut else _NO_BILL_YET)


@audits.command("invoice")
@answers
def audit_invoice(
    file: Annotated[Path, typer.Argument(help="CSV: gpu_model, gpu_hours; if it has them usd and day (2026-01-31).")],
    last: Last = "30d",
    from_: From = None,
    to: To = None,
    tolerance: Annotated[
        float, typer.Option(min=0, help="The share of the invoice by which a type may be off: 0.01 is one per cent.")
    ] = 0.01,
) -> Result:
    """Compare a provider's invoice of GPU hours with the bills and with what silent GPUs cost, by type and day.

    A GPU that was read in the last 24 hours and does not report is unobserved: no bill has that time.
    The range is that of --from and --to, without these that of the file's days, else --last. Exit 1 where hours or
    money of a type are off.

    Example: [bold]fleetpulse audit invoice january.csv --from 2026-01-01 --to 2026-02-01 --tolerance 0.005[/bold]
    """
    from fleetpulse.audit import invoice
    from fleetpulse.report import amounts, gather
    from fleetpulse.sql.database import Database
    from runtime.config import load

    try:
        with file.open(newline="", encoding="utf-8-sig") as opened:
            lines = invoice.read_invoice(str(file), opened)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(file), "", f"cannot be read: {error}") from error
    given = gather.span(duration_ms(last), from_, to, SystemClock().now_ms())
    days = invoice.span_of(lines) if from_ is None and to is None else None
    bounds = days or invoice.holding(given, lines)
    with contextlib.closing(Database(load().reading)) as database:
        coverage = database.named("cost_coverage", {"from_ms": bounds[0], "to_ms": bounds[1]}).records()
    found = invoice.compared(lines, coverage, tolerance)

    def show() -> None:
        rows = [
            (one.day, one.gpu_model, *(f"{ms / HOUR_MS:,.2f}" for ms in (
                one.invoiced_gpu_ms, one.billed_gpu_ms, one.unobserved_gpu_ms, one.gpu_ms_off)),
             *(amounts.usd(nusd) for nusd in (one.invoiced_nusd, one.billed_nusd, one.unobserved_nusd, one.nusd_off)),
             "differs" if one.differs else "")
            for one in found
        ]  # fmt: skip
        columns = ("day", "GPU", "invoiced h", "billed h", "unobserved h", "difference h",
                   "invoiced", "billed", "unobserved", "difference", "")  # fmt: skip
        title = f"Invoice and bills, {amounts.instant(bounds[0])} to {amounts.instant(bounds[1])} UTC"
        print_rows(title, columns, rows, empty="nothing was invoiced or billed")

    differing = sum(one.differs for one in found)
    wrong = f"{differing} of {len(found)} lines differ by more than {100 * tolerance:g} %" if differing else False
    return Result(invoice.as_dict(found, *bounds, tolerance), show, wrong=wrong)


def audited(found: Audit, no_bill: str = _NO_BILL) -> Result:
    """An audit, wrong unless it is exact. ``no_bill``: what to say where there was nothing to audit."""

    def show() -> None:
        rows = [(one.name, one.compared, one.differing, one.difference) for one in found.checks]
        columns = ("check", "compared", "differing", "difference")
        print_rows(f"Audit of {found.bills:,} bills", columns, rows, empty="nothing was compared")
        for line in found.lines():
            out.print(shown(line), markup=False, highlight=False, soft_wrap=True)

    said = _MISSING if found.agree else _UNPRICED
    said = "bills differ; the lines above name them" if found.differing else said
    said = said if found.bills else no_bill
    return Result(found.as_dict(), show, wrong=not found.exact and said)


@answers
def rerate(
    from_: Annotated[str, typer.Option("--from", help="Begin: 2026-01-31 or 2026-01-31T06:00:00Z.")],
    to: Annotated[str, typer.Option("--to", help="End, likewise; half an hour ago or more.")],
    prices: Annotated[
        Path | None, typer.Option("--prices", help="The price file to rate with; without it that of the configuration.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
) -> Result:
    """Compute the bills of a range again from stored windows, with these prices and with what came late.

    New bills take the place of the old ones in every view; the old ones are kept in token_costs_replaced.

    Example: [bold]fleetpulse rerate --from "$(date -uI -d-7day)" --to "$(date -uI -d-1day)"[/bold]
    """
    from fleetpulse.alerts.actions import record_run
    from fleetpulse.report.amounts import instant, usd
    from fleetpulse.report.gather import span
    from fleetpulse.rerate.store import check_final, check_range
    from fleetpulse.rerate.store import rerate as run_rerate
    from runtime.config import load
    from stream_jobs.prices.load import load as load_prices

    now_ms, config = SystemClock().now_ms(), load()
    if (file := prices or config.prices) is None:
        raise ConfigError(
            "--prices", None, "must name the price file to rate with, here or as prices of the configuration"
        )
    known = load_prices(file)
    bounds = span(0, from_, to, now_ms)
    check_range(*bounds, now_ms, config.limits)
    with contextlib.ExitStack() as inside:
        if not dry_run:
            refusal = "another rerate is at work: bills of both would be mixed; run it again when that has ended"
            inside.enter_context(alone(config.data_dir / "rerate.lock", refusal))
            check_final(config.clickhouse, bounds, config.limits)
            record_run(config.kafka, "rerate", {"--from": from_, "--to": to, "--prices": file})
        report = inside.enter_context(inside.enter_context(Progress()).task("rating again"))
        found = run_rerate(
            config.clickhouse, bounds, known, f"{now_ms:x}", report, dry_run=dry_run, limits=config.limits
        )
    rows = [(one.tenant, usd(one.before_nusd), usd(one.after_nusd)) for one in found.tenants]
    rows.append(("all", usd(found.before_nusd), usd(found.after_nusd)))
    counts = f"{found.bills:,} bills, {found.added:,} of them new; {found.left:,} left as they were"

    def show() -> None:
        print_rows(f"Rated with prices {found.prices_version}", ("tenant", "before", "after"), rows, empty="nothing")
        err.print(f"{counts}; {'written' if found.written else 'nothing is written'}", markup=False, highlight=False)
        for one in found.failed:
            says = f"bills of {one.group or 'no group'} at {instant(one.minute_ms)} could not be made, please report it"
            err.print(shown(f"{says}: {one.cause}"), markup=False, highlight=False, soft_wrap=True)

        if found.incomplete:
            named = ", ".join(f"{use} {owner} at {instant(at_ms)}" for use, owner, _, at_ms in found.incomplete_bills)
            more = "" if found.incomplete == len(found.incomplete_bills) else ", ..."
            says = f"windows incomplete, left as they were ({found.incomplete:,} bills hold rows that are not stored)"
            err.print(shown(f"{says}: {named}{more}"), markup=False, highlight=False, soft_wrap=True)

    data = asdict(found) | {"difference_nusd": found.difference_nusd}
    return Result(data, show, wrong=bool(found.failed or found.incomplete))
