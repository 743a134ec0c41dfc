"""The tables, views and functions of a database as the server describes them, so that two databases can be compared.

How long rows are kept is a setting and left out; so is the history of migrations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetpulse.migrate.table_plan import OLD_HISTORY
from runtime.clickhouse_clients import named_rows_of
from schemas.ddl.files import HISTORY

_SETTINGS = re.compile(r"(\w+) = ('(?:[^'\\]|\\.)*'|[^,]+)")


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """``default`` is such as ``DEFAULT now()`` or ``MATERIALIZED bitNot(offset)``, empty without."""

    type: str
    default: str = ""
    codec: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """``fixed`` cannot be altered: engine, partition key, sorting key. ``indexes``: definition by name."""

    columns: Mapping[str, ColumnSchema]
    fixed: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    indexes: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""


@dataclass(frozen=True, slots=True)
class DatabaseSchema:
    """``views``: text by name; ``copies``: SELECT of materialized views by name; ``functions``: text by name."""

    tables: Mapping[str, TableSchema] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)


_TABLES = """
SELECT name, engine, engine_full, partition_key, sorting_key, comment, create_table_query, as_select
FROM system.tables WHERE database = {database:String} ORDER BY name
"""
_COLUMNS = """
SELECT table, name, type, trimBoth(concat(default_kind, ' ', default_expression)) AS default, compression_codec, comment
FROM system.columns WHERE database = {database:String} ORDER BY table, position
"""
_INDEXES = """
SELECT table, name, concat(expr, ' TYPE ', type_full, ' GRANULARITY ', toString(granularity)) AS text
FROM system.data_skipping_indices WHERE database = {database:String} ORDER BY table, name
"""
_FUNCTIONS = "SELECT name, create_query FROM system.functions WHERE origin = 'SQLUserDefined' ORDER BY name"


def read_schema(client: Any, database: str) -> DatabaseSchema:
    """The schema of a database. Functions are those of the server."""

    def rows(sql: str) -> list[dict[str, Any]]:
        return named_rows_of(client.query(sql, parameters={"database": database}))

    every = [row for row in rows(_TABLES) if row["name"] not in (HISTORY, OLD_HISTORY)]
    columns: dict[str, dict[str, ColumnSchema]] = {}
    for row in rows(_COLUMNS):
        columns.setdefault(row["table"], {})[row["name"]] = _column(row)
    indexes: dict[str, dict[str, str]] = {}
    for row in rows(_INDEXES):
        indexes.setdefault(row["table"], {})[row["name"]] = row["text"]

    def texts(engine: str, key: str) -> dict[str, str]:
        return {row["name"]: row[key].replace(f"{database}.", "") for row in every if row["engine"] == engine}

    return DatabaseSchema(
        {
            row["name"]: _table(row, columns[row["name"]], indexes.get(row["name"], {}))
            for row in every
            if not row["engine"].endswith("View")
        },
        texts("View", "create_table_query"),
        texts("MaterializedView", "as_select"),
        {row["name"]: row["create_query"] for row in rows(_FUNCTIONS)},
    )


def _column(row: Mapping[str, str]) -> ColumnSchema:
    codec = row["compression_codec"].removeprefix("CODEC(").removesuffix(")")
    return ColumnSchema(row["type"], row["default"], codec, row["comment"])


def _table(row: Mapping[str, str], columns: dict[str, ColumnSchema], indexes: dict[str, str]) -> TableSchema:
    before, _, settings = row["engine_full"].partition(" SETTINGS ")
    fixed = {
        "engine": re.split(r" (?:PARTITION BY|ORDER BY|PRIMARY KEY|TTL) ", before)[0],
        "partition key": row["partition_key"],
        "sorting key": row["sorting_key"],
    }
    return TableSchema(columns, fixed, dict(_SETTINGS.findall(settings)), indexes, row["comment"])
