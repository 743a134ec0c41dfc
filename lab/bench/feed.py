"""Topics of the bench: made for each run, filled once, read by both sides.

Batching matters to readers: a fleet's hosts each send their own batches, so the fleet profile puts one record into
each Kafka batch (``records_per_batch``); one big sender would pack many.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import md5

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from fleetpulse.migrate.topic_plan import topic_settings
from lab.bench.workload import Emission, Workload
from runtime.config import KafkaConfig
from runtime.kafka_clients import make_admin, make_consumer, make_producer, started
from schemas.codec import wire
from schemas.contract.headers import JSON_COLUMNS, NATIVE, NDJSON, Identity, encode_headers
from schemas.contract.placement import place
from schemas.contract.record import Headers
from schemas.contract.topics import BY_NAME
from schemas.errors import FleetpulseError
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS

OnProgress = Callable[[int, int], None]
"""Gets what is done and what there is to do."""
Alive = Callable[[], bool]
FORMATS = {"native": NATIVE, "columns": JSON_COLUMNS, "ndjson": NDJSON}
_POLL_S = 0.1
_WITHIN_S = 60.0
_SENDERS = 4
_INFLIGHT_MAX = 400


@dataclass(slots=True)
class Fed:
    """What was written to one topic."""

    topic: str
    partitions: int
    records: int = 0
    events: int = 0
    value_bytes: int = 0
    """Sum of the values before compression."""


@dataclass(frozen=True, slots=True)
class Message:
    """One record to be written."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    headers: Headers
    events: int


@dataclass(slots=True)
class Sender:
    """The identities that the hosts of a workload give to their records: one spool each."""

    salt: str
    _seqs: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def next(self, host: int) -> Identity:
        """The identity of the host's next record; everything before it counts as acknowledged."""
        seq = self._seqs[host]
        self._seqs[host] = seq + 1
        return Identity(md5(f"{self.salt}/{host}".encode(), usedforsecurity=False).hexdigest(), 1, seq, (1, seq))


def message(emission: Emission, content_type: str, sender: Sender, partitions: int) -> Message:
    """An emission as the record that its host would send."""
    event, rows, key = BY_TOPIC[emission.topic], emission.block.rows, emission.name.encode()
    value = wire.encode(content_type, event.fields, emission.block)
    headers = encode_headers(event.schema, content_type, sender.next(emission.host), rows)
    return Message(emission.topic, place(key, partitions), key, value, headers, rows)


def messages(
    workload: Workload, from_ms: int, seconds: int, content_type: str, partitions: dict[str, int], salt: str
) -> Iterator[Message]:
    """All records of the workload in the order in which they are sent."""
    sender = Sender(salt)
    for step in workload.steps(from_ms, seconds):
        for emission in step:
            yield message(emission, content_type, sender, partitions[emission.topic])


async def fresh_topics(kafka: KafkaConfig, partitions: Mapping[str, int]) -> None:
    """Remove these topics of the contract where they exist and make them again, empty."""
    async with started(make_admin(kafka)) as admin:
        known = set(await admin.list_topics())
        if gone := [name for name in partitions if name in known]:
            await admin.delete_topics(gone)
        for name, count in partitions.items():
            settings = topic_settings(BY_NAME[name], 1, DEFAULT_LIMITS) | {"retention.ms": "-1"}
            await made(admin, NewTopic(name, count, 1, topic_configs=settings))


async def made(admin: AIOKafkaAdminClient, topic: NewTopic) -> None:
    """Make a topic, as soon as one of its name is gone."""
    end_s = time.monotonic() + _WITHIN_S
    while code := (await admin.create_topics([topic])).topic_errors[0][1]:
        if time.monotonic() > end_s:
            raise for_code(code)(f"{topic.name} cannot be made")
        await asyncio.sleep(0.2)  # the broker is still removing the old one


async def fill(
    kafka: KafkaConfig, source: Iterator[Message], records_per_batch: int, on_progress: Callable[[int], None]
) -> dict[str, Fed]:
    """Write all messages and return what was written by topic. ``on_progress`` gets the number of events so far."""
    fed: dict[str, Fed] = {}
    async with senders(kafka) as producers:
        await send_all(producers, source, records_per_batch, fed, on_progress)
    return fed


@contextlib.asynccontextmanager
async def senders(kafka: KafkaConfig) -> AsyncIterator[list[AIOKafkaProducer]]:
    """Producers that share the partitions, started."""
    producers = [_producer(kafka) for _ in range(_SENDERS)]
    try:
        await asyncio.gather(*(producer.start() for producer in producers))
        yield producers
    finally:
        await asyncio.gather(*(producer.stop() for producer in producers))


def _producer(kafka: KafkaConfig) -> AIOKafkaProducer:
    sizes = {"max_batch_size": 8 << 20, "max_request_size": 64 << 20}
    return make_producer(kafka, enable_idempotence=False, compression_type="zstd", **sizes)


async def send_all(
    producers: list[AIOKafkaProducer],
    source: Iterator[Message],
    records_per_batch: int,
    fed: dict[str, Fed],
    on_progress: Callable[[int], None],
) -> None:
    """Write all messages, note them in ``fed``, and return when they are acknowledged."""
    open_batches: dict[tuple[str, int], list[Message]] = defaultdict(list)
    unanswered: set[asyncio.Future[object]] = set()
    free = asyncio.Semaphore(_INFLIGHT_MAX)
    total = 0

    def answered(future: asyncio.Future[object]) -> None:
        free.release()
        if not future.cancelled() and future.exception() is None:
            unanswered.discard(future)  # one that failed stays, to be raised in the end

    async def send(batch: list[Message]) -> None:
        await free.acquire()
        future = await _send(producers[batch[0].partition % len(producers)], batch)
        unanswered.add(future)
        future.add_done_callback(answered)

    for one in source:
        _note(fed, one)
        batch = open_batches[one.topic, one.partition]
        batch.append(one)
        total += one.events
        if len(batch) >= records_per_batch:
            await send(batch)
            open_batches[one.topic, one.partition] = []
            on_progress(total)
    for batch in open_batches.values():
        if batch:
            await send(batch)
    await asyncio.gather(*unanswered)


async def _send(producer: AIOKafkaProducer, batch: list[Message]) -> asyncio.Future[object]:
    builder = producer.create_batch()
    for one in batch:
        added = builder.append(key=one.key, value=one.value, timestamp=None, headers=list(one.headers))
        assert added is not None, "max_batch_size is too small for the batch"
    builder.close()
    future: asyncio.Future[object] = await producer.send_batch(builder, batch[0].topic, partition=batch[0].partition)
    return future


def _note(fed: dict[str, Fed], one: Message) -> None:
    counts = fed.setdefault(one.topic, Fed(one.topic, 0))
    counts.partitions = max(counts.partitions, one.partition + 1)
    counts.records += 1
    counts.events += one.events
    counts.value_bytes += len(one.value)


async def end_offsets(kafka: KafkaConfig, partitions: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """The offset after the last record of every partition of these topics."""
    places = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    async with started(make_consumer(kafka, isolation_level="read_uncommitted")) as consumer:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        return {(place.topic, place.partition): offset for place, offset in ends.items()}


async def until_committed(
    kafka: KafkaConfig,
    group: str,
    ends: Mapping[tuple[str, int], int],
    within_s: float,
    on_progress: OnProgress,
    alive: Alive,
) -> None:
    """Return when a consumer group has committed these offsets. Raises when time is up or ``alive`` says no."""
    wanted, end_s = sum(ends.values()), time.monotonic() + within_s
    places = [TopicPartition(*place) for place in ends]
    async with started(make_admin(kafka)) as admin:
        while True:
            done = await _committed(admin, group, places)
            on_progress(done, wanted)
            if done >= wanted:
                return
            if not alive():
                raise FleetpulseError(f"the reader {group} ended after {done} of {wanted} records")
            if time.monotonic() > end_s:
                raise FleetpulseError(f"{group} has read {done} of {wanted} records in {within_s:.0f} s")
            await asyncio.sleep(_POLL_S)


async def _committed(admin: AIOKafkaAdminClient, group: str, places: list[TopicPartition]) -> int:
    with contextlib.suppress(KafkaError):  # the group is not there yet
        found = await admin.list_consumer_group_offsets(group, partitions=places)
        return sum(max(0, one.offset) for one in found.values())
    return 0


async def value_bytes(kafka: KafkaConfig, topics: tuple[str, ...], records_max: int = 2_000) -> dict[str, float]:
    """Bytes of values per event, before compression, over the first records of each topic's partitions."""
    found: dict[str, float] = {}
    for topic in topics:
        ends = await end_offsets(kafka, {topic: BY_NAME[topic].partitions})
        places = {TopicPartition(*place): min(end, records_max) for place, end in ends.items() if end}
        if not places:
            continue
        async with started(make_consumer(kafka)) as consumer:
            consumer.assign(list(places))
            await consumer.seek_to_beginning()
            found[topic] = await _mean_value_bytes(consumer, places)
    return found


async def _mean_value_bytes(consumer: AIOKafkaConsumer, places: dict[TopicPartition, int]) -> float:
    size = events = 0
    while places:
        for fetched in (await consumer.getmany(*places, timeout_ms=500)).values():
            for one in fetched:
                size += len(one.value or b"")
                events += int(dict(one.headers).get("count", b"0"))
        places = {place: end for place, end in places.items() if await consumer.position(place) < end}
    return size / max(events, 1)
