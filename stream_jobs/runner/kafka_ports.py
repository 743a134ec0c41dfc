"""The ports on a real broker, by aiokafka.

Handled here: every send's future is awaited (a failed batch does not fail aiokafka's commit); an answer without an
offset differs from the answer "no offset" (aiokafka drops the top-level error of OffsetFetch, and for a second or two
after a broker restart it would say "none"), and an offset that a transaction which has ended is about to change is
waited for; a failed producer differs from a fenced one. Time limits are the caller's: aiokafka itself retries
coordinator errors for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, ProducerFenced
from aiokafka.structs import OffsetAndMetadata

from runtime import topic_ids
from runtime.config import KafkaConfig
from runtime.kafka_clients import make_consumer, make_producer, slips_raised, stop_client
from runtime.kept_zstd import keep_contexts
from runtime.stable_offsets import stable_offset
from runtime.topic_prefix import on_wire, topics_known
from schemas.contract.record import Output, Record
from schemas.errors import ContractError, FencedError, PartitionError, UnavailableError
from stream_jobs.runner.policy import CommitPolicy
from stream_jobs.runner.ports import Batch, Committed

_log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 16 * 1024 * 1024
BATCH_BYTES = 256 * 1024
PACK_LEVEL = 1
"""Partial rows cost a fifth less to pack than at zstd's usual level 3, and take 2 to 6 % more bytes."""
RETRY_AFTER_S = 0.1
PAUSE_S = 0.005
ELECTION_TRIES = 50
"""So often, a pause of ``RETRY_AFTER_S`` between two, a partition is asked about that has no leader."""
_NO_LEADER = (None, -1)
POLL_WAIT_MS = 200
NO_OFFSET = -1
_FENCED = frozenset({"InvalidProducerEpoch", "ProducerFenced"})


def record_of(message: Any, topic: str | None = None) -> Record:
    """A consumed message of aiokafka in our own terms; ``topic`` where the client has another name for it."""
    return Record(
        message.topic if topic is None else topic,
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.value,
        message.headers,
    )


def demand_read_committed(consumer: Any) -> None:
    """Raise ``ContractError`` unless what this started consumer fetches is committed. Faust has no setting for it; an
    attribute that aiokafka no longer reads would let a job fold what a dead owner never committed."""
    found = getattr(getattr(consumer, "_fetcher", None), "_isolation_level", None)
    if found != READ_COMMITTED:
        raise ContractError(f"the consumer has isolation level {found!r}, not read_committed: which aiokafka is this?")


def in_transaction(consumer: Any, partition: Any) -> bool:
    """Whether a transaction was open in a partition at its last fetch: whatever was appended behind the transaction's
    first record, by others too, is not handed out before it ends. False where nothing was fetched yet."""
    if partition not in consumer.assignment():
        return False
    end, stable = consumer.highwater(partition), consumer.last_stable_offset(partition)
    return end is not None and stable is not None and 0 <= stable < end


@contextlib.contextmanager
def _as_our_errors(doing: str) -> Iterator[None]:
    """Kafka's errors in our own terms, a cancellation that nobody asked for among them."""
    try:
        with slips_raised():
            yield
    except KafkaError as error:
        if isinstance(error, ProducerFenced) or type(error).__name__ in _FENCED:
            raise FencedError(f"{doing}: another owner took over") from error
        raise UnavailableError(f"Kafka unavailable: {doing}: {error!r}") from error
    except TimeoutError as error:
        raise UnavailableError(f"Kafka unavailable: {doing}: no answer in time") from error


def _take_error(sent: asyncio.Future[Any]) -> None:
    """An error that nobody takes is logged when the garbage collector finds it."""
    if not sent.cancelled():
        sent.exception()


class KafkaProducer:
    """One transactional producer with its own connection."""

    def __init__(self, kafka: KafkaConfig, policy: CommitPolicy, transactional_id: str) -> None:
        self._kafka = kafka
        self._policy = policy
        self._id = transactional_id
        self._producer: Any = None

    async def start(self) -> None:
        keep_contexts(PACK_LEVEL)
        self._producer = make_producer(
            self._kafka,
            client_id=self._id,
            transactional_id=self._id,
            transaction_timeout_ms=self._policy.transaction_timeout_ms,
            compression_type="zstd",
            max_batch_size=BATCH_BYTES,
            max_request_size=REQUEST_BYTES_MAX,
        )
        with _as_our_errors(f"init of {self._id}"):
            await self._producer.start()

    async def begin(self) -> None:
        with _as_our_errors(f"begin of {self._id}"):
            await self._producer.begin_transaction()

    async def send(self, outputs: Sequence[Output]) -> list[int]:
        producer = self._producer
        with _as_our_errors(f"send of {self._id}"):
            waiting: list[asyncio.Future[Any]] = []
            for o in outputs:
                waiting.append(await producer.send(o.topic, o.value, o.key, o.partition, headers=list(o.headers)))
                waiting[-1].add_done_callback(_take_error)  # where a later one raises, nobody waits for it
            offsets = [done.offset for done in await asyncio.gather(*waiting)]
        if any(offset < 0 for offset in offsets):
            raise UnavailableError(f"send of {self._id}: the broker returned no offset for a record")
        return offsets

    async def add_offset(self, group: str, topic: str, partition: int, committed: Committed) -> None:
        offsets = {TopicPartition(topic, partition): OffsetAndMetadata(committed.offset, committed.metadata)}
        with _as_our_errors(f"offset of {self._id}"):
            await self._producer.send_offsets_to_transaction(offsets, group)

    async def commit(self) -> None:
        with _as_our_errors(f"commit of {self._id}"):
            await self._producer.commit_transaction()

    async def stop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop_client(producer.stop)


class KafkaReader:
    """Reads one partition with a consumer of its own, without a group."""

    def __init__(self, consumer: Any, at: TopicPartition, offset: int) -> None:
        self._consumer = consumer
        self._at = at
        self._from = offset

    async def poll(self) -> Batch:
        where = f"{self._at.topic}/{self._at.partition}"
        with _as_our_errors(f"read of {where}"):
            try:
                found = await self._consumer.getmany(self._at, timeout_ms=POLL_WAIT_MS)
            except OffsetOutOfRangeError as error:
                raise PartitionError("log_cut", f"{where}: the log no longer holds offset {self._from}") from error
            position = await self._consumer.position(self._at)
        return Batch([record_of(message) for message in found.get(self._at, ())], position)

    async def close(self) -> None:
        await stop_client(self._consumer.stop)


class KafkaBroker:
    """A cluster. ``start`` it before use, ``stop`` it after."""

    def __init__(self, kafka: KafkaConfig, policy: CommitPolicy) -> None:
        self._kafka = kafka
        self._policy = policy
        self._asking: Any = None

    async def start(self) -> None:
        self._asking = self._consumer()
        with _as_our_errors(f"connect to {self._kafka.bootstrap}"):
            await self._asking.start()

    async def stop(self) -> None:
        if self._asking is not None:
            await stop_client(self._asking.stop)

    def _consumer(self) -> Any:
        return make_consumer(
            self._kafka,
            auto_offset_reset="none",
            fetch_max_wait_ms=self._policy.fetch_wait_ms,
            max_partition_fetch_bytes=self._policy.fetch_bytes_max,
            max_poll_records=self._policy.fetch_records_max,
        )

    def producer(self, transactional_id: str) -> KafkaProducer:
        return KafkaProducer(self._kafka, self._policy, transactional_id)

    async def reader(self, topic: str, partition: int, offset: int) -> KafkaReader:
        consumer, at = self._consumer(), TopicPartition(topic, partition)
        try:
            with _as_our_errors(f"read of {topic}/{partition}"):
                await consumer.start()
                consumer.assign([at])
                consumer.seek(at, offset)
                await asyncio.sleep(0)  # aiokafka raises CancelledError from stop() when its tasks never ran
        except BaseException:
            await stop_client(consumer.stop)
            raise
        return KafkaReader(consumer, at, offset)

    async def has_partition(self, topic: str, partition: int) -> bool:
        client, name = topics_known(self._asking), on_wire(self._asking, topic)
        with _as_our_errors(f"partitions of {topic}"):
            await client.add_topic(name)
            if partition not in (client.cluster.partitions_for_topic(name) or ()):
                await client.force_metadata_update()
        return partition in (client.cluster.partitions_for_topic(name) or ())

    async def has_leader(self, topic: str, partition: int) -> bool:
        client, at = topics_known(self._asking), TopicPartition(on_wire(self._asking, topic), partition)
        with _as_our_errors(f"leader of {topic}/{partition}"):
            await client.add_topic(at.topic)
            for _ in range(ELECTION_TRIES):
                if client.cluster.leader_for_partition(at) not in _NO_LEADER:
                    return True
                await asyncio.sleep(RETRY_AFTER_S)
                await client.force_metadata_update()
        return client.cluster.leader_for_partition(at) not in _NO_LEADER

    async def topic_id(self, topic: str) -> str | None:
        client, name = topics_known(self._asking), on_wire(self._asking, topic)
        while True:
            with _as_our_errors(f"id of {topic}"):
                try:
                    return await topic_ids.topic_id(client, name)
                except KafkaError as error:
                    _unless_retriable(error)
            await asyncio.sleep(RETRY_AFTER_S)

    async def begin_offset(self, topic: str, partition: int) -> int:
        at = TopicPartition(topic, partition)
        with _as_our_errors(f"begin of {topic}/{partition}"):
            found = await self._asking.beginning_offsets([at])
        return int(found[at])

    async def end_offset(self, topic: str, partition: int) -> int:
        at = TopicPartition(topic, partition)
        with _as_our_errors(f"end of {topic}/{partition}"):
            found = await self._asking.end_offsets([at])
        return int(found[at])

    async def committed(self, group: str, topic: str, partition: int) -> Committed | None:
        while True:
            with _as_our_errors(f"committed offset of {topic}/{partition}"):
                found = await self._ask_committed(group, topic, partition)
            if found is not None:
                return found if found.offset != NO_OFFSET else None
            await asyncio.sleep(RETRY_AFTER_S)

    async def _ask_committed(self, group: str, topic: str, partition: int) -> Committed | None:
        """The broker's word; None when it has none to say now. Raises what no retry can mend."""
        client, name = topics_known(self._asking), on_wire(self._asking, topic)
        try:
            node = await client.coordinator_lookup(CoordinationType.GROUP, group)
            if not await client.ready(node, group=ConnectionGroup.COORDINATION):
                return None
            found = await stable_offset(client, node, group, name, partition)
        except KafkaError as error:
            _unless_retriable(error)
            return None
        return None if found is None else Committed(*found)

    async def pause(self) -> None:
        await asyncio.sleep(PAUSE_S)


def _unless_retriable(error: KafkaError) -> None:
    if not error.retriable:
        raise error
