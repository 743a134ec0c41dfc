"""The delivery service: topic ``alerts`` in, requests to targets out, offsets committed behind them.

A *session* lasts while the group gives this process its partitions. It reads the compacted topic from its beginning,
which tells what is open, and goes on with what each target was not told yet (``place``). A second process of the same
group stands by. A kill at any moment repeats requests, with the same idempotency keys, and loses none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from runtime.bounded_fetch import bound_fetches
from runtime.clock import Clock, SystemClock
from runtime.config import KafkaConfig
from runtime.counters import COUNTERS
from runtime.delivery_config import DeliveryConfig
from runtime.health import Readiness
from runtime.kafka_access import demand_entry, explained
from schemas.errors import ContractError, RejectedError
from schemas.limits import DEFAULT_LIMITS, Limits
from schemas.record import Record
from schemas.topics import ALERTS_TOPIC, DEAD_LETTERS
from sinks.delivery import dead_letters
from sinks.delivery.client import Client
from sinks.delivery.intake import tells_to_forget, transition_of
from sinks.delivery.place import Place, encode, places_of
from sinks.delivery.schedule import Moment
from sinks.delivery.sender import Sender, moment_of
from sinks.delivery.target import Target, Undelivered

_log = logging.getLogger(__name__)
COMMIT_S = 1.0
_COMMIT_WITHIN_S = 10.0
_FETCH_MS = 100
_RECORDS_MAX = 500
_AGAIN_S = 1.0
_STAND_BY_S = 0.2
_DEAD_MAX = 1_000
"""Given up and not yet on their topic; with more of them nothing is read."""
Places = dict[TopicPartition, dict[str, Place]]


class _Assignment(ConsumerRebalanceListener):
    """Counts the changes of what the group gives us."""

    def __init__(self) -> None:
        self.changes = 0

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.changes += 1

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.changes += 1


def delivery_readiness() -> Readiness:
    """What a delivery waits for at first."""
    return Readiness(group="delivery joins its group", history="the open alerts are being read")


@dataclass(slots=True)
class Delivery:
    """What the service works with. ``readiness`` may be asked from another thread."""

    kafka: KafkaConfig
    config: DeliveryConfig
    stop: asyncio.Event
    clock: Clock = field(default_factory=SystemClock)
    readiness: Readiness = field(default_factory=delivery_readiness)
    worker: str | None = None
    """Name within the group, kept over restarts: who comes back under it takes its partitions back at once. None: any
    name; the group then waits ten seconds for one that was killed."""

    @property
    def group(self) -> str:
        """The consumer group."""
        return f"{self.kafka.deployment}-deliver"


async def run_delivery(delivery: Delivery, limits: Limits = DEFAULT_LIMITS) -> None:
    """Run until ``stop``. Kafka away: waits and begins again, for ever. Raises ``ContractError`` without the topics,
    ``ConfigError`` where the brokers turn us away from the first."""
    bound_fetches(limits)
    await demand_entry(delivery.kafka)
    while not delivery.stop.is_set():
        try:
            await _consume(delivery)
        except (KafkaError, OSError) as error:
            why = str(await explained(delivery.kafka, error))
            delivery.readiness.hold("group", why)
            _log.warning("delivery begins again; nothing is lost", extra={"why": why})
            await _sleep(_AGAIN_S, delivery.stop)


async def _check_topics(kafka: KafkaConfig) -> None:
    """Raise ``ContractError`` where nobody migrated: a group of a topic that is missing would wait unseen."""
    async with _admin(kafka) as admin:
        missing = {ALERTS_TOPIC, DEAD_LETTERS} - set(await admin.list_topics())
    if missing:
        raise ContractError(f"topic {min(missing)} does not exist; run `fleetpulse migrate`")


async def _consume(delivery: Delivery) -> None:
    await _check_topics(delivery.kafka)
    assignment = _Assignment()
    consumer = AIOKafkaConsumer(
        **delivery.kafka.client_settings(),
        group_id=delivery.group,
        group_instance_id=delivery.worker,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=10_000,
        heartbeat_interval_ms=2_000,
    )
    consumer.subscribe([ALERTS_TOPIC], listener=assignment)
    producer = AIOKafkaProducer(**delivery.kafka.client_settings(), enable_idempotence=True, acks="all")
    try:
        await consumer.start()
        await producer.start()
        while not delivery.stop.is_set():
            partitions = sorted(consumer.assignment())
            if not partitions:  # another process of the group delivers; this one stands by
                delivery.readiness.release("history")
            delivery.readiness.release("group")
            if partitions:
                await _Session(delivery, consumer, producer, assignment, partitions).run()
            else:
                await consumer.getmany(timeout_ms=0)  # the group gives up on members that never ask
                await _sleep(_STAND_BY_S, delivery.stop)
    finally:
        await producer.stop()
        await consumer.stop()


class _Session:
    """One assignment of partitions."""

    def __init__(
        self,
        delivery: Delivery,
        consumer: Any,
        producer: Any,
        assignment: _Assignment,
        partitions: list[TopicPartition],
    ) -> None:
        self._delivery = delivery
        self._consumer = consumer
        self._producer = producer
        self._assignment = assignment
        self._changes = assignment.changes
        self._partitions = partitions
        self._senders: list[Sender] = []
        self._committed: object = None
        self._ends: Mapping[TopicPartition, int] = {}

    @property
    def _over(self) -> bool:
        return self._delivery.stop.is_set() or self._assignment.changes != self._changes

    async def run(self) -> None:
        """Until ``stop``, or until the group gives us something else."""
        readiness, config = self._delivery.readiness, self._delivery.config
        readiness.hold("history", "the open alerts are being read")
        places = await self._places()
        now = moment_of(self._delivery.clock)
        ends = {tp.partition: end for tp, end in self._ends.items()}
        async with contextlib.AsyncExitStack() as clients:
            for target in config.all_targets:
                client = await clients.enter_async_context(Client(target, self._delivery.clock))
                own = {tp.partition: places[tp][target.name] for tp in self._partitions}
                state = Target(target, own, config.open_max, now, ends)
                self._senders.append(Sender(state, client, self._bury, self._delivery.clock))
            await self._read_history(places)
            if self._over:
                return
            readiness.release("history")
            _log.info("delivery reads", extra={"targets": ",".join(sender.name for sender in self._senders)})
            async with self._sending():
                await self._read_on()

    async def _places(self) -> Places:
        """Where each target goes on. A new group says at once where it began, so that a crash does not move it."""
        begins = await self._consumer.beginning_offsets(self._partitions)
        ends = self._ends = await self._consumer.end_offsets(self._partitions)
        known = await _committed(self._delivery.kafka, self._delivery.group, self._partitions)
        names = tuple(target.name for target in self._delivery.config.all_targets)
        places = {tp: places_of(names, *known[tp], begins[tp], ends[tp]) for tp in self._partitions}
        if names:
            await self._commit(places)
        return places

    async def _read_history(self, places: Places) -> None:
        """Everything before the place of the target that is furthest."""
        await self._consumer.seek_to_beginning(*self._partitions)
        ends = {tp: max((place.offset for place in places[tp].values()), default=0) for tp in self._partitions}
        while not self._over and any([await self._consumer.position(tp) < end for tp, end in ends.items()]):
            await self._read()
        for sender in self._senders:
            sender.target.begin()

    async def _read_on(self) -> None:
        told_s = 0.0
        loop = asyncio.get_running_loop()
        while not self._over:
            if any(len(sender.target.dead) > _DEAD_MAX for sender in self._senders):
                await asyncio.sleep(_FETCH_MS / 1_000)
            else:
                await self._read()
            for sender in self._senders:
                sender.wake()
            if loop.time() >= told_s + COMMIT_S:
                told_s = loop.time()
                await self._settle()

    async def _read(self) -> None:
        fetched = await self._consumer.getmany(*self._partitions, timeout_ms=_FETCH_MS, max_records=_RECORDS_MAX)
        if self._assignment.changes != self._changes:
            return  # read by whoever has them now
        now = moment_of(self._delivery.clock)
        unreadable = []
        for records in fetched.values():
            for r in records:
                try:
                    self._accept(Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, ()), now)
                except RejectedError as error:
                    unreadable.append(f"{r.topic}[{r.partition}] offset {r.offset}: {error}")
                    self._skip(r.partition, r.offset)
        if unreadable:  # one line for all of them: who floods the topic does not flood the logs
            COUNTERS.add("errors", len(unreadable), where="deliver", error="unreadable")
            facts = {"records": len(unreadable), "first": unreadable[0]}
            _log.error("records of alerts cannot be read; nobody is told", extra=facts)

    def _skip(self, partition: int, offset: int) -> None:
        for sender in self._senders:
            sender.target.skip(partition, offset)

    def _accept(self, record: Record, now: Moment) -> None:
        """Tell every target. Raises ``RejectedError`` for a record that is no alert."""
        targets = [sender.target for sender in self._senders]
        if (gone := tells_to_forget(record)) is not None:
            for target in targets:
                target.forget(gone, record.partition, record.offset)
            return
        transition = transition_of(record)
        for target in targets:
            target.accept(transition, now)

    @contextlib.asynccontextmanager
    async def _sending(self) -> AsyncIterator[None]:
        """While inside, targets are served; at the end what is under way may end and is committed."""
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
                self._tell_readiness(sender.name, None)
            for error in ended:
                if isinstance(error, Exception):
                    raise error

    def _failed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._changes = -1  # ends the session, which raises what it was

    async def _settle(self) -> None:
        """Commit when something changed, and tell the figures."""
        now_ms = self._delivery.clock.now_ms()
        senders = self._senders
        places = {tp: {s.name: s.target.place(tp.partition, now_ms) for s in senders} for tp in self._partitions}
        state = ([[one.offset for one in by_name.values()] for by_name in places.values()], _done(senders))
        if senders and state != self._committed and await self._committed_now(places):
            self._committed = state
        for sender in senders:
            sender.tell_figures()
            self._tell_readiness(sender.name, sender.turned_away)

    def _tell_readiness(self, target: str, why: str | None) -> None:
        """A target that is away is nothing that restarting mends; one that turns us away needs somebody."""
        if why is None:
            self._delivery.readiness.release(f"target {target}")
        else:
            self._delivery.readiness.hold(f"target {target}", why)

    async def _committed_now(self, places: Places) -> bool:
        """Commit; False when Kafka is away. The session goes on then: who was told of open alerts is told again."""
        try:
            async with asyncio.timeout(_COMMIT_WITHIN_S):
                await self._commit(places)
        except (CommitFailedError, IllegalStateError) as error:
            _log.warning("a commit came too late; transitions are sent again", extra={"why": repr(error)})
        except (KafkaError, OSError) as error:
            _log.warning("a commit has to wait; nothing is lost", extra={"why": repr(error)})
            return False
        return True

    async def _commit(self, places: Places) -> None:
        offsets = {tp: (min(p.offset for p in by_name.values()), encode(by_name)) for tp, by_name in places.items()}
        await self._consumer.commit(offsets)

    async def _bury(self, target: str, undelivered: Undelivered) -> None:
        """Put it on the topic of undelivered transitions, however long that takes."""
        transition = undelivered.delivery.transition
        value = dead_letters.encode(target, undelivered, self._delivery.clock.now_ms())
        while True:
            try:
                await self._producer.send_and_wait(DEAD_LETTERS, value, key=transition.alert.fingerprint.encode())
                break
            except (KafkaError, OSError) as error:
                _log.warning("an undelivered transition waits for Kafka", extra={"why": repr(error)})
                await asyncio.sleep(_AGAIN_S)
        COUNTERS.add("deliver_undelivered", target=target, reason=undelivered.reason)
        facts = {"target": target, "reason": undelivered.reason, "transition_id": transition.alert.transition_id}
        _log.error("a transition was not delivered", extra={**facts, "said": undelivered.detail})


def _done(senders: Iterable[Sender]) -> list[int]:
    return [sum(count for what, count in sender.target.counts.items() if what != "retried") for sender in senders]


async def _committed(
    kafka: KafkaConfig, group: str, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, tuple[int | None, str]]:
    """Committed offset (None without) and metadata by partition; the consumer itself does not tell metadata."""
    async with _admin(kafka) as admin:
        found = await admin.list_consumer_group_offsets(group, partitions=partitions)
    return {tp: (found[tp].offset if found[tp].offset >= 0 else None, found[tp].metadata or "") for tp in partitions}


@contextlib.asynccontextmanager
async def _admin(kafka: KafkaConfig) -> AsyncIterator[Any]:
    admin = AIOKafkaAdminClient(**kafka.client_settings())
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
