"""The database as it is, and the steps that change it. Safe to repeat, also after a kill: a file is noted in the table
``migrations`` behind its last statement, and statements are idempotent."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from clickhouse_connect.driver.exceptions import ClickHouseError

from fleetpulse.migrate.plan import ApplyFile, Plan, Restore, SetTtl, Step
from fleetpulse.migrate.table_plan import OLD_HISTORY, LiveDatabase, LiveTable, Wanted, plan_tables
from runtime.clickhouse_clients import first_line, make_client, rejected
from runtime.config import ClickHouseConfig
from schemas.ddl.files import FOLDER, HISTORY, Names, history, migrations, released
from schemas.ddl.fresh import at_once
from schemas.ddl.kept import kept
from schemas.errors import ContractError, FleetpulseError, UnavailableError
from schemas.limits import Limits

STATEMENT_WITHIN_S = 3_600
"""A statement that rewrites a column of a large table takes minutes. Beyond, the server goes on with it, and the next
run finds it done."""
UPGRADE = FOLDER / "upgrade" / "0.1.0.sql"
_TTL = re.compile(r" TTL (.+?)(?= SETTINGS |$)")
_TABLES = """
SELECT name, engine LIKE '%View' AS is_view, engine_full, ifNull(total_rows, 1) AS rows
FROM system.tables WHERE database = {database:String}
"""


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


def plan(client: Any, database: str, limits: Limits) -> Plan:
    """What the database needs."""
    return plan_tables(look(client, database), wanted(limits))


def wanted(limits: Limits) -> Wanted:
    """What this version needs under these limits."""
    return Wanted(migrations(), UPGRADE.read_text(encoding="utf-8"), kept(limits), released(), at_once(limits))


def look(client: Any, database: str) -> LiveDatabase:
    """The database as it is."""
    found = client.query(_TABLES, parameters={"database": database}).named_results()
    every = {row["name"]: row for row in found}
    tables = {
        name: LiveTable(ttl[1] if (ttl := _TTL.search(row["engine_full"])) else "", row["rows"])
        for name, row in every.items()
        if not row["is_view"]
    }
    functions = client.query("SELECT name FROM system.functions WHERE origin = 'SQLUserDefined'").result_rows
    return LiveDatabase(
        database,
        tables,
        frozenset(every) - frozenset(tables),
        frozenset(name for (name,) in functions),
        {number: rest for number, *rest in _rows(client, database, HISTORY, "number, name, checksum", tables)},
        frozenset(number for (number,) in _rows(client, database, OLD_HISTORY, "number", tables)),
    )


def _rows(client: Any, database: str, table: str, columns: str, tables: dict[str, LiveTable]) -> Sequence[Any]:
    if table not in tables:
        return ()
    return tuple(client.query(f"SELECT {columns} FROM {database}.{table} FINAL").result_rows)


def carry_out(client: Any, database: str, steps: Sequence[Step]) -> None:
    """Do those of the steps that are about tables."""
    names = Names(database)
    client.command(names.fill(history()))
    for step in steps:
        if isinstance(step, ApplyFile | Restore):
            for statement in step.statements:
                client.command(names.fill(statement))
        if isinstance(step, ApplyFile):
            client.insert(HISTORY, [step.noted], column_names=["number", "name", "checksum"])
        if isinstance(step, SetTtl):
            client.command(step.kept.statement)
