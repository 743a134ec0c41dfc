"""How long the rows of each table are kept: a setting (``limits.*_ttl_ms``), and so no part of the migrations.

``fleetpulse migrate`` compares these TTLs with the server's and alters what differs. To drop a part
once all of its rows are over costs least. Where two days of raw rows share a partition, merges join them, and a part of
both goes with the later one, or never: raw rows that are kept so long go one by one, as parts merge.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.ddl import book_rollups, cost_rollups, gpu_history, slowest_hours
from schemas.ddl.merging import LEVELS, rollup_table
from schemas.ddl.stored import LANDED, RAW, kept_of
from schemas.ddl.tables import NOTES, RAW_PARTITIONS, REPLACED
from schemas.events.event_types import EVENTS
from schemas.limits import DAY_MS, SECOND_MS, Limits
from schemas.rows.tables import GROUPED, PARTIALS

ONLY_DROP_PARTS = "ttl_only_drop_parts"
"""The setting of a table by which a part goes once all of its rows are over, and no row before."""
WHOLE_PARTS_MS = (RAW_PARTITIONS - 1) * DAY_MS
"""Raw rows whose time to live and lateness are together no longer are gone before the next day of their partition
begins: the day itself takes a day. Lateness counts as a day at least: the server drops parts now and then."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of ``table`` go ``kept_ms`` after the time in ``column`` [ms since the epoch]; with ``where`` only rows of
    which that holds. ``whole_parts``: whether they go with their parts alone; None: as the table was made."""

    table: str
    column: str
    kept_ms: int
    where: str = ""
    whole_parts: bool | None = None

    @property
    def ttl(self) -> str:
        """The TTL as ClickHouse writes it."""
        where = f" WHERE {self.where}" if self.where else ""
        return f"toDateTime(intDiv({self.column}, 1000)) + toIntervalSecond({self.kept_ms // SECOND_MS}){where}"

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements that set it."""
        ttl = f"ALTER TABLE {self.table} MODIFY TTL {self.ttl}"
        if self.whole_parts is None:
            return (ttl,)
        return f"ALTER TABLE {self.table} MODIFY SETTING {ONLY_DROP_PARTS} = {int(self.whole_parts)}", ttl


def kept(limits: Limits) -> tuple[Kept, ...]:
    """Of every table, by these limits."""
    without = {PARTIALS[event.topic].name for event in EVENTS if event not in GROUPED}
    landed = [table.name for table in LANDED.values() if table.name not in without]
    whole_parts = limits.raw_ttl_ms + max(limits.allowed_lateness_ms, DAY_MS) <= WHOLE_PARTS_MS
    rollups = [rollup_table(event, level.name) for event in GROUPED for level in LEVELS]
    rollups += [book_rollups.table_of(level.name) for level in LEVELS]
    rollups += [gpu_history.table_of(level) for level in gpu_history.LEVELS]
    return (
        *(Kept(raw.name, *kept_of(raw.name, limits), whole_parts=whole_parts) for raw in RAW.values()),
        *(Kept(table, *kept_of(table, limits)) for table in landed),
        *(Kept(table, "window_ms", limits.rollup_ttl_ms) for table in rollups),
        *(Kept(cost_rollups.table_of(level.name), "window_ms", limits.costs_ttl_ms) for level in LEVELS),
        Kept(slowest_hours.TABLE, "hour_ms", limits.raw_ttl_ms),
        Kept(REPLACED, "minute_ms", limits.costs_ttl_ms),
        Kept(NOTES, "noted_ms", DAY_MS, where="done >= noted"),
    )
