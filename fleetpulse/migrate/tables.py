"""The database as it is, and the steps that change it. Safe to repeat, also after a kill: a file is noted in the table
``migrations`` behind its last statement, and statements are idempotent."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from fleetpulse.migrate.plan import ApplyFile, Plan, Restore, SetTtl, Step
from fleetpulse.migrate.table_plan import (
    OLD_HISTORY,
    OVER_SHARDS,
    REPLICATES,
    LiveDatabase,
    LiveTable,
    Wanted,
    check_engines,
    plan_tables,
    too_old,
)
from runtime.clickhouse_clients import first_line, make_client, named_rows_of, rejected, rows_of
from runtime.config import ClickHouseConfig
from schemas.ddl.files import FOLDER, HISTORY, Names, history, migrations, released
from schemas.ddl.fresh import at_once
from schemas.ddl.kept import ONLY_DROP_PARTS, kept
from schemas.ddl.sharded import local, rendered
from schemas.errors import ContractError, FleetpulseError, UnavailableError
from schemas.limits import Limits

STATEMENT_WITHIN_S = 3_600
"""A statement that rewrites a column of a large table takes minutes. Beyond, the server goes on with it, and the next
run finds it done."""
UPGRADE = FOLDER / "upgrade" / "0.1.0.sql"
_TTL = re.compile(r" TTL (.+?)(?= SETTINGS |$)")
_ENGINE = "SELECT engine FROM system.databases WHERE name = {database:String}"
_TABLES = """
SELECT name, engine, 0 AS is_view, engine_full, ifNull(total_rows, 1) AS rows
FROM system.tables WHERE database = {database:String} AND engine NOT LIKE '%View'
UNION ALL
SELECT name, engine, 1, '', toUInt64(1) FROM system.tables WHERE database = {database:String} AND engine LIKE '%View'
"""
"""Without the text of views, which take a server half a second to write down."""


@contextlib.contextmanager
def connect(config: ClickHouseConfig) -> Iterator[Any]:
    """A client of the database. Raises ``ConfigError`` for a login that is rejected, ``ContractError`` for a statement
    that is, ``UnavailableError`` where nobody answers."""
    try:
        with contextlib.closing(make_client(config, send_receive_timeout=STATEMENT_WITHIN_S)) as client:
            yield client
    except (ClickHouseError, OSError) as error:
        raise _explained(error, config) from error


def _explained(error: Exception, config: ClickHouseConfig) -> FleetpulseError:
    if (why := rejected(error, config)) is not None:
        return why
    line = first_line(error)
    if getattr(error, "code", None) is not None:
        return ContractError(f"ClickHouse at {config.url} rejects it: {line}")
    return UnavailableError(f"ClickHouse at {config.url}: {line}")


def names_of(config: ClickHouseConfig) -> Names:
    """What placeholders are filled in with, by the settings."""
    return Names(config.database, config.cluster, config.engine_prefix)


def plan(client: Any, names: Names, limits: Limits) -> Plan:
    """What the database needs. Raises ``ContractError`` where its tables are of another kind than the settings say, or
    the server is too old for ours."""
    if (why := too_old(client.server_version)) is not None:
        raise ContractError(f"{why}; nothing was changed")
    check_engines(
        names, engine_of(client, names.database), {name: row["engine"] for name, row in _seen(client, names).items()}
    )
    live = look(client, names)
    found = plan_tables(live, wanted(limits))
    if names.cluster and engine_of(client, names.database) in REPLICATES:
        return replace(found, steps=tuple(_over_shards(client, names, live, step) for step in found.steps))
    return found


def _over_shards(client: Any, names: Names, live: LiveDatabase, step: Step) -> Step:
    """A statement of a replicated database reaches every shard, so that a TTL counts the rows of all of them."""
    if not isinstance(step, SetTtl) or step.rows or step.subject not in live.tables:
        return step
    ((rows,),) = rows_of(client.query(f"SELECT count() FROM {names.database}.{step.subject}"))
    return replace(step, rows=int(rows))


def wanted(limits: Limits) -> Wanted:
    """What this version needs under these limits."""
    return Wanted(migrations(), UPGRADE.read_text(encoding="utf-8"), kept(limits), released(), at_once(limits))


def look(client: Any, names: Names) -> LiveDatabase:
    """The database as it is."""
    rows = _seen(client, names)
    every = whole(rows, names)
    tables = {name: live_table(row["engine_full"], row["rows"]) for name, row in every.items() if not row["is_view"]}
    functions = client.query("SELECT name, create_query FROM system.functions WHERE origin = 'SQLUserDefined'")
    listed = _rows(client, names, _history(client, names), "number, name, checksum", rows)
    return LiveDatabase(
        names.database,
        tables,
        frozenset(every) - frozenset(tables),
        dict(rows_of(functions)),
        {number: rest for number, *rest in listed},
        frozenset(number for (number,) in _rows(client, names, OLD_HISTORY, "number", rows)),
    )


def live_table(engine_full: str, rows: int) -> LiveTable:
    """A table of this engine, as the server writes it, and of so many rows."""
    found = _TTL.search(engine_full)
    return LiveTable(found[1] if found else "", rows, f"{ONLY_DROP_PARTS} = 1" in engine_full)


def _seen(client: Any, names: Names) -> dict[str, Any]:
    """Rows about tables and views by name."""
    found = client.query(_TABLES, parameters={"database": names.database})
    return {row["name"]: row for row in named_rows_of(found)}


def engine_of(client: Any, database: str) -> str:
    """Engine of the database; empty where there is none yet."""
    found = rows_of(client.query(_ENGINE, parameters={"database": database}))
    return str(found[0][0]) if found else ""


def _history(client: Any, names: Names) -> str:
    """Where applied files are noted. Statements reach all servers of a cluster only in a replicated database; in any
    other each server is migrated by itself, and notes it for itself."""
    return HISTORY if engine_of(client, names.database) in REPLICATES else local(HISTORY, names)


def whole(rows: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Rows about tables and views by name; of a cluster each with what the shard's own says, if both are there."""
    if not names.cluster:
        return dict(rows)
    return {
        name: row if row["is_view"] else rows[local(name, names)]
        for name, row in rows.items()
        if row["is_view"] or (row["engine"] == OVER_SHARDS and local(name, names) in rows)
    }


def _rows(client: Any, names: Names, table: str, columns: str, rows: Mapping[str, Any]) -> Sequence[Any]:
    if table not in rows:
        return ()
    return tuple(rows_of(client.query(f"SELECT {columns} FROM {names.database}.{table} FINAL")))


def carry_out_on(servers: Sequence[tuple[Any, Names, Sequence[Step]]]) -> None:
    """``carry_out`` on several servers, each with its client, names and steps. A server asks the shards for every
    column of its own table over them: tables that hold rows are made and altered on all before one over shards is on
    any. Statements are safe to repeat, and are repeated."""
    if len(servers) > 1:
        for client, names, steps in servers:
            _carry_out_below_shards(client, names, steps)
    for client, names, steps in servers:
        carry_out(client, names, steps)


def _carry_out_below_shards(client: Any, names: Names, steps: Sequence[Step]) -> None:
    for text in (text for step in steps if isinstance(step, ApplyFile | Restore) for text in step.statements):
        held, *over_shards = rendered(text, names)
        if over_shards:
            client.command(held)


def carry_out(client: Any, names: Names, steps: Sequence[Step]) -> None:
    """Do those of the steps that are about tables."""
    execute(client, names, history())
    for step in steps:
        if isinstance(step, ApplyFile | Restore):
            for statement in step.statements:
                execute(client, names, statement)
        if isinstance(step, ApplyFile):
            client.insert(_history(client, names), [step.noted], column_names=["number", "name", "checksum"])
        if isinstance(step, SetTtl):
            for statement in step.kept.statements:
                execute(client, names, statement)


def execute(client: Any, names: Names, statement: str) -> None:
    """Execute a statement of a migration, on every server of a cluster that the database is replicated to."""
    for one in rendered(statement, names):
        client.command(one)
