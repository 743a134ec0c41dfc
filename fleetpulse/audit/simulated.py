"""A simulated day, landed in a database of its own on the local stack as the sink lands it, and audited there."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence

from fleetpulse.audit.ask import audit
from fleetpulse.audit.day import Day
from fleetpulse.audit.delays import USUAL, Lateness
from fleetpulse.audit.path import Ran, run
from fleetpulse.audit.report import Audit
from fleetpulse.database import Database
from runtime.config import ClickHouseConfig
from schemas.ddl import migrations
from schemas.limits import DEFAULT_LIMITS
from schemas.record import Record
from schemas.topics import COSTS_TOPIC, WINDOW_PARTIALS
from sinks.database import SinkDatabase
from sinks.landing import land_derived, land_raw
from stream_jobs.prices.model import Prices

REQUESTS = "llm.requests"
"""Landed raw too, for what a report asks of single requests."""
LOG_IDS = dict.fromkeys((WINDOW_PARTIALS, COSTS_TOPIC, REQUESTS), "simulated")
RECORDS_AT_ONCE = 2_000


class Lander:
    """Collects records and lands many at once, as the sink does. ``flush`` at the end."""

    def __init__(self, database: SinkDatabase, now_ms: int) -> None:
        self._database = database
        self._now_ms = now_ms
        self._waiting: list[Record] = []

    def take(self, records: Sequence[Record]) -> None:
        """Records of derived topics, and requests."""
        self._waiting += records
        if len(self._waiting) >= RECORDS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Land what waits."""
        waiting, self._waiting = self._waiting, []
        derived = [record for record in waiting if record.topic != REQUESTS]
        requests = [record for record in waiting if record.topic == REQUESTS]
        if derived:
            self._database.insert(land_derived(derived, LOG_IDS, self._now_ms, DEFAULT_LIMITS).inserts)
        if requests:
            self._database.insert(land_raw(REQUESTS, requests, LOG_IDS, self._now_ms, DEFAULT_LIMITS).inserts)


@contextlib.contextmanager
def own_database(config: ClickHouseConfig) -> Iterator[ClickHouseConfig]:
    """A database with all tables, for the writer ``config``; dropped at the end."""
    name = f"{config.database}_audit_{secrets.token_hex(4)}"
    outer = SinkDatabase(config)
    try:
        outer.command(f"CREATE DATABASE {name}")
        try:
            inside = config.model_copy(update={"database": name})
            with contextlib.closing(SinkDatabase(inside)) as database:
                for migration in migrations():
                    for statement in migration.statements:
                        database.command(statement)
            yield inside
        finally:
            outer.command(f"DROP DATABASE IF EXISTS {name} SYNC")
    finally:
        outer.close()


def audit_day(
    config: ClickHouseConfig,
    day: Day,
    prices: Prices,
    tell: Callable[[int, int], None] = lambda done, total: None,
    lateness: Lateness = USUAL,
) -> Audit:
    """Simulate, land, audit, in the database of ``config``, which must be empty."""
    with contextlib.closing(SinkDatabase(config)) as database:
        lander = Lander(database, day.end_ms)
        ran = run(day, prices, lander.take, tell, lateness)
        lander.flush()
    reader = Database(config)
    try:
        return audit(reader, day.begin_ms, day.end_ms, prices, _said(ran))
    finally:
        reader.close()


def _said(ran: Ran) -> dict[str, int]:
    return {
        "minutes": ran.minutes,
        "rows_told": ran.bills,
        "late_rows": ran.late_rows,
        "batches_held_back": ran.held_batches,
        "commits": ran.commits,
        "kills_of_windows": ran.kills["windows"],
        "kills_of_costs": ran.kills["costs"],
        "commits_unlike_undisturbed": ran.differing,
    }
