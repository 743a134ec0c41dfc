"""Sender: one life of a Kafka producer, from records to acknowledgements, until something fails.

Every partition is a *lane* with at most one batch on its way, so that a partition without a leader holds up nobody
else. aiokafka's idempotent producer is of no use after a failed batch (its sequence has a gap), so the first failure
ends the life of all lanes: the caller throws the producer away, makes a new one and hands over everything that was
not acknowledged. What the old one had in flight may land as well; consumers drop duplicates by identity.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, RequestTimedOutError, UnknownTopicOrPartitionError

from producers.publish.clock_skew import ClockSkew
from producers.publish.spans import PublishSpans
from producers.spool.frame import Spooled
from runtime import kafka_clients
from runtime.config import KafkaConfig
from runtime.kafka_clients import has_no_cause, why_rejected
from runtime.kept_zstd import keep_contexts
from runtime.runbook import cause_of
from runtime.topic_prefix import on_wire
from schemas.contract.headers import Identity, encode_headers
from schemas.errors import ConfigError, UnavailableError

_log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 1024 * 1024
"""Bytes of records put into one request for a partition, before compression; a larger record travels alone."""

_TOPIC_WITHIN_S = 5.0
"""So long a topic is looked for that the brokers do not list; aiokafka asks them again all the time. As long again for
one answer that says so."""
_LOG_APPEND_TIME = 1
LaneKey = tuple[str, int]
Low = Callable[[str], tuple[int, int]]
"""The oldest (boot, seq) of a topic that may not be acknowledged."""
Delivered = Callable[[Sequence[Spooled]], None]

FAILURES = (KafkaError, OSError, TimeoutError, ConfigError, UnavailableError)
"""Expected failures on the way to Kafka; anything else is a bug. A ConfigError: a file that a setting names,
such as the authority's certificate, is gone since the start; it may be put back."""


class LaneError(Exception):
    """``records`` of this lane could not be delivered, as far as is known. ``cause`` is one of FAILURES."""

    def __init__(self, lane: LaneKey, cause: Exception, records: Sequence[Spooled] = ()) -> None:
        super().__init__(f"{lane[0]}[{lane[1]}]: {type(cause).__name__}: {cause}")
        self.lane = lane
        self.cause = cause
        self.records = records


def make_producer(kafka: KafkaConfig, client_id: str, *, idempotent: bool = True) -> AIOKafkaProducer:
    """A producer of whole batches, not started. One that is not idempotent goes on after a rejected batch."""
    keep_contexts()
    return kafka_clients.make_producer(
        kafka,
        client_id=client_id,
        enable_idempotence=idempotent,
        compression_type="zstd",
        max_batch_size=BATCH_BYTES_MAX,
        max_request_size=2**30,  # the spool bounds records; the broker's own limit stands behind it
        linger_ms=0,  # a lane hands over whole batches
    )


async def log_rejection(kafka: KafkaConfig, error: Exception) -> None:
    """Log what to change where Kafka rejects this client; nothing is lost until the spool is full."""
    why = error if isinstance(error, ConfigError) else await why_rejected(kafka) if has_no_cause(error) else None
    if why is not None:
        facts = {"why": str(why), "cause": cause_of(why)}
        _log.error("Kafka rejected this client; records stay in the spool", extra=facts)


async def abandon(producer: AIOKafkaProducer, within_s: float) -> None:
    """Close a producer that may be broken, without waiting for what it still holds (``stop`` waits for ever)."""
    producer._closed = True
    with contextlib.suppress(*FAILURES):
        async with asyncio.timeout(within_s):
            await producer.client.close()
    task = producer._sender.sender_task
    if task is not None:
        task.cancel()
        await asyncio.wait([task], timeout=within_s)


@contextlib.asynccontextmanager
async def connected(
    kafka: KafkaConfig, within_s: float, close_within_s: float, client_id: str, *, idempotent: bool = True
) -> AsyncIterator[AIOKafkaProducer]:
    """A started producer, abandoned at the end. Raises one of FAILURES when it does not start."""
    producer = make_producer(kafka, client_id, idempotent=idempotent)
    try:
        async with asyncio.timeout(within_s):
            await producer.start()
        yield producer
    finally:
        await abandon(producer, close_within_s)


@dataclass(slots=True)
class _Lane:
    key: LaneKey
    waiting: deque[Spooled] = field(default_factory=deque)
    running: bool = False


class Sender:
    """Sends records of one spool through one producer; ``source_of`` a boot is their source. Use ``run`` once.

    ``backing_off`` returns the lanes that queue records and send nothing for now; ``alone`` are those that send one
    record at a time, because the broker rejected a batch of theirs as too large. ``spans`` traces sampled records.
    ``skew`` measures this machine's clock by the acknowledgements.
    """

    def __init__(
        self,
        producer: AIOKafkaProducer,
        source_of: Callable[[int], str],
        low: Low,
        delivered: Delivered,
        skew: ClockSkew,
        backing_off: Callable[[], Collection[LaneKey]] = tuple,
        alone: Collection[LaneKey] = (),
        spans: PublishSpans | None = None,
    ) -> None:
        self._producer = producer
        self._source_of = source_of
        self._low = low
        self._delivered = delivered
        self._backing_off = backing_off
        self._alone = alone
        self._spans = spans
        self._skew = skew
        self._lanes: dict[LaneKey, _Lane] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self, feed: Callable[[Sender], Awaitable[None]]) -> None:
        """Run ``feed`` (which calls ``send``) and the lanes until ``feed`` returns and the lanes are empty.

        Raises ``LaneError`` with the first failure.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                await feed(self)
        except BaseExceptionGroup as group:
            failed, defects = group.split(LaneError)
            if failed is None or defects is not None:
                raise
            raise _first(failed) from None

    def send(self, records: Iterable[Spooled]) -> None:
        """Queue records; each goes out as soon as its lane is free. Without records: check lanes again."""
        for record in records:
            key = (record.topic, record.partition)
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane(key)
            lane.waiting.append(record)
        backing_off = self._backing_off()
        for lane in self._lanes.values():
            if lane.waiting and not lane.running and lane.key not in backing_off:
                lane.running = True
                assert self._tasks is not None
                self._tasks.create_task(self._drive(lane))

    async def _drive(self, lane: _Lane) -> None:
        topic, partition = lane.key
        records: list[Spooled] = []
        try:
            await self._demand_partition(topic, partition)
            while lane.waiting:
                records, batch = self._next_batch(lane.waiting, 0 if lane.key in self._alone else BATCH_BYTES_MAX)
                began = self._skew.sent()
                sent = await (await self._producer.send_batch(batch, topic, partition=partition))
                if getattr(sent, "timestamp_type", None) == _LOG_APPEND_TIME:
                    self._skew.acknowledged(began, sent.timestamp)
                self._delivered(records)
                if self._spans is not None:
                    self._spans.published(records, getattr(sent, "offset", None))
        except FAILURES as error:
            raise LaneError(lane.key, error, records) from error
        lane.running = False

    async def _demand_partition(self, topic: str, partition: int) -> None:
        try:
            async with asyncio.timeout(_TOPIC_WITHIN_S):
                partitions = await self._producer.partitions_for(topic)
        except TimeoutError:
            partitions = await self._listed(topic)
        if partition not in partitions:
            raise UnknownTopicOrPartitionError(f"the topic has no partition {partition}")

    async def _listed(self, topic: str) -> set[int]:
        """The partitions of a topic that was not found in time: whether it is not there, only an answer says."""
        client = self._producer.client
        try:
            async with asyncio.timeout(_TOPIC_WITHIN_S):
                answered: bool = await client.force_metadata_update()
        except TimeoutError:
            answered = False
        partitions: set[int] | None = client.cluster.partitions_for_topic(on_wire(self._producer, topic))
        if partitions is None and answered:
            raise UnknownTopicOrPartitionError("there is no such topic")
        if partitions is None:
            raise RequestTimedOutError(f"no answer on the topic's partitions within {2 * _TOPIC_WITHIN_S:g} s")
        return partitions

    def _next_batch(self, waiting: deque[Spooled], bytes_max: int) -> tuple[list[Spooled], Any]:
        """As many records as fit one batch; at least one."""
        batch = self._producer.create_batch()
        low = self._low(waiting[0].topic)
        records: list[Spooled] = []
        size = 0
        while waiting:
            record = waiting[0]
            size += len(record.value)
            if records and size > bytes_max:
                break
            identity = Identity(self._source_of(record.boot), record.boot, record.seq, low)
            headers = list(encode_headers(record.schema, record.content_type, identity, record.events))
            headers += self._skew.headers
            if self._spans is not None:
                headers += self._spans.headers(record)
            added = batch.append(timestamp=record.at_ms, key=record.key, value=record.value, headers=headers)
            if added is None:
                break
            records.append(waiting.popleft())
        assert records, "the first record of a batch always fits"
        batch.close()
        return records, batch


def _first(group: BaseExceptionGroup[BaseException]) -> LaneError:
    first = group.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return _first(first)
    assert isinstance(first, LaneError)
    return first
