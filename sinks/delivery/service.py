"""The delivery service: topic ``alerts`` in, requests to targets out, offsets committed behind them.

A *session* lasts while the group assigns its partitions to this process. It reads the compacted topic from its
beginning, which gives the open alerts, and continues at each target's ``cursor``. A second process of the same group is
a standby. A kill at any moment repeats requests, with the same idempotency keys, and loses none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, GroupCoordinatorNotAvailableError, IllegalStateError, KafkaError

from runtime.assignment import Assignment
from runtime.bounded_fetch import bound_fetches
from runtime.clock import Clock, SystemClock
from runtime.config import KafkaConfig
from runtime.contract_record import check_deployment
from runtime.counters import COUNTERS
from runtime.delivery_config import DeliveryConfig
from runtime.health import Readiness
from runtime.kafka_clients import check_login, explained, make_admin, make_consumer, make_producer, started
from runtime.positions import known_positions
from runtime.runbook import Cause, cause_of, named
from schemas.contract.record import Record
from schemas.contract.topics import ALERTS_TOPIC, DEAD_LETTERS
from schemas.errors import ConfigError, RejectedError, TopicMissingError, UnavailableError
from schemas.limits import DEFAULT_LIMITS, Limits
from sinks.delivery.backlog import Undelivered
from sinks.delivery.client import Client
from sinks.delivery.cursor import Cursor, cursors_of, encode
from sinks.delivery.dead_letters import REQUEST_BYTES_MAX, publish
from sinks.delivery.schedule import Moment
from sinks.delivery.sender import Sender, count_nothing, moment_of
from sinks.delivery.target import Target
from sinks.delivery.transition import deleted_fingerprint, transition_of

_log = logging.getLogger(__name__)
COMMIT_S = 1.0
_COMMIT_WITHIN_S = 10.0
_FETCH_MS = 100
_RECORDS_MAX = 500
_AGAIN_S = 1.0
_STANDBY_S = 0.2
_UNDELIVERED_MAX = 1_000
"""Given up and not yet on their topic; with more of them nothing is read but what is before a cursor."""
Cursors = dict[TopicPartition, dict[str, Cursor]]


def delivery_readiness() -> Readiness:
    """What a delivery waits for before it is ready."""
    return Readiness(group="delivery joins its group", history="the open alerts are being read")


@dataclass(slots=True)
class Delivery:
    """What the service works with. ``readiness`` may be read from another thread."""

    kafka: KafkaConfig
    config: DeliveryConfig
    stop: asyncio.Event
    clock: Clock = field(default_factory=SystemClock)
    readiness: Readiness = field(default_factory=delivery_readiness)
    worker: str | None = None
    """Name within the group (static membership): who restarts under it is assigned its partitions at once. None: any
    name; the group then waits ten seconds for a process that was killed."""
    started: bool = False
    """Whether a session, or standing by, has begun since the start: what is rejected later was right once."""

    @property
    def group(self) -> str:
        """The consumer group."""
        return f"{self.kafka.namespace}-deliver"


async def run_delivery(delivery: Delivery, limits: Limits = DEFAULT_LIMITS) -> None:
    """Run until ``stop``. While Kafka is unavailable it retries for ever. Raises ``ContractError`` without the topics,
    ``ConfigError`` where the brokers reject the first login; a later one is retried."""
    bound_fetches(limits)
    await check_login(delivery.kafka)
    while not delivery.stop.is_set():
        try:
            await _consume(delivery)
        except (KafkaError, OSError, UnavailableError, ConfigError) as error:
            if isinstance(error, ConfigError) and not delivery.started:
                raise
            why = await explained(delivery.kafka, error)
            cause = cause_of(why)
            delivery.readiness.hold("group", named(why), cause)
            facts = {"error": str(why), "cause": cause}
            _log.warning("delivery session failed; retrying from the committed offset", extra=facts)
            await _sleep(_AGAIN_S, delivery.stop)


async def _check_topics(kafka: KafkaConfig) -> None:
    """Raise ``ContractError`` where nobody migrated: a consumer of a topic that is missing would wait silently;
    ``ConfigError`` where the topics are another deployment's."""
    await check_deployment(kafka)
    async with started(make_admin(kafka)) as admin:
        missing = {ALERTS_TOPIC, DEAD_LETTERS} - set(await admin.list_topics())
    if missing:
        raise TopicMissingError(min(missing))


async def _consume(delivery: Delivery) -> None:
    await _check_topics(delivery.kafka)
    assignment = Assignment()
    consumer = make_consumer(delivery.kafka, group=delivery.group, group_instance_id=delivery.worker)
    consumer.subscribe([ALERTS_TOPIC], listener=assignment)
    async with (
        started(consumer),
        started(make_producer(delivery.kafka, max_request_size=REQUEST_BYTES_MAX)) as producer,
    ):
        while not delivery.stop.is_set():
            partitions = sorted(consumer.assignment())
            if not partitions:  # another process of the group delivers; this one is a standby
                delivery.readiness.release("history")
                delivery.started = True
                count_nothing(target.name for target in delivery.config.all_targets)
            delivery.readiness.release("group")
            if partitions:
                await _Session(delivery, consumer, producer, assignment, partitions).run()
            else:
                await consumer.getmany(timeout_ms=0)  # the group removes members that never poll
                await _sleep(_STANDBY_S, delivery.stop)


class _Session:
    """One assignment of partitions."""

    def __init__(
        self,
        delivery: Delivery,
        consumer: Any,
        producer: Any,
        assignment: Assignment,
        partitions: list[TopicPartition],
    ) -> None:
        self._delivery = delivery
        self._consumer = consumer
        self._producer = producer
        self._assignment = assignment
        self._changes = assignment.changes
        self._partitions = partitions
        self._filters = {target.name: target.filter_id for target in delivery.config.all_targets}
        self._senders: list[Sender] = []
        self._committed: object = None
        self._begins: Mapping[TopicPartition, int] = {}
        self._ends: Mapping[TopicPartition, int] = {}

    @property
    def _over(self) -> bool:
        return self._delivery.stop.is_set() or self._assignment.changes != self._changes

    async def run(self) -> None:
        """Until ``stop``, or until the assignment changes."""
        readiness, config = self._delivery.readiness, self._delivery.config
        readiness.hold("history", "the open alerts are being read")
        cursors = await self._cursors()
        now = moment_of(self._delivery.clock)
        ends = {tp.partition: end for tp, end in self._ends.items()}
        async with contextlib.AsyncExitStack() as clients:
            for target in config.all_targets:
                client = await clients.enter_async_context(Client(target, self._delivery.clock))
                own = {tp.partition: cursors[tp][target.name] for tp in self._partitions}
                state = Target(target, own, config.open_max, now, ends)
                self._senders.append(Sender(state, client, self._publish_undelivered, self._delivery.clock))
            self._delivery.started = True
            await self._read_history(cursors)
            if self._over:
                return
            readiness.release("history")
            _log.info("delivery started", extra={"targets": ",".join(sender.name for sender in self._senders)})
            async with self._sending():
                await self._read_on()

    async def _cursors(self) -> Cursors:
        """Where each target continues. A new group commits at once where it began, so that a crash does not move it."""
        begins = self._begins = await self._consumer.beginning_offsets(self._partitions)
        ends = self._ends = await self._consumer.end_offsets(self._partitions)
        known = await _committed(self._delivery.kafka, self._delivery.group, self._partitions)
        names, filters = tuple(self._filters), self._filters
        cursors = {tp: cursors_of(names, *known[tp], begins[tp], ends[tp], filters) for tp in self._partitions}
        if names:
            await self._commit(cursors)
        return cursors

    @property
    def _crowded(self) -> bool:
        return any(len(sender.target.undelivered) > _UNDELIVERED_MAX for sender in self._senders)

    async def _read_history(self, cursors: Cursors) -> None:
        """Everything that was there at the start: what ended since a cursor is not sent again as firing. Where senders
        first have to publish what was given up, no more than is before the cursor of the target that is furthest."""
        for tp, begin in self._begins.items():
            self._consumer.seek(tp, begin)
        least = {tp: max((cursor.offset for cursor in cursors[tp].values()), default=0) for tp in self._partitions}
        while not self._over and await self._are_before(least if self._crowded else self._ends):
            await self._read()
        for sender in self._senders:
            sender.target.begin()

    async def _are_before(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether a partition is still to be read up to its end. One without leader is: its position is unknown."""
        positions = await known_positions(self._consumer, ends)
        return any(positions.get(tp, -1) < end for tp, end in ends.items())

    async def _read_on(self) -> None:
        committed_s = 0.0
        loop = asyncio.get_running_loop()
        while not self._over:
            if self._crowded:
                await asyncio.sleep(_FETCH_MS / 1_000)
            else:
                await self._read()
            for sender in self._senders:
                sender.wake()
            if loop.time() >= committed_s + COMMIT_S:
                committed_s = loop.time()
                await self._settle()

    async def _read(self) -> None:
        fetched = await self._consumer.getmany(*self._partitions, timeout_ms=_FETCH_MS, max_records=_RECORDS_MAX)
        if self._assignment.changes != self._changes:
            return  # they are read by the process they are assigned to now
        now = moment_of(self._delivery.clock)
        rejected = []
        for records in fetched.values():
            for r in records:
                try:
                    self._accept(Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, ()), now)
                except RejectedError as error:
                    rejected.append(f"{r.topic}[{r.partition}] offset {r.offset}: {error}")
                    self._skip(r.partition, r.offset)
        if rejected:  # one line for all of them, so that a flooded topic does not flood the logs
            COUNTERS.add("errors", len(rejected), where="deliver", error="rejected")
            facts = {"records": len(rejected), "first": rejected[0]}
            _log.error("records of topic alerts rejected; no notification is sent for them", extra=facts)

    def _skip(self, partition: int, offset: int) -> None:
        for sender in self._senders:
            sender.target.skip(partition, offset)

    def _accept(self, record: Record, now: Moment) -> None:
        """Pass it to every target. Raises ``RejectedError`` for a record that is no alert."""
        targets = [sender.target for sender in self._senders]
        if (deleted := deleted_fingerprint(record)) is not None:
            for target in targets:
                target.forget(deleted, record.partition, record.offset)
            return
        transition = transition_of(record)
        for target in targets:
            target.accept(transition, now)

    @contextlib.asynccontextmanager
    async def _sending(self) -> AsyncIterator[None]:
        """While inside, targets are served; at the end what is in flight may end and is committed."""
        tasks = [asyncio.create_task(sender.run(), name=sender.name) for sender in self._senders]
        for task in tasks:
            task.add_done_callback(self._failed)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            within_s = self._delivery.config.drain_s if self._delivery.stop.is_set() else 0.0
            await asyncio.gather(*(sender.drain(within_s) for sender in self._senders))
            await self._settle()
            for sender in self._senders:
                sender.misconfigured = sender.failing = None
                self._set_readiness(sender)
            for error in ended:
                if isinstance(error, Exception):
                    raise error

    def _failed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._changes = -1  # ends the session, which raises what it was

    async def _settle(self) -> None:
        """Commit when something changed, and update counters and readiness."""
        now_ms = self._delivery.clock.now_ms()
        senders = self._senders
        cursors = {tp: {s.name: s.target.cursor(tp.partition, now_ms) for s in senders} for tp in self._partitions}
        state = ([[one.offset for one in by_name.values()] for by_name in cursors.values()], _done(senders))
        if senders and state != self._committed and await self._try_commit(cursors):
            self._committed = state
        for sender in senders:
            sender.update_counters()
            self._set_readiness(sender)

    def _set_readiness(self, sender: Sender) -> None:
        """A restart does not help an unavailable target, which is noted; a misconfigured one needs somebody."""
        readiness, target = self._delivery.readiness, f"target {sender.name}"
        readiness.note(target, sender.failing, Cause.DELIVERY)
        if sender.misconfigured is None:
            readiness.release(target)
        else:
            readiness.hold(target, f"{Cause.DELIVERY}: {sender.misconfigured}", Cause.DELIVERY)

    async def _try_commit(self, cursors: Cursors) -> bool:
        """Commit; False when Kafka is unavailable. The session continues; after a crash the next one sends again."""
        try:
            await self._commit(cursors)
        except (CommitFailedError, IllegalStateError) as error:
            _log.warning("Kafka commit rejected after a rebalance; alerts are sent again", extra={"error": repr(error)})
        except (KafkaError, OSError) as error:
            _log.warning("Kafka commit failed, retrying", extra={"error": repr(error)})
            return False
        return True

    async def _commit(self, cursors: Cursors) -> None:
        offsets = {
            tp: (min(one.offset for one in by_name.values()), encode(by_name, self._filters))
            for tp, by_name in cursors.items()
        }
        async with asyncio.timeout(_COMMIT_WITHIN_S):  # aiokafka asks a coordinator that is away for ever
            await self._consumer.commit(offsets)

    async def _publish_undelivered(self, target: str, undelivered: Undelivered) -> None:
        await publish(self._producer, target, undelivered, self._delivery.clock)


def _done(senders: Iterable[Sender]) -> list[int]:
    return [sum(count for what, count in sender.target.counts.items() if what != "retried") for sender in senders]


async def _committed(
    kafka: KafkaConfig, group: str, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, tuple[int | None, str]]:
    """Committed offset (None without) and metadata by partition; the consumer itself does not return metadata. Raises
    ``KafkaError`` where the group's coordinator has no answer, whose error aiokafka drops."""
    async with started(make_admin(kafka)) as admin:
        found = await admin.list_consumer_group_offsets(group, partitions=partitions)
    if not found.keys() >= set(partitions):
        raise GroupCoordinatorNotAvailableError(group)
    return {tp: (found[tp].offset if found[tp].offset >= 0 else None, found[tp].metadata or "") for tp in partitions}


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
