"""The publisher against a real broker: where records land, and a topic that refuses them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from producers.batch import Batch
from producers.publish.publisher import Publisher, PublisherSettings
from producers.spool.spool import Spool
from runtime.config import KafkaConfig
from runtime.counters import Counters
from schemas.contract.headers import NDJSON, Identity, RecordHeaders, decode_headers
from schemas.contract.placement import place

pytestmark = pytest.mark.integration

MakeTopic = Callable[..., str]


def batch(topic: str, key: bytes, value: bytes) -> Batch:
    return Batch(topic, "llm.requests/1", NDJSON, key, 2, value)


async def records_of(bootstrap: str, topic: str, partitions: int) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        assigned = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(assigned)
        ends = await consumer.end_offsets(assigned)
        records: list[Any] = []
        while len(records) < sum(ends.values()):
            for found in (await consumer.getmany(timeout_ms=1_000)).values():
                records += found
        return records
    finally:
        await consumer.stop()


async def test_records_land_where_their_key_belongs(
    kafka_bootstrap: str, topic_name: MakeTopic, tmp_path: Path
) -> None:
    """By our own hash, with identity and count in the headers, seq without a gap."""
    topic = topic_name("placed", partitions=3)
    keys = [b"host-%d" % number for number in range(20)]
    kafka = KafkaConfig(bootstrap=kafka_bootstrap)

    async with Publisher(Spool.open(tmp_path), kafka, host="h", partitions={topic: 3}) as publisher:
        for key in keys:
            assert await publisher.put(topic, key, batch(topic, key, b"value of " + key))
        assert await publisher.flush(30)
        source = publisher.spool.source

    records = await records_of(kafka_bootstrap, topic, 3)
    assert {record.key: record.partition for record in records} == {key: place(key, 3) for key in keys}
    assert all(record.value == b"value of " + record.key for record in records)
    headers = sorted(
        (decode_headers(tuple(record.headers)) for record in records),
        key=lambda each: each.identity.seq if each.identity else -1,
    )
    assert [each.identity and each.identity.seq for each in headers] == list(range(20))
    first = headers[0]
    assert first == RecordHeaders("llm.requests/1", NDJSON, Identity(source, 1, 0, (1, 0)), 2)


async def test_a_topic_that_refuses_records_holds_up_no_other(
    kafka_bootstrap: str, topic_name: MakeTopic, tmp_path: Path
) -> None:
    """What it refuses stays in the spool and is sent once the cause is mended."""
    strict = topic_name("strict", config={"max.message.bytes": "2000"})
    fine = topic_name("fine")
    counters = Counters()
    settings = PublisherSettings(close_within_s=1.0)
    publisher = Publisher(
        Spool.open(tmp_path),
        KafkaConfig(bootstrap=kafka_bootstrap),
        host="h",
        partitions={strict: 1, fine: 1},
        settings=settings,
        counters=counters,
    )
    incompressible = random.Random(1).randbytes(5_000)

    async with publisher:
        await publisher.put(strict, b"k", batch(strict, b"k", incompressible))
        for number in range(30):
            await publisher.put(fine, b"k", batch(fine, b"k", b"%d" % number))
            await asyncio.sleep(0.02)
        async with asyncio.timeout(30):
            while publisher.spool.unacknowledged_records > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert publisher.spool.low == (1, 0)
        assert counters.value("edge_send_errors", topic=strict, error="MessageSizeTooLargeError") >= 1

        await allow(kafka_bootstrap, strict, 100_000)
        assert await publisher.flush(60)

    assert [record.value for record in await records_of(kafka_bootstrap, strict, 1)] == [incompressible]
    assert {record.value for record in await records_of(kafka_bootstrap, fine, 1)} == {b"%d" % n for n in range(30)}


async def allow(bootstrap: str, topic: str, record_bytes_max: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        configs = {"max.message.bytes": str(record_bytes_max)}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)])
    finally:
        await admin.close()


async def test_what_was_not_sent_waits_for_the_next_start(
    kafka_bootstrap: str, topic_name: MakeTopic, tmp_path: Path
) -> None:
    """Closing is bounded; the next publisher on the spool sends it under its first identity."""
    topic = topic_name("later")
    nowhere = KafkaConfig(bootstrap="127.0.0.1:9", request_timeout_ms=1_000)
    publisher = await Publisher(Spool.open(tmp_path), nowhere, host="h", partitions={topic: 1}).start()
    assert await publisher.put(topic, b"k", batch(topic, b"k", b"value"))
    assert await publisher.close(drain_s=0.1) is False
    assert await publisher.close() is False

    kafka = KafkaConfig(bootstrap=kafka_bootstrap)
    async with Publisher(Spool.open(tmp_path), kafka, host="h", partitions={topic: 1}) as again:
        assert again.spool.boot == 2
        assert await again.flush(30)

    (record,) = await records_of(kafka_bootstrap, topic, 1)
    identity = decode_headers(tuple(record.headers)).identity
    assert identity is not None
    assert (identity.boot, identity.seq, record.value) == (1, 0, b"value")
