"""The slowest requests of hours: of every engine, model, tenant and way to end the one that took longest.

A window leaves two of every engine and model: of a fleet of 10,000 GPUs that are ninety million a day, far too many to
look for the slowest of a day among them. The table keeps the greatest of each key, filled by the insert of windows
itself; repeats and rows in any order give the same, and where windows are cut makes no difference.
"""

from __future__ import annotations

from schemas.ddl.columns import SETTINGS, Column, column_of, day, table
from schemas.limits import HOUR_MS
from schemas.rows.tables import EXEMPLARS

TABLE = "exemplars_slowest_1h"
METRICS = ("ttft", "e2e")
LABELS = ("host", "engine_id", "model", "tenant", "status")
WINDOWS_UP_TO_MS = 2 * HOUR_MS
"""Ranges up to this are read window by window."""
_NEVER_NULL = ("metric", "model")
_ROWS_TOGETHER = 1_024
"""The few that are shown are picked by their value from all over the table: little is unpacked for each."""
_SLOWEST = "Tuple(value_us Int64, window_ms Int64, request_id String, error_kind Nullable(String))"


def statements() -> list[str]:
    """The table and what fills it."""
    return [_table(), f"CREATE MATERIALIZED VIEW IF NOT EXISTS {TABLE}_copy TO {TABLE} AS\n{_picked()}"]


def _picked() -> str:
    greatest = f"CAST((assumeNotNull(value_us), window_ms, request_id, error_kind), '{_SLOWEST}')"
    keys = ", ".join(("hour_ms", "metric", *LABELS))
    return f"""SELECT
    intDiv(window_ms, {HOUR_MS}) * {HOUR_MS} AS hour_ms,
    {", ".join(("metric", *LABELS))},
    max({greatest}) AS slowest
FROM {EXEMPLARS.name}
WHERE metric IN {METRICS} AND value_us IS NOT NULL
GROUP BY {keys}"""


def _table() -> str:
    fields = {field.name: field for field in EXEMPLARS.fields}
    columns = [
        Column("hour_ms", "Int64", "start of the hour, event time, UTC [ms]", "Delta(8), ZSTD(1)"),
        *(column_of(fields[name], _NEVER_NULL) for name in ("metric", *LABELS)),
        Column(
            "slowest",
            f"SimpleAggregateFunction(max, {_SLOWEST})",
            "the request that took longest, by its metric [us], and the start of its window [ms]",
            "ZSTD(1)",
        ),
    ]
    return table(
        TABLE,
        columns,
        "AggregatingMergeTree",
        f"metric, hour_ms, {', '.join(LABELS)}",
        "the slowest request of an hour, engine, model, tenant and way to end; read with FINAL",
        partition=day("hour_ms"),
        settings=f"{SETTINGS}, index_granularity = {_ROWS_TOGETHER}",
    )
