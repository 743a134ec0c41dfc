"""What the oracle's tests share: a database that each file fills once, and how faces ask it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from runtime.clickhouse_clients import connect
from schemas.limits import HOUR_MS, MINUTE_MS
from tests.integration.answer_rows import E2E_MOST_US, TTFT_MOST_US, Row, fill_all
from tests.integration.cost_rows import ODD_ROWS
from tests.integration.request_rows import fill_bills
from tests.tables import Tables

OBJECTIVES = dict.fromkeys(("interactive", "batch"), (TTFT_MOST_US, None, E2E_MOST_US))
RAW_TABLES = {"gpu.samples": "gpu_samples", "host.samples": "host_samples", "engine.samples": "engine_samples"}


class Asked:
    """A database as faces ask it."""

    def __init__(self, clickhouse: Any) -> None:
        self.client = clickhouse
        self.readings: dict[str, list[Row]] = {}
        self.now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))

    def __call__(self, sql: str, bound: Mapping[str, Any]) -> list[dict[str, Any]]:
        return list(self.client.query(sql, parameters=dict(bound)).named_results())


@contextlib.contextmanager
def filled(tables: Tables) -> Iterator[Asked]:
    """Requests, bills and readings of more than a day; tests only read them."""
    with contextlib.closing(connect(tables.emptied())) as clickhouse:
        found = Asked(clickhouse)
        rows = fill_all(clickhouse, found.now_ms)
        minute_ms = found.now_ms // MINUTE_MS * MINUTE_MS
        fill_bills(clickhouse, [minute_ms - ago_ms for ago_ms in (26 * HOUR_MS, 4 * MINUTE_MS)], ODD_ROWS)
        found.readings |= rows.readings
        for topic, table in RAW_TABLES.items():
            insert_raw(clickhouse, table, rows.readings[topic])
        yield found


def insert_raw(clickhouse: Any, table: str, rows: list[Row]) -> None:
    """Single readings, as the sink leaves them."""
    known = {row[0] for row in clickhouse.query(f"DESCRIBE TABLE {table}").result_rows}
    names = sorted({name for row in rows for name in row} & known)
    listed = [[*(row.get(name) for name in names), "accepted", "s", seq, 0, row["at_ms"]]
              for seq, row in enumerate(rows)]  # fmt: skip
    clickhouse.insert(table, listed, column_names=[*names, "verdict", "source", "seq", "row", "appended_ms"])
