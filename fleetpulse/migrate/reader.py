"""The read-only user of an installation: its rights and its profile, given by the writer where the writer may."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from clickhouse_connect.driver.exceptions import ClickHouseError

from fleetpulse.sql.reader_profile import login_of_people, statements
from runtime.clickhouse_clients import connect, first_line
from runtime.config import ClickHouseConfig, Config
from schemas.errors import ConfigError, FleetpulseError


def limit_reader(config: Config, servers: Sequence[ClickHouseConfig] = (), *, dry_run: bool = False) -> tuple[str, ...]:
    """Give the user of ``clickhouse_reader`` its rights and limits, on the other ``servers`` too.

    Returns the SQL that did it (with ``dry_run``: that would). Raises ``ConfigError`` where none is configured,
    or the writer itself, ``FleetpulseError`` with what an administrator has to run where the writer may not.
    """
    reader = login_of_people(config)
    if reader.user == config.clickhouse.user:
        bound = "must be a user of its own: that of clickhouse.user would lose all rights but to read"
        raise ConfigError("clickhouse_reader.user", reader.user, bound)
    sql = statements(reader.user, reader.database, sharded=bool(reader.cluster))
    if dry_run:
        return sql
    for writer in (config.clickhouse, *servers):
        _run(writer, sql)
    return sql


def _run(writer: ClickHouseConfig, sql: Sequence[str]) -> None:
    with closing(connect(writer)) as client:
        try:
            for each in sql:
                client.command(each)
        except ClickHouseError as error:
            rest = ";\n".join(sql)
            raise FleetpulseError(
                f"{writer.user} may not manage users ({first_line(error)}). As an administrator run:\n{rest};"
            ) from error
