"""How long the rows of each table are kept: a setting (``limits.*_ttl_ms``), and so no part of the migrations.

``fleetpulse migrate`` compares these TTLs with the server's and alters what differs.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.ddl import book_rollups, cost_rollups, gpu_history, slowest_hours
from schemas.ddl.merging import LEVELS, rollup_table
from schemas.ddl.stored import LANDED, RAW, kept_of
from schemas.ddl.tables import NOTES, REPLACED
from schemas.events.event_types import EVENTS
from schemas.limits import DAY_MS, SECOND_MS, Limits
from schemas.rows.tables import GROUPED, PARTIALS


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of ``table`` go ``kept_ms`` after the time in ``column`` [ms since the epoch]; with ``where`` only rows of
    which that holds."""

    table: str
    column: str
    kept_ms: int
    where: str = ""

    @property
    def ttl(self) -> str:
        """The TTL as ClickHouse writes it."""
        where = f" WHERE {self.where}" if self.where else ""
        return f"toDateTime(intDiv({self.column}, 1000)) + toIntervalSecond({self.kept_ms // SECOND_MS}){where}"

    @property
    def statement(self) -> str:
        """The statement that sets it."""
        return f"ALTER TABLE {self.table} MODIFY TTL {self.ttl}"


def kept(limits: Limits) -> tuple[Kept, ...]:
    """Of every table, by these limits."""
    without = {PARTIALS[event.topic].name for event in EVENTS if event not in GROUPED}
    landed = [table.name for table in (*RAW.values(), *LANDED.values()) if table.name not in without]
    rollups = [rollup_table(event, level.name) for event in GROUPED for level in LEVELS]
    rollups += [book_rollups.table_of(level.name) for level in LEVELS]
    rollups += [gpu_history.table_of(level) for level in gpu_history.LEVELS]
    return (
        *(Kept(table, *kept_of(table, limits)) for table in landed),
        *(Kept(table, "window_ms", limits.rollup_ttl_ms) for table in rollups),
        *(Kept(cost_rollups.table_of(level.name), "window_ms", limits.costs_ttl_ms) for level in LEVELS),
        Kept(slowest_hours.TABLE, "hour_ms", limits.raw_ttl_ms),
        Kept(REPLACED, "minute_ms", limits.costs_ttl_ms),
        Kept(NOTES, "noted_ms", DAY_MS, where="done >= noted"),
    )
