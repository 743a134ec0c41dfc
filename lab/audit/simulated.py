"""A simulated day, landed in a database of its own on the local stack as the sink lands it, and audited there."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from fleetpulse import stack
from fleetpulse.audit.ask import audit
from fleetpulse.audit.report import Audit
from fleetpulse.commands.progress import Progress
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.migrate.tables import names_of
from fleetpulse.report.compose import page
from fleetpulse.report.gather import cost_report, report_query
from fleetpulse.report.html import html as html_of
from fleetpulse.sql.database import Database
from lab.audit.day import Day, day_of
from lab.audit.delays import USUAL, Lateness
from lab.audit.path import run
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig, load
from schemas.contract.record import Record
from schemas.contract.topics import COSTS_TOPIC, WINDOW_PARTIALS
from schemas.ddl.fresh import fresh
from schemas.limits import DEFAULT_LIMITS, HOUR_MS
from sinks.database import SinkDatabase
from sinks.landing import land_derived, land_raw
from stream_jobs.prices.load import load as load_prices
from stream_jobs.prices.model import Prices

REQUESTS = "llm.requests"
"""Landed raw too, for what a report asks of single requests."""
LOG_IDS = dict.fromkeys((WINDOW_PARTIALS, COSTS_TOPIC, REQUESTS), "simulated")
RECORDS_AT_ONCE = 2_000


@dataclass(frozen=True)  # without slots, for ``super()``
class SimulatedAudit(Audit):
    """The audit of a simulated day; ``simulated``: what the simulation says of itself."""

    simulated: Mapping[str, int] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Of a simulated day also: the killed job emitted what the undisturbed one did, and exactly the rows that it
        rejected as late are in no bill; where all of a minute were, it has none."""
        undisturbed = not self.simulated["commits_unlike_undisturbed"]
        return self.agree and undisturbed and self.simulated["late_rows"] == self.late_rows

    def lines(self) -> Iterator[str]:
        """Those of an audit, and the simulation's own."""
        yield from super().lines()
        yield ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.simulated.items())


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
                for statement in fresh(names_of(inside)):
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
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    lateness: Lateness = USUAL,
) -> SimulatedAudit:
    """Simulate, land, audit, in the database of ``config``, which must be empty."""
    with contextlib.closing(SinkDatabase(config)) as database:
        lander = Lander(database, day.end_ms)
        ran = run(day, prices, lander.take, on_progress, lateness)
        lander.flush()
    reader = Database(config)
    try:
        found = audit(reader, day.begin_ms, day.end_ms, prices)
        return SimulatedAudit(**{one.name: getattr(found, one.name) for one in fields(found)}, simulated=asdict(ran))
    finally:
        reader.close()


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
