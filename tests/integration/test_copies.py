"""Two copies of the database, each fed by a sink of its own: one fails, the other answers, and what it missed comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from fleetpulse.migrate.run import migrate
from fleetpulse.repair.run import repair
from runtime.clickhouse_clients import connect
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig, KafkaConfig
from schemas.contract.topics import ALERTS_TOPIC, BOOKS_TOPIC, COSTS_TOPIC, REJECTED_TOPIC, WINDOW_PARTIALS
from schemas.limits import DEFAULT_LIMITS, HOUR_MS
from sinks.rollup import RollupSettings
from sinks.service import SinkSettings, run_sink
from tests.integration.shard_rig import servers
from tests.integration.sink_rig import Door, committed, send, skip_to_end, until, until_committed
from tests.unit.sinks.landing_cases import partials

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SETTINGS = SinkSettings(flush_ms=100, raw=False, rollups=RollupSettings(pass_ms=200, settle_ms=300))
OF_COPY = SinkSettings(flush_ms=100, raw=False, replica="b", rollups=SETTINGS.rollups)
TOPICS = (WINDOW_PARTIALS, BOOKS_TOPIC, REJECTED_TOPIC, ALERTS_TOPIC, COSTS_TOPIC)
MINUTES = "SELECT window_ms, grouping, model, event_count, version FROM llm_requests_rollup_1m FINAL ORDER BY ALL"


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ClickHouseConfig]]:
    """Two servers that know nothing of one another."""
    with servers(tmp_path_factory.mktemp("copies"), shards=1) as (one, (other,)):
        yield [one, other.model_copy(update={"cluster": ""})]


@pytest.fixture
async def kafka(own_kafka: KafkaConfig, copies: list[ClickHouseConfig]) -> KafkaConfig:
    """Topics of this test, and tables of both copies."""
    await asyncio.to_thread(migrate, own_kafka, copies[0], servers=copies[1:])
    return own_kafka


@contextlib.asynccontextmanager
async def sink(kafka: KafkaConfig, config: ClickHouseConfig, settings: SinkSettings) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(run_sink(kafka, config, settings, stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, 120.0)


def rows(config: ClickHouseConfig, sql: str) -> list[Any]:
    with contextlib.closing(connect(config)) as client:
        return list(client.query(sql).result_rows)


def events(config: ClickHouseConfig) -> int:
    ((found,),) = rows(config, "SELECT sum(event_count) FROM llm_requests_partials FINAL")
    return int(found)


def a_row(number: int, now_ms: int) -> dict[str, Any]:
    return {"window_ms": now_ms, "grouping": "service", "event_count": number, "model": f"m{number}"}


async def test_each_copy_is_fed_and_catches_up_by_itself(kafka: KafkaConfig, copies: list[ClickHouseConfig]) -> None:
    """While one is away the other goes on; when it is back it has all, by its own group's offset."""
    now_ms = SystemClock().now_ms() // 60_000 * 60_000 - 120_000
    one, other = copies
    async with Door(other).standing() as door, sink(kafka, one, SETTINGS), sink(kafka, door.config, OF_COPY):
        end = await send(kafka, [partials([a_row(1, now_ms)], 0)])
        await until(lambda: (events(one), events(other)) == (1, 1), 120.0)
        await until_committed(kafka, f"{kafka.namespace}-sink-b", WINDOW_PARTIALS, end)
        door.shut()
        end = await send(kafka, [partials([a_row(number, now_ms)], 0) for number in (2, 3)])
        await until(lambda: events(one) == 6, 120.0)
        behind = await committed(kafka, f"{kafka.namespace}-sink-b", WINDOW_PARTIALS, 0)
        door.open()
        await until(lambda: events(other) == 6, 120.0)
        await until(lambda: rows(other, MINUTES) == rows(one, MINUTES) != [], 120.0)

    assert behind == end - 2


async def test_a_copy_is_filled_from_another_where_kafka_holds_no_more(
    kafka: KafkaConfig, copies: list[ClickHouseConfig]
) -> None:
    """Rows that one sink never read come from the other copy, once; its own sink computes the rollups of them."""
    now_ms = SystemClock().now_ms() // 60_000 * 60_000 - 120_000
    one, other = copies
    span_ms = (now_ms - HOUR_MS, now_ms + HOUR_MS)
    before = events(one)
    async with sink(kafka, one, SETTINGS):
        await send(kafka, [partials([a_row(number, now_ms)], 0) for number in (10, 20)])
        await until(lambda: events(one) == before + 30, 120.0)
        await until(lambda: len(rows(one, f"{MINUTES} LIMIT 100")) >= 2, 120.0)
    await skip_to_end(kafka, f"{kafka.namespace}-sink-b", TOPICS)  # as if the records were gone
    planned = await asyncio.to_thread(repair, one, other, span_ms, DEFAULT_LIMITS, dry_run=True)
    lacked = events(other)

    filled = await asyncio.to_thread(repair, one, other, span_ms, DEFAULT_LIMITS)
    again = await asyncio.to_thread(repair, one, other, span_ms, DEFAULT_LIMITS)
    async with sink(kafka, other, OF_COPY):
        await until(lambda: rows(other, MINUTES) == rows(one, MINUTES), 120.0)

    assert lacked == before
    assert {one.rows for one in planned.filled} == {None}
    assert [one.table for one in planned.filled] == [one.table for one in filled.filled]
    assert {one.table: one.hours for one in filled.filled}["llm_requests_partials"] == 1
    assert again.filled == []
    assert events(other) == before + 30
