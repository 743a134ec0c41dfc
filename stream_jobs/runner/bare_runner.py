"""The runner on a bare aiokafka loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition

from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.health import Readiness
from runtime.kafka_clients import make_consumer, stop_client
from runtime.tracing import Tracer
from stream_jobs.runner.job import Job
from stream_jobs.runner.kafka_ports import KafkaBroker, demand_read_committed, in_transaction, record_of
from stream_jobs.runner.partitions import Partitions
from stream_jobs.runner.policy import NEVER_MS, CommitPolicy
from stream_jobs.runner.watchdog import Watchdog

ACQUIRING_PAUSE_S = 0.01


class _Listener(ConsumerRebalanceListener):
    """Acquires beside the consumer, which sends no heartbeats while it waits for its listener: a takeover longer than
    the session would cost the membership, every time again."""

    _acquiring: asyncio.Task[None] | None = None
    _assigned: tuple[TopicPartition, ...] = ()

    def __init__(self, consumer: Any, partitions: Partitions, watchdog: Watchdog) -> None:
        self._consumer = consumer
        self._partitions = partitions
        self._watchdog = watchdog
        partitions.again = self._again
        partitions.progressed = watchdog.progressed

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._assigned = ()
        await self._partitions.revoke()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._assigned = tuple(assigned)
        self._again()

    def _again(self) -> None:
        self._watchdog.expect()
        self._acquiring = asyncio.create_task(self._acquire(self._assigned), name="runner-acquire")

    async def _acquire(self, assigned: Sequence[TopicPartition]) -> None:
        positions = await self._partitions.assign(assigned)
        if positions is None:
            return
        for partition, position in positions.items():
            self._consumer.seek(TopicPartition(*partition), position)
        self._partitions.install()
        self._watchdog.met()


async def serve(
    job: Job,
    kafka: KafkaConfig,
    policy: CommitPolicy,
    stop: asyncio.Event,
    member: str | None,
    readiness: Readiness | None,
    tracer: Tracer | None,
) -> None:
    """The job on a bare loop, see ``process.Serve``."""
    names = job.names(kafka.namespace)
    async with contextlib.AsyncExitStack() as open_:
        broker = KafkaBroker(kafka, policy)
        open_.push_async_callback(broker.stop)
        await broker.start()
        partitions = Partitions(job, broker, names, policy, SystemClock(), readiness=readiness, tracer=tracer)
        watchdog = open_.enter_context(Watchdog(policy.live_limit_ms))
        consumer = _consumer(kafka, names.group, policy, member)
        partitions.lag.end_known = lambda topic, partition: consumer.highwater(TopicPartition(topic, partition))
        partitions.lag.in_transaction = lambda topic, partition: in_transaction(
            consumer, TopicPartition(topic, partition)
        )
        consumer.subscribe(job.topics, listener=_Listener(consumer, partitions, watchdog))
        open_.push_async_callback(stop_client, consumer.stop)
        watchdog.expect()  # the first assignment
        await consumer.start()
        demand_read_committed(consumer)
        open_.push_async_callback(partitions.shut_down)
        partitions.start()
        await _until(_read(consumer, partitions, policy, stop), partitions.fatal)


def _consumer(kafka: KafkaConfig, group: str, policy: CommitPolicy, member: str | None) -> Any:
    return make_consumer(  # its auto_offset_reset has no effect: every position is set by us, a gap is fatal
        kafka,
        group=group,
        group_instance_id=member,
        max_poll_records=policy.fetch_records_max,
        max_partition_fetch_bytes=policy.fetch_bytes_max,
        fetch_max_wait_ms=policy.fetch_wait_ms,
        session_timeout_ms=policy.session_timeout_ms,
        heartbeat_interval_ms=policy.heartbeat_interval_ms,
        rebalance_timeout_ms=policy.rebalance_timeout_ms,
        max_poll_interval_ms=NEVER_MS,
    )


async def _read(consumer: Any, partitions: Partitions, policy: CommitPolicy, stop: asyncio.Event) -> None:
    while not stop.is_set():
        if partitions.acquiring:  # aiokafka would return records that the coming seek makes stale
            await asyncio.sleep(ACQUIRING_PAUSE_S)
            continue
        fetched = await consumer.getmany(timeout_ms=policy.fetch_wait_ms)
        generation = partitions.generation  # nothing was awaited since the records were taken
        for source, messages in fetched.items():
            await partitions.feed(source.topic, source.partition, generation, [record_of(m) for m in messages])
        if sum(map(len, fetched.values())) < policy.fetch_records_max // 2:
            await asyncio.sleep(policy.fetch_linger_ms / 1_000)


async def _until(reading: Coroutine[Any, Any, None], fatal: asyncio.Future[None]) -> None:
    """Wait until reading ends, which it does at ``stop``, or raise the fatal error."""
    reader = asyncio.create_task(reading, name="runner-reader")
    await asyncio.wait({reader, fatal}, return_when=asyncio.FIRST_COMPLETED)
    if fatal.done():
        reader.cancel()
        await asyncio.wait({reader})
        reader.cancelled() or reader.exception()  # the fatal error itself, or a consequence of it
        fatal.result()
    await reader
