"""The sink on a real Kafka and a real ClickHouse: at least once, and every row counts once."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from fleetpulse.migrate.run import migrate
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.kafka_clients import make_producer, started
from schemas.contract.headers import Identity
from schemas.contract.record import Record
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.errors import ConfigError, ContractError
from schemas.rows.usage import USAGE_KEY
from sinks.database import SinkDatabase
from sinks.rollup import RollupSettings
from sinks.service import Progress, SinkSettings, run_sink
from tests.integration.sink_rig import Door, committed, send, store, store_raw, until
from tests.unit.sinks.landing_cases import NOW_MS, partials, requests
from tests.unit.stream_jobs.windows.cases import a_commit, a_record, a_request, a_step
from tests.unit.stream_jobs.windows.usage_cases import totals

pytestmark = [pytest.mark.integration, pytest.mark.tables]

SETTINGS = SinkSettings(flush_ms=100, raw=False, rollups=RollupSettings(pass_ms=200, settle_ms=300))
SPOOL = secrets.token_hex(16)
WINDOW_MS = NOW_MS - NOW_MS % 10_000


def a_row(events: int, window_ms: int = WINDOW_MS) -> dict[str, Any]:
    return {"window_ms": window_ms, "grouping": "service", "event_count": events, "model": "m"}


def landed(clickhouse: Any) -> tuple[int, int]:
    """(rows, events) of the partial rows."""
    query = "SELECT count(), sum(event_count) FROM llm_requests_partials FINAL"
    return tuple(clickhouse.query(query).result_rows[0])  # type: ignore[return-value]


@pytest.fixture
def database(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> Any:
    with contextlib.closing(SinkDatabase(clickhouse_config)) as found:
        yield found


def test_a_block_that_is_inserted_twice_counts_once(database: SinkDatabase, clickhouse: Any) -> None:
    """A retry after an answer that was lost changes nothing, merged with other records or not."""
    one, two = partials([a_row(3), a_row(4)], 10), partials([a_row(5)], 11)

    store(database, [one], NOW_MS)
    store(database, [one, two], NOW_MS)
    store(database, [two, one], NOW_MS)

    assert landed(clickhouse) == (3, 12)


def test_usage_adds_up_to_what_requests_told_though_it_lands_twice(database: SinkDatabase, clickhouse: Any) -> None:
    """From the windows job's own records, over all minutes and commits: null stays null, labels are kept."""
    step, now_ms = a_step(), SystemClock().now_ms()
    state, records = step.new("llm.requests", 0), list[Record]()
    times = {"e2e_us": 125_000_000, "ttft_us": 12_000_000}
    events = [
        a_request(now_ms + n, tenant=f"t{n % 3}", input_tokens=n * 11, output_tokens=n if n % 3 else None, **times)
        for n in range(40)
    ]
    for number, start in enumerate(range(0, 40, 8)):
        changes = step.changes()
        step.fold(state, [a_record("llm.requests", events[start : start + 8], number)], changes)
        for output in step.rows(state, changes, a_commit("llm.requests", number, number + 1)):
            if output.topic == WINDOW_PARTIALS and output.value:
                place = (output.topic, output.partition, len(records), now_ms)
                records.append(Record(*place, None, output.value, output.headers))

    for _ in range(2):
        store(database, records, now_ms)

    sums = "sum(requests), sum(prefill_tokens), sum(cached_tokens), sum(decode_tokens)"
    by_tenant = f"SELECT tenant, {sums} FROM usage FINAL GROUP BY tenant ORDER BY tenant"
    told = {key[USAGE_KEY.index("tenant")]: amounts for key, amounts in totals(events).items()}
    assert clickhouse.query(by_tenant).result_rows == [(tenant, *told[tenant]) for tenant in ("t0", "t1", "t2")]
    assert clickhouse.query("SELECT uniqExact(window_ms) FROM usage").result_rows[0][0] in (3, 4)


def test_of_copies_of_a_raw_event_the_first_in_the_log_stands(database: SinkDatabase, clickhouse: Any) -> None:
    """A re-send that arrives hours later reads late; the verdict of the job, which saw the first copy, is kept."""
    first = requests([NOW_MS], 5, Identity(SPOOL, 1, 0, (1, 0)))
    again = first._replace(offset=900, timestamp_ms=NOW_MS + 7 * 3_600_000)
    rows = "SELECT offset, verdict, count() FROM llm_requests FINAL GROUP BY offset, verdict"

    for order in ([first], [again], [first, again]):
        store_raw(database, order, NOW_MS)

        assert clickhouse.query(rows).result_rows == [(5, "accepted", 1)]
    clickhouse.command("TRUNCATE TABLE llm_requests")
    store_raw(database, [again], NOW_MS)
    store_raw(database, [first], NOW_MS)
    clickhouse.command("OPTIMIZE TABLE llm_requests FINAL")

    assert clickhouse.query(rows).result_rows == [(5, "accepted", 1)]


@contextlib.asynccontextmanager
async def running(kafka: Any, config: ClickHouseConfig, settings: SinkSettings = SETTINGS) -> AsyncIterator[Any]:
    """A sink; what it raises is raised here."""
    stop, progress = asyncio.Event(), Progress()
    task = asyncio.create_task(run_sink(kafka, config, settings, stop, progress=progress))
    task.progress = progress  # type: ignore[attr-defined]
    try:
        yield task
    finally:
        stop.set()
        await asyncio.wait_for(task, 120.0)


@pytest.fixture
async def deployment(own_kafka: KafkaConfig, clickhouse_config: ClickHouseConfig) -> Any:
    """Kafka under a name of its own, topics and tables made, groups at the end of what is there."""
    await asyncio.to_thread(migrate, own_kafka, clickhouse_config)
    return own_kafka


async def test_two_sinks_have_the_rollups_of_their_partitions(
    deployment: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """Each some, all of them together, none twice; the one that is left has all."""

    def shared(*sinks: Any) -> bool:
        shares = [one.progress.share for one in sinks]
        owned = sorted(n for share in shares for n in share.owned)
        return all(share.owned for share in shares) and owned == [*range(max(share.of for share in shares))]

    async with running(deployment, clickhouse_config) as one:
        async with running(deployment, clickhouse_config) as other:
            await until(lambda: shared(one, other))
            assert one.progress.share.owned
            assert other.progress.share.owned
        await until(lambda: shared(one))


async def test_a_sink_that_dies_between_insert_and_commit_repeats_what_counts_once(
    deployment: Any, clickhouse_config: ClickHouseConfig, clickhouse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows land twice under one identity; the offset moves only with the second sink."""
    now_ms = SystemClock().now_ms()
    group = f"{deployment.namespace}-sink"
    before = await committed(deployment, group, WINDOW_PARTIALS, 0)

    class Killed(BaseException):
        pass

    async def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(AIOKafkaConsumer, "commit", die)
        await send(deployment, [partials([a_row(3, now_ms)], 0), partials([a_row(4, now_ms)], 0)])
        with pytest.raises(BaseExceptionGroup):
            async with running(deployment, clickhouse_config) as task:
                await task
    assert landed(clickhouse)[1] in (3, 7)
    assert await committed(deployment, group, WINDOW_PARTIALS, 0) == before

    async with running(deployment, clickhouse_config):
        await until(lambda: landed(clickhouse) == (2, 7))
        await asyncio.sleep(0.5)

    assert landed(clickhouse) == (2, 7)
    assert await committed(deployment, group, WINDOW_PARTIALS, 0) == before + 2


async def test_while_clickhouse_is_away_nothing_is_committed_and_then_all_lands(
    deployment: Any, clickhouse_config: ClickHouseConfig, clickhouse: Any
) -> None:
    """The sink says what it waits for, keeps what it read, and goes on by itself; rollups follow."""
    now_ms = SystemClock().now_ms() // 60_000 * 60_000
    group = f"{deployment.namespace}-sink"
    before = await committed(deployment, group, WINDOW_PARTIALS, 0)
    async with Door(clickhouse_config).standing() as door, running(deployment, door.config) as task:
        await until(lambda: task.progress.waiting_for is None)
        door.shut()
        end = await send(deployment, [partials([a_row(number, now_ms)], 0) for number in range(1, 6)])
        await until(lambda: task.progress.waiting_for is not None)
        assert landed(clickhouse) == (0, 0)
        assert await committed(deployment, group, WINDOW_PARTIALS, 0) == before

        door.open()
        await until(lambda: landed(clickhouse) == (5, 15))
        rollup = "SELECT sum(event_count), max(version) FROM llm_requests_rollup_1d FINAL"
        await until(lambda: clickhouse.query(rollup).result_rows == [(15, 5)])

    assert task.progress.waiting_for is None
    assert await committed(deployment, group, WINDOW_PARTIALS, 0) >= end, "others may write to this topic too"


async def test_markers_of_transactions_that_ended_together_are_committed_too(
    own_kafka: KafkaConfig, clickhouse_config: ClickHouseConfig
) -> None:
    """Nobody waits for them: behind the last record of a topic that is rarely written they would be lag for ever."""
    count, row = 4, partials([a_row(1)], 0)
    async with running(own_kafka, clickhouse_config), contextlib.AsyncExitStack() as open_transactions:
        producers = [
            await open_transactions.enter_async_context(
                started(make_producer(own_kafka, transactional_id=secrets.token_hex(8)))
            )
            for _ in range(count)
        ]
        for producer in producers:
            await producer.begin_transaction()
            placed = await producer.send_and_wait(row.topic, row.value, partition=0, headers=list(row.headers))
        for producer in producers:
            await producer.commit_transaction()
        ends = placed.offset + 1 + count
        group, read = f"{own_kafka.namespace}-sink", 0
        for _ in range(300):
            if (read := await committed(own_kafka, group, WINDOW_PARTIALS, 0)) == ends:
                break
            await asyncio.sleep(0.1)

    assert read == ends


async def test_raw_events_land_beside_the_derived_ones(
    deployment: Any, clickhouse_config: ClickHouseConfig, clickhouse: Any
) -> None:
    """With raw tables on, what is sent to a source topic is there a moment later, where it stood in the log."""
    settings = SinkSettings(flush_ms=100)
    sent = requests([SystemClock().now_ms()] * 3, 0, Identity(SPOOL, 1, 0, (1, 0)), partition=1)
    query = "SELECT count(), any(partition), any(source) FROM llm_requests FINAL"
    async with running(deployment, clickhouse_config, settings):
        await send(deployment, [sent])
        await until(lambda: clickhouse.query(query).result_rows == [(3, 1, SPOOL)])


async def test_a_missing_table_stops_the_sink_with_a_sentence(
    deployment: Any, clickhouse_config: ClickHouseConfig, clickhouse: Any
) -> None:
    """Trying again would not make it; what was read is read again by the next one."""
    clickhouse.command("DROP TABLE llm_requests_partials")
    await send(deployment, [partials([a_row(1, SystemClock().now_ms())], 0)])

    with pytest.raises(ContractError, match="fleetpulse migrate"):
        async with running(deployment, clickhouse_config) as task:
            await task


async def test_a_wrong_password_stops_the_sink_with_a_sentence(
    deployment: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """A person must mend it; the setting is named."""
    wrong = clickhouse_config.model_copy(update={"password": "no"})

    with pytest.raises(ConfigError, match=r"clickhouse\.user"):
        async with running(deployment, ClickHouseConfig(**{**wrong.model_dump(), "password": "no"})) as task:
            await task
