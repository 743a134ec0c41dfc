"""Statements as an installation on several ClickHouse servers executes them: pure.

Every table ``x`` becomes ``x_local``, which holds the rows of one shard, and ``x``, a Distributed table over all of
them, that everything else reads and writes by the name it has on one server. Which shard holds a row follows from the
row's identity alone, so that a row that is inserted twice, through whichever server, meets its older copy there, and
``FINAL`` on each shard is ``FINAL`` on all. A materialized view reads what is inserted into its server's own
``x_local`` and writes over all shards, where its rows have keys of their own.

Checksums are those of files, whatever an installation makes of them. Without a cluster nothing changes.
"""

from __future__ import annotations

import re

from schemas.ddl import book_rollups, cost_rollups, gpu_history, slowest_hours
from schemas.ddl.declared import made
from schemas.ddl.files import HISTORY, Names
from schemas.ddl.merging import BY_LEVEL, LEVELS, rollup_table
from schemas.ddl.stored import LANDED, RAW
from schemas.ddl.tables import NOTES, REPLACED
from schemas.events.event_types import EVENTS
from schemas.limits import HOUR_MS, MINUTE_MS
from schemas.rows.costs import COSTS
from schemas.rows.tables import PRODUCER_BOOKS

LOCAL = "_local"
_OF_ALTER = re.compile(r"ALTER TABLE (\w+)")
_FROM = re.compile(r"^(\s*FROM )(\w+)", re.MULTILINE)
_SHOWS = re.compile(r"\b(?:ADD|MODIFY|DROP|RENAME|COMMENT) COLUMN\b")


def _keys() -> dict[str, str]:
    found = dict.fromkeys((table.name for table in LANDED.values()), "log_partition")
    found |= dict.fromkeys((table.name for table in RAW.values()), "partition")
    for level in LEVELS:
        names = [rollup_table(event, level.name) for event in EVENTS]
        names += [book_rollups.table_of(level.name), cost_rollups.table_of(level.name)]
        found |= dict.fromkeys(names, f"intDiv(window_ms, {level.bucket_ms})")
    for name in gpu_history.LEVELS:
        found[gpu_history.table_of(name)] = f"intDiv(window_ms, {BY_LEVEL[name].bucket_ms})"
    found[slowest_hours.TABLE] = f"intDiv(hour_ms, {HOUR_MS})"
    found |= dict.fromkeys((COSTS.name, REPLACED), f"intDiv(minute_ms, {MINUTE_MS})")
    found[PRODUCER_BOOKS.name] = "cityHash64(source)"
    return found | dict.fromkeys((NOTES, HISTORY), "0")


SHARD_KEYS = _keys()
"""By table an integer that a row's identity fixes: rows go to the shard of this modulo the number of shards."""


def local(table: str, names: Names) -> str:
    """The table that holds the rows: of one server, or of one shard."""
    return f"{table}{LOCAL}" if names.cluster else table


def rendered(statement: str, names: Names) -> tuple[str, ...]:
    """What is executed in place of a statement of a migration or declaration, placeholders filled in."""
    text = names.fill(statement)
    if not names.cluster:
        return (text,)
    kind, name = made(text)
    if kind == "table":
        return text.replace(f" {name}\n", f" {local(name, names)}\n", 1), over_all(name, names)
    if kind == "materialized view":
        return (_FROM.sub(rf"\1\2{LOCAL}", text),)
    altered = _OF_ALTER.match(text)
    if altered is None:
        return (text,)
    if altered[1] not in SHARD_KEYS:  # the SELECT of a materialized view
        return (_FROM.sub(rf"\1\2{LOCAL}", text),)
    changed = f"ALTER TABLE {local(altered[1], names)}{text[altered.end() :]}"
    return (changed, over_all(altered[1], names)) if _SHOWS.search(text) else (changed,)


def synced(table: str, names: Names) -> str:
    """Waits until replicas have all rows of a table that any of them acknowledged; empty where there are none. Of a
    cluster all replicas of all shards wait, else the one that is connected to."""
    if not names.engine_prefix:
        return ""
    on_all = f"ON CLUSTER '{names.cluster}' " if names.cluster else ""
    return f"SYSTEM SYNC REPLICA {on_all}{names.database}.{local(table, names)} LIGHTWEIGHT"


def over_all(table: str, names: Names) -> str:
    """Recreates the table over all shards, with the columns that the shard's own has now. It holds no rows."""
    return (
        f"CREATE OR REPLACE TABLE {table} AS {local(table, names)}\n"
        f"ENGINE = Distributed('{names.cluster}', '{names.database}', '{local(table, names)}', {SHARD_KEYS[table]})"
    )
