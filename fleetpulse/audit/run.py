"""An audit as the command runs it: of the live tables, or of a simulated day on the local stack."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from fleetpulse import stack
from fleetpulse.audit.ask import audit
from fleetpulse.audit.day import day_of
from fleetpulse.audit.report import Audit
from fleetpulse.audit.simulated import audit_day, own_database
from fleetpulse.bench.progress import Progress
from fleetpulse.bring_up import bring_up
from fleetpulse.database import Database
from fleetpulse.report.ask import asked, figures_of, span
from fleetpulse.report.compose import page
from fleetpulse.report.html import html as html_of
from runtime.clock import SystemClock
from runtime.config import load
from schemas.limits import HOUR_MS, MINUTE_MS
from stream_jobs.prices.load import load as load_prices

SETTLE_MS = 2 * MINUTE_MS
"""Bills and what they are made of land by different ways: what is younger is left alone."""


def live(last_ms: int, from_: str | None, to: str | None, prices: Path) -> Audit:
    """The tables that the configuration names, up to two minutes ago, or as asked."""
    bounds = span(last_ms, from_, to, (SystemClock().now_ms() - SETTLE_MS) // MINUTE_MS * MINUTE_MS)
    known = load_prices(prices)
    database = Database(load().reading)
    try:
        return audit(database, *bounds, known)
    finally:
        database.close()


def simulated(seed: int, hours: float, prices: Path, data_dir: Path | None, html: Path | None = None) -> Audit:
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
        with progress.task(f"{hours:g} simulated hours") as tell:
            day = day_of(seed, begin_ms, hours)
            found = audit_day(inside, day, known, tell)
        if html is not None:
            figures = figures_of(inside, asked((day.begin_ms, day.end_ms), day.end_ms, prices))
            html.write_text(html_of(page(figures)), encoding="utf-8")
        return found
