"""An audit of the live tables, as the command runs it."""

from __future__ import annotations

from pathlib import Path

from fleetpulse.audit.ask import audit
from fleetpulse.audit.report import Audit
from fleetpulse.report.gather import span
from fleetpulse.sql.database import Database
from runtime.clock import SystemClock
from runtime.config import load
from schemas.limits import MINUTE_MS
from stream_jobs.prices.load import load as load_prices

SETTLE_MS = 2 * MINUTE_MS
"""Bills and what they are made of land by different ways: what is younger is left alone."""


def live(last_ms: int, from_: str | None, to: str | None, prices: Path) -> Audit:
    """The tables that the configuration names, up to two minutes ago, or the range that is given."""
    bounds = span(last_ms, from_, to, (SystemClock().now_ms() - SETTLE_MS) // MINUTE_MS * MINUTE_MS)
    known = load_prices(prices)
    database = Database(load().reading)
    try:
        return audit(database, *bounds, known)
    finally:
        database.close()
