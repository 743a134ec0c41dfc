"""Every shipped query over sums of a year of 100,000 GPUs: few rows with extreme values, against exact integers.

Sums, their quotients and their products with counts are linear in what is summed. So each query is run on rows whose
sums are small, and on the same with all of them times ``FACTOR``: each number of the answer must be as it was or
``FACTOR`` times as much, by Python's integers. A sum that wraps is neither.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.sql.query import measures, parameters_of, percentiles_sql
from lab.bench.dashboard_fleet import TENANTS, gpu_uuid
from lab.bench.dashboard_queries import ENGINE, values_of
from lab.bench.dashboard_windows import JOB, METRICS
from schemas.events.grouping import sets_of
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.rows.tables import PARTIALS
from tests.extremes import INT64_MAX, total_of

pytestmark = [pytest.mark.integration, pytest.mark.tables]

ROWS = 24
FACTOR = 2**24
LONG_MS = 40 * DAY_MS
"""Read from rows of days, where a query chooses its table: the text is the same for all."""
LABELS = {
    "status": "ok", "error_kind": "server", "origin": "measured", "engine_id": ENGINE, "host": "host-0000",
    "gpu_uuid": gpu_uuid(0), "tenant": TENANTS[0], "owner": ENGINE, "use": "engine", "job": JOB, "metric": METRICS[0],
    "verdict": "accepted", "severity": "critical", "topic": "llm.requests", "rerate": "r",
}  # fmt: skip
COUNTS = re.compile(r"(_count|version|final|revision|rank|number|count|readings|requests|judged|events|records)$")
NOT_LINEAR = {
    ("cost_goodput_windows", "left_out"),  # events less what was judged
    ("dashboard/engine_memory", "left_bytes"),  # a capacity less what is held
    ("dashboard/latency_by_concurrency", "at_once"),  # the nearest power of two, of a batch that no engine runs
}
WITH_ROWS = """
SELECT name FROM system.tables
WHERE database = currentDatabase() AND endsWith(engine, 'MergeTree') AND total_rows > 0
"""
PARTS = {"name": ["request", "__idle__", "__overhead__"], "kind": ["prefill", "decode", "kv"]}


def scaled(column: str, factor: int) -> int:
    """The value of a sum in each row: the year's total divided by rows and ``FACTOR``, times ``factor``."""
    return min(total_of(column) // ROWS, INT64_MAX // 2) // FACTOR * factor


def expression(column: str, kind: str, at_ms: str, factor: int) -> str | None:
    """SQL of a column's value in row ``number``; None leaves the default."""
    if column.endswith("_ms") and re.search(
        r"^(at|window|minute|hour|last_at|appended|committed|newest|noted|last_commit)_ms$", column
    ):
        return at_ms
    if column in ("log_offset", "offset", "seq", "log_row"):
        return "number"
    if column in ("log_partition", "partition"):
        return "number % 4"
    if kind.startswith("Array("):
        return listed(column, kind, factor)
    if kind == "Map(Int16, UInt64)":
        return "map(toInt16(100), toUInt64(9))"
    if "String" in kind:
        return f"'{LABELS.get(column, 'x')}'" if kind != "UUID" else None
    if column.endswith(("_min", "_max", "_last")) or COUNTS.search(column) or "Int64" not in kind or kind[0] == "U":
        return "1" if re.fullmatch(r"(Nullable\()?U?Int\d+\)?", kind) and column != "verdict" else None
    return str(scaled(column, factor))


def listed(column: str, kind: str, factor: int) -> str:
    """A list of three, of labels or of numbers."""
    stem = column.partition("_")[2]
    if "String" in kind:
        words = PARTS.get(stem, [LABELS.get(stem, "x")] * 3)
        return "[" + ", ".join(f"'{word}'" for word in words) + "]"
    return "[" + ", ".join([str(1 if COUNTS.search(column) else scaled(stem, factor))] * 3) + "]"


def width_of(table: str) -> int:
    """Width of a table's rows."""
    return {"1m": MINUTE_MS, "1h": HOUR_MS, "1d": DAY_MS}.get(table[-2:], WINDOW_MS)


def fill(client: Client, to_ms: int, factor: int, without: str = "dirty_windows") -> None:
    """Rows of every table that ``without`` does not match, its sums times ``factor``."""
    columns: dict[str, dict[str, str]] = {}
    for table, name, kind in client.query(
        "SELECT table, name, type FROM system.columns WHERE database = currentDatabase() AND default_kind = ''"
        " AND table IN (SELECT name FROM system.tables WHERE database = currentDatabase()"
        " AND (engine LIKE '%MergeTree' OR engine = 'Distributed'))"
        f" AND NOT match(table, '_local$|{without}') AND NOT startsWith(type, 'SimpleAggregate')"
    ).result_rows:
        columns.setdefault(table, {})[name] = kind
    topics = {table.name.removesuffix("_partials"): topic for topic, table in PARTIALS.items()}
    for table, kinds in columns.items():
        found = next((topic for stem, topic in topics.items() if table.startswith(stem)), None)
        found = "gpu.samples" if table.startswith("gpu_history") else found
        names = [one.name for one in sets_of(found)] if found and "grouping" in kinds else [""]
        width_ms = MINUTE_MS if "minute_ms" in kinds else width_of(table)
        at_ms = f"toInt64(intDiv({to_ms}, {width_ms}) * {width_ms} - (number + 1) * {width_ms})"
        given = {one: expression(one, kind, at_ms, factor) for one, kind in kinds.items()}
        given = {one: sql for one, sql in given.items() if sql is not None}
        if "grouping" in given:
            given |= {"grouping": f"{names}[place]"}
        if "log_offset" in given:
            given |= {"log_offset": "number + 1000 * (place - 1)"}
        client.command(
            f"INSERT INTO {table} ({', '.join(given)}) SELECT {', '.join(given.values())} FROM numbers({ROWS})"
            f" ARRAY JOIN range(1, {len(names) + 1}) AS place"
        )


def asked(to_ms: int) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Every query: its name, its text and what is bound."""
    texts = {name: queries.text(name) for name in queries.names()}
    texts |= {f"percentiles/{one}": percentiles_sql(one, "model") for one in measures()}
    for name, text in texts.items():
        known = {"from_ms": to_ms - DAY_MS, "to_ms": to_ms, "bucket_ms": DAY_MS, "id": "x", "fingerprint": "x"}
        known |= {"bins": "ttft_us_bins", "quantile": 0.99, "width_ms": MINUTE_MS}
        of_kind = {"Identifier": "tenant", "String": "", "Int64": 0, "UInt32": 50, "Float64": 1.0, "UInt64": 50}
        wanted = parameters_of(text)
        yield name, text, {one: known.get(one, LABELS.get(one, of_kind.get(kind, []))) for one, kind in wanted.items()}
    for name in dashboard.names():
        found = dashboard.query(name)
        span_ms = LONG_MS if found.sources else HOUR_MS
        yield (
            f"dashboard/{name}",
            found.at_levels(span_ms),
            {**values_of(found, to_ms - span_ms, to_ms), "bucket_ms": span_ms},
        )


def answers(client: Client, to_ms: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of every query by its name, by their names: a union has no order."""

    def named(row: Mapping[str, Any]) -> list[str]:
        return [value for value in row.values() if isinstance(value, str)]

    return {
        name: sorted(client.query(sql, dict(bound)).named_results(), key=named) for name, sql, bound in asked(to_ms)
    }


def exact(small: Any, large: Any) -> bool:
    """Whether a number is as it was or ``FACTOR`` times as much, to the last digit or that of a float."""
    if isinstance(small, list | tuple):
        return len(small) == len(large) and all(map(exact, small, large))
    if isinstance(small, bool) or not isinstance(small, int | float):
        return True
    if not isinstance(large, int | float):
        return False
    if isinstance(small, int) and isinstance(large, int):
        return large in (small, small * FACTOR)
    if math.isnan(small):
        return math.isnan(large)
    return any(math.isclose(large, one, rel_tol=1e-3) for one in (small, small * FACTOR))


def test_no_query_wraps(clickhouse: Client) -> None:
    """Numbers of 24 rows that add up to a year of 100,000 GPUs are exactly those of small ones, times the factor."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    to_ms = now_ms // DAY_MS * DAY_MS - DAY_MS  # rollups of bills count once they are as old as they are wide
    fill(clickhouse, to_ms, 1)
    small = answers(clickhouse, to_ms)
    for (table,) in clickhouse.query(WITH_ROWS).result_rows:
        clickhouse.command(f"TRUNCATE TABLE {table} SYNC")
    fill(clickhouse, to_ms, FACTOR)
    large = answers(clickhouse, to_ms)

    wrong = {
        (name, column): (value, large[name][place][column])
        for name, rows in small.items()
        for place, row in enumerate(rows)
        for column, value in row.items()
        if (name, column) not in NOT_LINEAR and not exact(value, large[name][place][column])
    }
    assert {name: len(rows) for name, rows in small.items()} == {name: len(rows) for name, rows in large.items()}
    assert sum(map(bool, small.values())) > 85, [name for name, rows in small.items() if not rows]
    assert wrong == {}
