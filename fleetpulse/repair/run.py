"""Compares two copies of the database hour by hour and inserts into the one what it lacks of the other."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from fleetpulse.repair.notes import Notes
from fleetpulse.repair.plan import Contents, Copied, dirty, lacking, tables_of
from fleetpulse.sql.database import in_a_line
from runtime.clickhouse_clients import connect, rows_of
from runtime.config import ClickHouseConfig
from schemas.ddl.files import Names
from schemas.ddl.sharded import local
from schemas.errors import ConfigError
from schemas.limits import Limits
from sinks.database import INSERT_SETTINGS, STATEMENT_SECONDS_MAX, SinkDatabase

_log = logging.getLogger(__name__)
_KEYS = """
SELECT name, sorting_key FROM system.tables WHERE database = {database:String} AND sorting_key != ''
"""
_COLUMNS = """
SELECT table, groupArray(name) FROM
(SELECT table, name FROM system.columns WHERE database = {database:String}
AND default_kind NOT IN ('MATERIALIZED', 'ALIAS') ORDER BY table, position)
GROUP BY table
"""


@dataclass(frozen=True, slots=True)
class Filled:
    """Hours of a table that were copied, and rows in them; None where nothing was copied, but for a look."""

    table: str
    hours: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was copied, and of each table that was compared the hours of which the target alone has rows."""

    filled: list[Filled]
    ahead: dict[str, int]


def repair(
    source: ClickHouseConfig,
    target: ClickHouseConfig,
    span_ms: tuple[int, int],
    limits: Limits,
    *,
    dry_run: bool = False,
) -> Repaired:
    """Insert into ``target`` what ``source`` has in [from, to) and it lacks. Safe to repeat, beside running sinks: what
    a repair that was killed has copied is computed again by the next.

    Raises ``FleetpulseError`` where a server does not answer or rejects a statement; what was copied stays. Where
    ``source`` has no table to compare, ``ConfigError``.
    """
    with (
        in_a_line(),
        closing(connect(source, consistent=True)) as there,
        closing(connect(target, consistent=True)) as here,
        closing(SinkDatabase(source, consistent=True, seconds_max=STATEMENT_SECONDS_MAX)) as other,
        closing(SinkDatabase(target, consistent=True)) as sink,
    ):
        notes, found = Notes(sink), Repaired([], {})
        unfinished = notes.unfinished()
        for table in _tables(there, source, limits):
            other.sync(table.table)  # a replica that lags would be compared, and copied, without what it lacks
            has, had = _contents(there, table, span_ms), _contents(here, table, span_ms)
            found.ahead[table.table] = len(had.keys() - has.keys())
            hours = lacking(has, had)
            rows = None if dry_run else sum(_fill(there, here, notes, table, hour_ms) for hour_ms in hours)
            if hours:
                found.filled.append(Filled(table.table, len(hours), rows))
        if unfinished:
            facts = {"buckets": len(unfinished), "dry_run": dry_run}
            _log.warning(
                "a repair before this one did not end; rollups of what it copied are computed again", extra=facts
            )
        if not dry_run:
            notes.resume(unfinished)
    return found


def _tables(client: Any, config: ClickHouseConfig, limits: Limits) -> tuple[Copied, ...]:
    names = Names(config.database, config.cluster)
    given = {"database": config.database}
    stored = dict(rows_of(client.query(_KEYS, parameters=given)))
    columns = dict(rows_of(client.query(_COLUMNS, parameters=given)))
    keys = {table: stored[local(table, names)] for table in columns if local(table, names) in stored}
    if not (found := tables_of(limits, keys, columns)):
        bound = f"must have our tables in database {config.database}, over the shards that clickhouse.cluster says"
        raise ConfigError("--from", config.url, bound)
    return found


def _contents(client: Any, table: Copied, span_ms: tuple[int, int]) -> Contents:
    return {hour_ms: tuple(rest) for hour_ms, *rest in rows_of(client.query(table.contents(*span_ms)))}


def _fill(there: Any, here: Any, notes: Notes, table: Copied, hour_ms: int) -> int:
    """Copies an hour and returns how many rows it has. Its rollups are noted before, for a repair that is killed
    meanwhile, and behind, for a sink may have computed them in between."""
    buckets = list(dirty(table.table, [hour_ms]))
    notes.begin(buckets)
    rows = _copy(there, here, table, hour_ms)
    notes.finish(buckets)
    return rows


def _copy(there: Any, here: Any, table: Copied, hour_ms: int) -> int:
    """Copies an hour, as it comes, and returns how many rows it has."""
    with closing(there.raw_stream(table.rows(hour_ms), fmt="Native")) as stream:
        done = here.raw_insert(
            table.table, column_names=table.columns, insert_block=stream, fmt="Native", settings=INSERT_SETTINGS
        )
    return int(done.written_rows)
