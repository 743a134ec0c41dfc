"""A backtest on a real ClickHouse: what the sink kept comes back as records of window.finals, and rules judge it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from fleetpulse.backtest.history import decode_blocks, merged_sql, stretches
from fleetpulse.sql.database import Database
from runtime.config import ClickHouseConfig
from schemas.codec import native
from schemas.codec.block import Numbers
from schemas.codec.build import rows_of
from schemas.events.event_types import LLM_REQUESTS
from schemas.rows import finals
from schemas.rows.tables import PARTIALS
from sinks.database import SinkDatabase
from tests.integration.sink_rig import store
from tests.unit.sinks.landing_cases import NOW_MS, partials

pytestmark = [pytest.mark.integration, pytest.mark.tables]

WINDOW_MS = NOW_MS - NOW_MS % 10_000


@pytest.fixture
def database(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> Iterator[SinkDatabase]:
    with contextlib.closing(SinkDatabase(clickhouse_config)) as found:
        yield found


def a_row(events: int, window_ms: int, model: str = "m") -> dict[str, Any]:
    bins = {"ttft_us_bins": {100: events}, "ttft_us_count": events, "ttft_us_sum": 7 * events, "ttft_us_min": 7}
    return {"window_ms": window_ms, "grouping": "service", "event_count": events, "model": model, **bins}


def test_kept_rows_come_back_merged(database: SinkDatabase, clickhouse_config: ClickHouseConfig) -> None:
    """Two partial rows of one series are one row; another window is another record; sketches and nulls survive."""
    rows = [a_row(3, WINDOW_MS), a_row(4, WINDOW_MS + 10_000), a_row(1, WINDOW_MS, "other")]
    store(database, [partials(rows, 10), partials([a_row(5, WINDOW_MS)], 11)], NOW_MS)

    (stretch,) = stretches(Database(clickhouse_config).native, WINDOW_MS, WINDOW_MS + 20_000)

    found = []
    fields = PARTIALS["llm.requests"].fields
    for record in stretch.records:
        headers = finals.decode(record.headers, "here")
        if headers.rows:
            found += rows_of(fields, native.decode(record.value or b"", fields))
    kept = [
        (
            r["window_ms"] - WINDOW_MS,
            r["model"],
            r["event_count"],
            r["ttft_us_bins"],
            r["ttft_us_sum"],
            r["ttft_us_max"],
        )
        for r in found
    ]
    assert sorted(kept) == [
        (0, "m", 8, {100: 8}, 56, None),
        (0, "other", 1, {100: 1}, 7, None),
        (10_000, "m", 4, {100: 4}, 28, None),
    ]
    assert {row["tenant"] for row in found} == {None}


def test_an_answer_of_many_blocks_is_read_whole(
    database: SinkDatabase, clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """The server cuts long answers into blocks."""
    rows = [a_row(1, WINDOW_MS + 10_000 * number) for number in range(50)]
    store(database, [partials(rows, 10)], NOW_MS)
    sql = merged_sql(LLM_REQUESTS, WINDOW_MS, WINDOW_MS + 500_000)

    answer = clickhouse.raw_query(sql, fmt="Native", settings={"max_block_size": 7})

    block = decode_blocks(answer, PARTIALS["llm.requests"].fields)
    windows = block.columns["window_ms"]
    assert isinstance(windows, Numbers)
    assert windows.values.tolist() == [row["window_ms"] for row in rows]
