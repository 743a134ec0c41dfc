"""An audit of a simulated day on the local stack, as the command runs it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from fleetpulse import stack
from fleetpulse.commands.progress import Progress
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.report.compose import page
from fleetpulse.report.gather import cost_report, report_query
from fleetpulse.report.html import html as html_of
from lab.audit.day import day_of
from lab.audit.simulated import SimulatedAudit, audit_day, own_database
from runtime.clock import SystemClock
from runtime.config import load
from schemas.limits import HOUR_MS
from stream_jobs.prices.load import load as load_prices


def simulated(seed: int, hours: float, prices: Path, data_dir: Path | None, html: Path | None = None) -> SimulatedAudit:
    """A day that ended an hour ago, in a database of its own; a stack that was not running is stopped again.

    ``html``: where the day's report is written.
    """
    known = load_prices(prices)
    begin_ms = (SystemClock().now_ms() - round((hours + 1) * HOUR_MS)) // HOUR_MS * HOUR_MS
    with ExitStack() as ending, Progress() as progress:
        folder = load({"data_dir": data_dir}).data_dir
        if not stack.status(folder).running:
            ending.callback(stack.down, folder)
        config = bring_up(folder, lambda _text: None).clickhouse
        inside = ending.enter_context(own_database(config))
        with progress.task(f"{hours:g} simulated hours") as on_progress:
            day = day_of(seed, begin_ms, hours)
            found = audit_day(inside, day, known, on_progress)
        if html is not None:
            report = cost_report(inside, report_query((day.begin_ms, day.end_ms), day.end_ms, prices))
            html.write_text(html_of(page(report)), encoding="utf-8")
        return found
