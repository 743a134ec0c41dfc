"""A database with all tables and views, for one test after the other: making them takes longer than most tests."""

from __future__ import annotations

import contextlib
import secrets
import time
from dataclasses import replace
from typing import Any

from runtime.clickhouse_clients import connect
from runtime.config import ClickHouseConfig
from schemas.ddl.files import Names
from schemas.ddl.fresh import fresh
from schemas.limits import DAY_MS, DEFAULT_LIMITS

_WITH_ROWS = """
SELECT name FROM system.tables
WHERE database = currentDatabase() AND endsWith(engine, 'MergeTree') AND total_rows > 0
"""
_AS_MADE = """
SELECT groupArray((name, uuid, toUnixTimestamp(metadata_modification_time)))
FROM (SELECT * FROM system.tables WHERE database = currentDatabase() ORDER BY name)
"""
"""Whatever changes a table writes the file of its definition anew. To ask for the definitions takes a hundred times the
time, before each test."""
_LATER = "SELECT now() > max(metadata_modification_time) FROM system.tables WHERE database = currentDatabase()"
"""Times of files are told in whole seconds."""
YEARS_MS = 3_650 * DAY_MS
KEPT = replace(
    DEFAULT_LIMITS, raw_ttl_ms=YEARS_MS, partials_ttl_ms=YEARS_MS, rollup_ttl_ms=YEARS_MS, costs_ttl_ms=YEARS_MS
)
"""Tests have rows of fixed days, which no TTL may take away one day."""


class Tables:
    """``server`` is the writer's login to any database of the server."""

    def __init__(self, server: ClickHouseConfig) -> None:
        self._server = server
        self._made: tuple[ClickHouseConfig, Any] | None = None

    def emptied(self) -> ClickHouseConfig:
        """The writer's login to the database, without rows; to a new one if the last test changed a table."""
        if self._made is not None:
            config, as_made = self._made
            with _client(config) as client:
                if client.command(_AS_MADE) == as_made:
                    for (name,) in client.query(_WITH_ROWS).result_rows:
                        client.command(f"TRUNCATE TABLE {name} SYNC")
                    return config
            self.drop()
        return self._make()

    def _make(self) -> ClickHouseConfig:
        config = self._server.model_copy(update={"database": f"fleetpulse_test_{secrets.token_hex(6)}"})
        with _client(self._server) as client:
            client.command(f"CREATE DATABASE {config.database}")
        self._made = (config, None)
        with _client(config) as client:
            for statement in fresh(Names(config.database), KEPT):
                client.command(statement)
            while not client.command(_LATER):
                time.sleep(0.05)
            self._made = (config, client.command(_AS_MADE))
        return config

    def drop(self) -> None:
        """Remove the database."""
        if self._made is not None:
            (config, _), self._made = self._made, None
            with _client(self._server) as client:
                client.command(f"DROP DATABASE {config.database} SYNC")


def _client(config: ClickHouseConfig) -> contextlib.closing[Any]:
    return contextlib.closing(connect(config))
