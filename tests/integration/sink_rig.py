"""What the sink's integration tests share: a migrated database, records, and a door to ClickHouse that can be shut."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from aiokafka import TopicPartition

from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.kafka_clients import make_consumer, make_producer, started
from schemas.contract.record import Record
from schemas.ddl.files import Names
from schemas.ddl.fresh import fresh
from schemas.limits import DEFAULT_LIMITS
from sinks.database import SinkDatabase
from sinks.landing import Landing, land_derived, land_raw
from tests.tables import KEPT
from tests.unit.sinks.landing_cases import LOG_IDS


def migrated(clickhouse: Any) -> Any:
    """The client, in a database with all tables and views."""
    for statement in fresh(Names(clickhouse.database), KEPT):
        clickhouse.command(statement)
    return clickhouse


def store(database: SinkDatabase, records: Sequence[Record], now_ms: int) -> Landing:
    """Land records of derived topics, as the sink does, and return what was landed."""
    landing = land_derived(records, LOG_IDS, now_ms, DEFAULT_LIMITS)
    database.insert(landing.inserts)
    return landing


def store_raw(database: SinkDatabase, records: Sequence[Record], now_ms: int) -> None:
    """Land records of one source topic."""
    database.insert(land_raw(records[0].topic, records, LOG_IDS, now_ms, DEFAULT_LIMITS).inserts)


async def skip_to_end(kafka: KafkaConfig, group: str, topics: Sequence[str]) -> None:
    """Let a group begin behind what other tests left in the topics."""
    async with started(make_consumer(kafka, *topics, group=group)) as consumer:
        partitions: list[TopicPartition] = []
        while not partitions:
            await consumer.getmany(timeout_ms=100)
            partitions = sorted(consumer.assignment())
        await consumer.commit(await consumer.end_offsets(partitions))


async def send(kafka: KafkaConfig, records: Sequence[Record]) -> int:
    """Put records where they say; offsets and times are the broker's. The offset behind the last one."""
    sent = 0
    async with started(make_producer(kafka)) as producer:
        for r in records:
            placed = await producer.send_and_wait(r.topic, r.value, partition=r.partition, headers=list(r.headers))
            sent = placed.offset + 1
    return sent


async def committed(kafka: KafkaConfig, group: str, topic: str, partition: int) -> int:
    """The group's offset."""
    async with started(make_consumer(kafka, group=group)) as consumer:
        return int(await consumer.committed(TopicPartition(topic, partition)) or 0)


async def until_committed(kafka: KafkaConfig, group: str, topic: str, offset: int) -> None:
    """Wait until the group has committed so far in partition 0: rows land before that."""
    async with asyncio.timeout(90.0):
        while await committed(kafka, group, topic, 0) < offset:  # noqa: ASYNC110 -- Kafka does not tell
            await asyncio.sleep(0.2)


class Door:
    """A way to ClickHouse that can be shut: connections break and none is let in."""

    def __init__(self, config: ClickHouseConfig) -> None:
        settings = config.client_settings()
        self._target = (settings["host"], settings["port"])
        self._config = config
        self._open = True
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def config(self) -> ClickHouseConfig:
        """The database behind this door."""
        return self._config.model_copy(update={"url": f"http://127.0.0.1:{self.port}"})

    def shut(self) -> None:
        self._open = False
        for writer in self._writers:
            writer.transport.abort()

    def open(self) -> None:
        self._open = True

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator[Door]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.shut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.transport.abort()
            return
        inner_reader, inner_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, inner_writer}
        try:
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
        finally:
            for one in (writer, inner_writer):
                one.transport.abort()
            self._writers -= {writer, inner_writer}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def until(condition: Any, within_s: float = 90.0) -> None:
    """Wait until the condition (called in a thread) holds."""
    for _ in range(int(within_s / 0.1)):
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not within {within_s} s")
