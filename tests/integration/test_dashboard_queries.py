"""The dashboard's catalogue against the real tables, and its access to them: limits, failures, recovery."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator

import pytest
from clickhouse_connect.driver.client import Client

from fleetpulse.dashboard.data import Data
from fleetpulse.queries.dashboard import Query, Value, names, query, read
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError, UnavailableError
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from tests.integration.sink_rig import migrated

pytestmark = pytest.mark.integration

NOW_MS = 1_760_000_000_000
SPANS_MS = (10 * MINUTE_MS, HOUR_MS, DAY_MS, 90 * DAY_MS)
HOSTILE = "'; DROP TABLE llm_requests; -- <script>"
IDENTIFIERS = {"bins": "ttft_us_bins", "total": "power_mw_sum", "known": "power_mw_count", "dimension": "host"}
OF_TYPES: dict[str, Value] = {"String": HOSTILE, "Int64": 1, "UInt8": 1, "UInt32": 5, "UInt64": 5, "Float64": 1.0}


def values_for(found: Query) -> dict[str, Value]:
    """A value for every place: hostile texts, small numbers, known columns."""
    arrays: dict[str, Value] = {
        "Array(String)": [HOSTILE],
        "Array(Nullable(String))": [HOSTILE, None],
        "Array(Nullable(Int64))": [None],
    }
    of_types = OF_TYPES | arrays
    return {
        name: IDENTIFIERS.get(name, "host") if kind == "Identifier" else of_types[kind]
        for name, kind in found.parameters.items()
        if name not in found.sources
    }


@pytest.fixture
async def data(clickhouse: Client, clickhouse_config: ClickHouseConfig) -> AsyncIterator[Data]:
    migrated(clickhouse)
    async with contextlib.aclosing(_Closing(clickhouse_config)) as found:
        yield found.data


class _Closing:
    def __init__(self, config: ClickHouseConfig) -> None:
        self.data = Data(config)

    async def aclose(self) -> None:
        await self.data.close()


async def test_every_query_runs_at_every_level_with_hostile_texts(data: Data, clickhouse: Client) -> None:
    """On tables that are there; what is bound stays a text, and nothing is gone afterwards."""
    tables = "SELECT count() FROM system.tables WHERE database = currentDatabase()"
    before = clickhouse.query(tables).result_rows

    for name in names():
        found = query(name)
        for span_ms in SPANS_MS if found.sources else SPANS_MS[:1]:
            given = values_for(found) | {"from_ms": NOW_MS - span_ms, "to_ms": NOW_MS, "bucket_ms": MINUTE_MS}
            answer = await data.ask(name, given, span_ms)
            assert len(answer.rows) <= found.rows_max

    assert clickhouse.query(tables).result_rows == before
    assert data.trouble is None


@pytest.mark.parametrize(
    ("from_min", "to_min"),
    [(0, 180), (10, 170), (59, 61), (60, 120), (61, 119), (0, 60), (119, 121), (30, 31)],
)
async def test_whole_hours_and_what_lies_around_them_add_up(
    data: Data, clickhouse: Client, from_min: int, to_min: int
) -> None:
    """A request a minute: whatever the range, as many as it has minutes; nothing is missed or counted twice."""
    now_ms = time.time_ns() // 1_000_000  # rows of long ago would be gone by their TTL
    start_ms = now_ms - now_ms % HOUR_MS - DAY_MS
    for level, width_ms in (("1m", MINUTE_MS), ("1h", HOUR_MS)):
        clickhouse.command(
            f"INSERT INTO llm_requests_rollup_{level} (window_ms, grouping, tenant, model, status, event_count)"
            f" SELECT {start_ms} + number * {width_ms}, 'service', 'a', 'm', 'error', {width_ms // MINUTE_MS}"
            f" FROM numbers({3 * HOUR_MS // width_ms})"
        )
    span: dict[str, Value] = {"from_ms": start_ms + from_min * MINUTE_MS, "to_ms": start_ms + to_min * MINUTE_MS}
    anything = dict.fromkeys(("cluster", "region", "model", "tenant", "search"), "")

    for name in ("models", "tenants", "tenant_errors"):
        answer = await data.ask(name, {**anything, **span, "top": 5}, 6 * HOUR_MS)
        assert [row["requests"] for row in answer.records()] == [to_min - from_min], name


async def test_equal_questions_share_an_answer(data: Data) -> None:
    """Twenty people on one page cost what one does."""
    given: dict[str, Value] = {"from_ms": 0, "to_ms": NOW_MS, "id": "x"}

    first, second = [await data.ask("request", given, HOUR_MS) for _ in range(2)]

    assert first is second


async def test_a_query_that_takes_too_long_is_stopped_and_says_what_to_do(data: Data) -> None:
    """By the server, in a sentence for people."""
    with pytest.raises(FleetpulseError, match="choose a shorter range"):
        await data.sql(
            "SELECT count() FROM numbers(1e15) WHERE NOT ignore(sipHash64(number))", {}, {"max_execution_time": 1}
        )


async def test_a_query_that_brings_too_much_is_stopped(data: Data) -> None:
    """Nothing floods a browser."""
    found = read("q", "-- Many.\n-- rows: 10\nSELECT number FROM numbers(11)")

    with pytest.raises(FleetpulseError, match="more to show than fits"):
        await data.sql(found.sql, {}, found.settings())


async def test_what_clickhouse_refuses_is_told_in_its_first_line(data: Data) -> None:
    """And is no reason to try again."""
    with pytest.raises(FleetpulseError, match="ClickHouse refused this") as refused:
        await data.sql("SELECT nothing_like_this", {}, {})
    assert not refused.value.retriable


async def test_the_dashboard_comes_back_with_clickhouse(
    clickhouse: Client, clickhouse_config: ClickHouseConfig, unused_tcp_port: int
) -> None:
    """While it is away every question says so at once; afterwards the same object answers."""
    migrated(clickhouse)
    away = clickhouse_config.model_copy(update={"url": f"http://127.0.0.1:{unused_tcp_port}"})
    data = Data(away)
    given: dict[str, Value] = {"from_ms": 0, "to_ms": NOW_MS, "id": "x"}

    with pytest.raises(UnavailableError, match="does not answer"):
        await data.ask("request", given, HOUR_MS)
    assert data.trouble is not None
    data._config = clickhouse_config
    answer = await data.ask("request", given, HOUR_MS)
    await data.close()

    assert answer.rows == ()
    assert data.trouble is None
