"""The publisher against a real broker: where records land, and a topic that refuses them."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from producers.batch import Batch
from producers.publish.publisher import Publisher, PublisherSettings
from producers.spool.spool import Spool, SpoolLimits
from runtime.config import KafkaConfig
from runtime.counters import Counters
from schemas.contract.headers import NDJSON, Identity, RecordHeaders, decode_headers
from schemas.contract.placement import place
from schemas.limits import DEFAULT_LIMITS
from stream_jobs.windows.dedup import Dedup

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


async def test_a_record_that_is_too_large_holds_up_no_other(
    kafka_bootstrap: str, topic_name: MakeTopic, tmp_path: Path
) -> None:
    """Of its own topic neither; it stays in the spool, over a restart too, and is sent once the cause is mended."""
    strict = topic_name("strict", config={"max.message.bytes": "2000"})
    fine = topic_name("fine")
    counters = Counters()
    incompressible = random.Random(1).randbytes(5_000)

    async with publisher_of(kafka_bootstrap, tmp_path, (strict, fine), counters) as publisher:
        await publisher.put(strict, b"k", batch(strict, b"k", incompressible))
        for number in range(30):
            await publisher.put(fine, b"k", batch(fine, b"k", b"%d" % number))
            await publisher.put(strict, b"k", batch(strict, b"k", b"%d" % number))
            await asyncio.sleep(0.02)
        await until(lambda: publisher.spool.unacknowledged_records == 1)
        assert publisher.spool.low == (1, 61)
        assert (publisher.spool.low_of(strict), publisher.spool.low_of(fine)) == ((1, 0), (1, 61))
        assert counters.value("edge_send_errors", topic=strict, error="MessageSizeTooLargeError") >= 1
        await publisher.abandon()

    async with publisher_of(kafka_bootstrap, tmp_path, (strict, fine), counters) as publisher:
        await until(lambda: publisher.spool.unacknowledged_records == 1)
        await allow(kafka_bootstrap, strict, 100_000)
        assert await publisher.flush(60)

    numbers = {b"%d" % number for number in range(30)}
    assert {record.value for record in await records_of(kafka_bootstrap, strict, 1)} == numbers | {incompressible}
    assert {record.value for record in await records_of(kafka_bootstrap, fine, 1)} == numbers


async def test_a_missing_topic_holds_up_no_other(
    kafka_bootstrap: str, topic_name: MakeTopic, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are delivered and their segments freed; what it missed arrives once the topic is made, each record
    once, also after a kill. Said once in the log, and as long as it lasts in readiness and gauges."""
    missing, fine = topic_name("missing", partitions=0), topic_name("fine")
    counters = Counters()
    value = random.Random(1).randbytes(4_000)

    async with publisher_of(kafka_bootstrap, tmp_path, (missing, fine), counters) as publisher:
        for number in range(300):
            await publisher.put(fine, b"k", batch(fine, b"k", b"%d " % number + value))
            if number % 10 == 0:
                await publisher.put(missing, b"k", batch(missing, b"k", b"%d" % number))
        await until(lambda: publisher.spool.unacknowledged_records == 30 and publisher.spool.low == (1, 330))
        await until(lambda: folder_bytes(tmp_path / "segments") < 2 * SMALL.segment_bytes)
        books = publisher.spool.books
        assert (books[1, fine].acknowledged_events, books[1, missing].acknowledged_events) == (600, 0)
        assert publisher.undeliverable.why is not None
        assert missing in publisher.undeliverable.why
        await until(lambda: counters.value("edge_undeliverable_records", topic=missing) == 30)
        await publisher.abandon()
    logged = [each for each in caplog.records if "undeliverable" in each.message]
    assert [(each.levelname, each.__dict__["topic"]) for each in logged] == [("ERROR", missing)]

    async with publisher_of(kafka_bootstrap, tmp_path, (missing, fine), counters) as publisher:
        await publisher.put(missing, b"k", batch(missing, b"k", b"new"))
        topic_name("missing")
        assert await publisher.flush(60)
        await until(lambda: publisher.undeliverable.why is None)
        assert counters.value("edge_undeliverable_records", topic=missing) == 0
        assert sum(tally.acknowledged_events for tally in publisher.spool.books.values()) == 662
        await publisher.put(missing, b"k", batch(missing, b"k", b"as any other"))
        assert await publisher.flush(30)

    landed = [record.value for record in await records_of(kafka_bootstrap, missing, 1)]
    assert landed == [b"%d" % number for number in range(0, 300, 10)] + [b"new", b"as any other"]


async def test_an_end_does_not_wait_for_an_undeliverable_topic(
    kafka_bootstrap: str, topic_name: MakeTopic, tmp_path: Path
) -> None:
    """What else was spooled is sent; the topic's records stay for the next start."""
    missing, fine = topic_name("missing", partitions=0), topic_name("fine")
    publisher = await publisher_of(kafka_bootstrap, tmp_path, (missing, fine), Counters()).start()
    await publisher.put(missing, b"k", batch(missing, b"k", b"waits"))
    await until(lambda: publisher.spool.undeliverable.records == 1)
    await publisher.put(fine, b"k", batch(fine, b"k", b"sent"))

    async with asyncio.timeout(120):
        assert await publisher.close(drain_s=3_600) is False
    assert [record.value for record in await records_of(kafka_bootstrap, fine, 1)] == [b"sent"]
    again = Spool.open(tmp_path, SMALL)
    assert again.unacknowledged_records == 1
    again.abandon()


async def test_a_producer_that_is_stopped_as_it_starts_declares_the_life_before(
    kafka_bootstrap: str, topic_name: MakeTopic, tmp_path: Path
) -> None:
    """A kill kept its last books from being sent, of events that Kafka has."""
    topic = topic_name("declared")
    async with publisher_of(kafka_bootstrap, tmp_path, (topic,), Counters()) as publisher:
        for number in range(3):
            await publisher.put(topic, b"k", batch(topic, b"k", b"%d" % number))
        assert await publisher.flush(60)
        publisher.spool.save()
        await publisher.abandon()

    publisher = await publisher_of(kafka_bootstrap, tmp_path, (topic,), Counters()).start()
    assert await publisher.close(drain_s=60)

    assert (
        publisher._published_books[1, topic].acknowledged_events == publisher.spool.books[1, topic].acknowledged_events
    )
    declared, spooled = publisher._published_books[1, topic], publisher.spool.books[1, topic]
    assert declared.acknowledged_events == spooled.acknowledged_events > 0


async def test_both_copies_of_a_spool_are_counted_exactly(
    kafka_bootstrap: str, topic_name: MakeTopic, tmp_path: Path
) -> None:
    """What was spooled before the folder was copied counts once, though both send it; everything after it counts."""
    topic = topic_name("copied")
    one, two = tmp_path / "one", tmp_path / "two"
    nowhere = KafkaConfig(bootstrap="127.0.0.1:9", request_timeout_ms=1_000)
    async with Publisher(Spool.open(one), nowhere, host="h", partitions={topic: 1}) as publisher:
        for number in range(50):
            await publisher.put(topic, b"k", batch(topic, b"k", b"before %d" % number))
        await publisher.abandon()
    shutil.copytree(one, two)

    async def lived(folder: Path) -> None:
        async with publisher_of(kafka_bootstrap, folder, (topic,), Counters()) as publisher:
            for number in range(290):
                await publisher.put(topic, b"k", batch(topic, b"k", b"%s %d" % (folder.name.encode(), number)))
            assert await publisher.flush(60)

    for _ in range(2):
        await asyncio.gather(lived(one), lived(two))

    dedup = Dedup(DEFAULT_LIMITS.source_expiry_ms)
    counted: list[bytes] = []
    records = await records_of(kafka_bootstrap, topic, 1)
    for record in records:
        identity = decode_headers(tuple(record.headers)).identity
        assert identity is not None
        if dedup.take(identity, record.timestamp):
            counted.append(record.value)
    after = [b"%s %d" % (name, number) for name in (b"one", b"two") for number in range(290)]
    assert len(records) == 100 + 4 * 290
    assert sorted(counted) == sorted([b"before %d" % number for number in range(50)] + 2 * after)


SMALL = SpoolLimits(bytes_max=4_000_000, segment_bytes=64_000)


def publisher_of(bootstrap: str, folder: Path, topics: tuple[str, ...], counters: Counters) -> Publisher:
    partitions = dict.fromkeys(topics, 1)
    settings = PublisherSettings(close_within_s=1.0, save_every_s=0.2)
    spool = Spool.open(folder, SMALL)
    kafka = KafkaConfig(bootstrap=bootstrap)
    return Publisher(spool, kafka, host="h", partitions=partitions, settings=settings, counters=counters)


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


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
