"""Publisher: writes events to the spool, and from there to Kafka, at least once.

``put`` returns when the record is in the spool, which a thread writes. A background task sends records to Kafka in
order of age, those of killed predecessors first, and retries for ever with back-off. Spooled records are never dropped:
while Kafka is unavailable the spool grows; when it is full new events are shed and declared in the books.

The producer's books go to the topic ``books`` every few seconds and at the end: cumulative, for all boots the spool
still knows, so that a lost or repeated report changes nothing. They count only what is safe on disk. ``states`` follow.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from aiokafka import AIOKafkaProducer

from producers.batch import Batch, BatchLimits, parts_of
from producers.publish.clock_skew import ClockSkew
from producers.publish.disk import Disk
from producers.publish.reconnect import Lanes, Outage, comes, demand_listener, is_configured, until_beat_s, until_made
from producers.publish.sender import FAILURES, LaneError, LaneKey, Sender, connected, log_rejection
from producers.publish.spans import PublishSpans
from producers.publish.states import States
from producers.publish.undeliverable import Retry, UndeliverableTopics, is_too_large
from producers.publish.writer import SpoolWriter, finished
from producers.spool.books import Books, book_rows, copy_of, encode_rows
from producers.spool.frame import Spooled
from producers.spool.spool import Spool
from runtime.clock import Clock, SystemClock
from runtime.config import KafkaConfig
from runtime.contract_record import check_edge
from runtime.counters import COUNTERS, Counters
from runtime.tracing import Tracer
from schemas.codec.block import Block
from schemas.contract import headers
from schemas.contract.placement import place
from schemas.contract.topics import BOOKS_TOPIC, BY_NAME
from schemas.rows.tables import PRODUCER_BOOKS

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 2.0
"""How often lanes whose back-off ended are checked when no record comes."""
_BOOKS_LANE: LaneKey = (BOOKS_TOPIC, 0)
_FIRST_SAVES_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class PublisherSettings:
    """Intervals of one publisher. ``linger_ms``: how long records gather before they are synced and sent together."""

    linger_ms: int = 20
    save_every_s: float = 1.0
    books_every_s: float = 2.0
    connect_within_s: float = 20.0
    close_within_s: float = 3.0


class Publisher:
    """Publishes through one spool; simulated hosts may share it. Use ``async with``, or start, close."""

    def __init__(
        self,
        spool: Spool,
        kafka: KafkaConfig,
        *,
        host: str,
        partitions: Mapping[str, int] | None = None,
        limits: BatchLimits | None = None,
        settings: PublisherSettings | None = None,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
        tracer: Tracer | None = None,
        states: States | None = None,
    ) -> None:
        self.spool = spool
        self._kafka = kafka
        self._host = host
        self._partitions = {name: topic.partitions for name, topic in BY_NAME.items()} | dict(partitions or {})
        self._limits = limits or BatchLimits.of()
        self._settings = settings or PublisherSettings()
        self._clock = clock or SystemClock()
        self._counters = counters
        self._spans = None if tracer is None else PublishSpans(tracer, spool.identity.source_of, self._clock)
        self._work = asyncio.Event()  # something to hand out, or room to do so
        self._settled = asyncio.Event()  # something was acknowledged
        self._acknowledged = asyncio.Event()  # the same, for the one that saves
        self._closing = False
        self._producer: AIOKafkaProducer | None = None
        self._sent_once: tuple[int, int] = (0, 0)  # everything below was handed to Kafka before
        self._skew = ClockSkew(self._clock, counters)
        self._outage, self._lanes = Outage(), Lanes()
        self._published_books: Books = {}
        self._books_failure: Exception | None = None
        self.states = states or States(partitions, self._settings.close_within_s)
        self.undeliverable = UndeliverableTopics(spool, counters, now_s=self._clock.monotonic_s())
        self._saved_low = spool.low
        self._kept_s = self._clock.monotonic_s()
        self._caught_up = False  # a save of this boot knows what it and older ones had acknowledged
        self._next_books_s = 0.0
        self._connected = partial(connected, kafka, self._settings.connect_within_s, self._settings.close_within_s)
        self._disk = Disk(spool)
        self._writer = SpoolWriter(spool, self._disk.turn, self._outcome, counters)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> Self:
        """Start sending in the background; Kafka may be unavailable."""
        self._sent_once = (self.spool.boot, 0)
        self._next_books_s = self._clock.monotonic_s() + self._settings.books_every_s
        connect = partial(self._connected, f"edge-{self._host}-retry", idempotent=False)
        retry = Retry(self.spool, self._disk, connect, self._sender, self._lanes)
        retrying = self.undeliverable.retry_forever(retry, self._clock, lambda: self._producer is not None)
        self._tasks = [asyncio.create_task(each) for each in (self._send_forever(), self._keep_forever(), retrying)]
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def put(self, topic: str, key: bytes, batch: Batch | Block, *, wait: bool = False) -> bool:
        """Spool one batch (a block is encoded, and cut where it is too large). True when all of it is spooled.
        False: the spool is full, and what did not fit was shed and declared. With ``wait`` nothing is shed: the call
        waits for room, and for the disk. Raises RejectedError when a single event is too large to be sent.
        """
        self._check_alive()
        parts, now_ms = parts_of(topic, key, batch, self._limits), self._clock.now_ms
        if wait:
            for part in parts:
                await self._writer.put_unshed(part, self._partition(part), now_ms, self._acknowledged_something)
            return True
        answers = [self._writer.put(part, self._partition(part), now_ms()) for part in parts]
        return all([await finished(answer) for answer in answers])

    def put_at_once(self, batch: Batch) -> bool:
        """Take a batch that is spooled soon. False when there is no room, and it was shed and declared."""
        self._check_alive()
        return self._writer.offer(batch, self._partition(batch), self._clock.now_ms())

    def has_room(self, value_bytes: int, topic: str | None = None) -> bool:
        """Whether a batch of this size would be spooled, as far as is known; of this topic, or of any."""
        return self._writer.has_room(value_bytes, topic)

    async def written(self) -> None:
        """Until what was put is on disk, or shed."""
        await self._writer.drain()

    async def flush(self, within_s: float | None = None, *, undeliverable: bool = True) -> bool:
        """Wait until Kafka has everything spooled, or all but what is ``undeliverable``; False after ``within_s``."""
        try:
            async with asyncio.timeout(within_s):
                await self._writer.drain()
                while self.spool.unacknowledged_records > (0 if undeliverable else self.spool.undeliverable.records):
                    await self._acknowledged_something()
        except TimeoutError:
            return False
        return True

    async def close(self, drain_s: float = 5.0) -> bool:
        """Send what can be sent in ``drain_s``, publish the books, also those of a life before, close the spool. True
        when Kafka has acknowledged everything; what it has not stays for the next start. Idempotent."""
        if self._closing:
            return not self.spool.unacknowledged_records
        drained, now_s = False, asyncio.get_running_loop().time
        end_s = now_s() + drain_s
        try:
            self._closing = True
            await self._writer.drain(max(drain_s, self._settings.close_within_s))
            if self._tasks and self.failure is None:
                flushed = await self.flush(end_s - now_s(), undeliverable=False)
                drained = flushed and not self.spool.unacknowledged_records
                await until_made(lambda: self._producer or self.spool.books == self._published_books, end_s - now_s())
                await self._publish_books()
                await self.states.publish(self._producer, self._clock.monotonic_s())
        finally:
            results = await self._end_tasks()
            self.spool.close()
        if (failure := next((each for each in results if isinstance(each, Exception)), None)) is not None:
            raise failure
        return drained

    async def abandon(self) -> None:
        """End as a kill would: nothing is sent or written any more, and the spool's folder is free to be opened."""
        self._closing = True
        await self._end_tasks()
        self.spool.abandon()

    async def _end_tasks(self) -> list[BaseException | None]:
        tasks = [*self._tasks, *self._writer.tasks]
        for task in tasks:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    def left(self) -> tuple[list[Batch], Mapping[str, int]]:
        """After ``abandon``: batches that nobody waits for and that are not on disk, and events to be declared."""
        return self._writer.left()

    @property
    def failure(self) -> BaseException | None:
        """The error that ended writing, sending or saving; None while all of them work."""
        tasks = (*self._tasks, *self._writer.tasks)
        ended = (task for task in tasks if task.done() and not task.cancelled())
        return next((error for task in ended if (error := task.exception()) is not None), None)

    @property
    def why(self) -> str | None:
        """What is wrong though it works: new events are shed, topics are undeliverable. None: nothing."""
        return "; ".join(filter(None, (self._writer.shedding, self.undeliverable.why))) or None

    def _partition(self, batch: Batch) -> int:
        return place(batch.key, self._partitions[batch.topic])

    def _outcome(self, record: Spooled, spooled: bool) -> None:
        self._counters.add("edge_events" if spooled else "edge_events_shed", record.events, topic=record.topic)
        if spooled:
            self._work.set()

    def declare(self, topic: str, events: int) -> None:
        """Declare events as shed that were counted before."""
        self._writer.declare(topic, events)

    def shed(self, topic: str, events: int) -> None:
        """Declare events that no batch could hold."""
        self.declare(topic, events)
        self._counters.add("edge_events_shed", events, topic=topic)

    async def _send_forever(self) -> None:
        while is_configured(self._kafka):
            try:
                if self._outage.failures:
                    await demand_listener(self._kafka.bootstrap)
                await self._send_until_it_fails()
            except LaneError as error:
                self._lane_failed(error)
            except FAILURES as error:
                self._failed(error, None)
                if self._outage.should_log:
                    await log_rejection(self._kafka, error)
            await asyncio.sleep(self._outage.pause_s(self._clock.monotonic_s(), random.random()))

    async def _send_until_it_fails(self) -> None:
        await check_edge(self._kafka)
        try:
            async with self._connected(f"edge-{self._host}") as producer:
                self._producer = producer
                await self._sender(producer, self._backing_off).run(self._feed)
        finally:
            self._producer = None

    def _sender(self, producer: AIOKafkaProducer, backing_off: Callable[[], Collection[LaneKey]] = tuple) -> Sender:
        of, low, on, alone = self.spool.identity.source_of, self.spool.low_of, self._delivered, self._lanes.alone
        return Sender(producer, of, low, on, self._skew, backing_off, alone, self._spans)

    async def _feed(self, sender: Sender) -> None:
        """Hand out what was handed out before, then whatever comes; ends only by a failure."""
        await self._disk.hold()
        held = self.spool.undeliverable
        self._hand_over(sender, [record for record in self.spool.taken if not held.holds(record)])
        while self._books_failure is None:
            self._work.clear()
            await self._disk.sync()
            self._hand_over(sender, await self._disk.take())
            if await self._disk.hold():
                self._work.set()
            if await comes(self._work, _LOOK_EVERY_S):
                await asyncio.sleep(self._settings.linger_ms / 1_000)
        failure, self._books_failure = self._books_failure, None
        raise LaneError(_BOOKS_LANE, failure)

    def _hand_over(self, sender: Sender, records: Sequence[Spooled]) -> None:
        for record in records:
            if record[:2] < self._sent_once:
                self._counters.add("edge_resends", topic=record.topic)
        if records:
            self._sent_once = max(self._sent_once, (records[-1].boot, records[-1].seq + 1))
        sender.send(records)

    def _delivered(self, records: Sequence[Spooled]) -> None:
        new, lane = self.spool.acknowledge(records), (records[0].topic, records[0].partition)
        self._outage.answered()
        self._lanes.delivered(lane)
        self.undeliverable.delivered(lane)
        self._counters.add("edge_records_sent", new, topic=lane[0])
        self._counters.add("edge_bytes_sent", sum(len(record.value) for record in records), topic=lane[0])
        self._work.set()
        self._settled.set()
        self._acknowledged.set()

    def _lane_failed(self, failure: LaneError) -> None:
        """A rejected topic or record moves out of the way; a lane that the books or a whole batch failed on pauses."""
        lane, error, now_s = failure.lane, failure.cause, self._clock.monotonic_s()
        if is_too_large(error) and len(failure.records) > 1:
            self._lanes.alone.add(lane)
        elif lane != _BOOKS_LANE and self.undeliverable.failed(failure, now_s):
            self._lanes.set_apart(lane)
        else:
            self._failed(error, lane)
            return
        self._counters.add("edge_send_errors", topic=lane[0], error=type(error).__name__)

    def _failed(self, error: Exception, lane: LaneKey | None) -> None:
        self._outage.failed(error, self._clock.monotonic_s())
        topic = lane[0] if lane else ""
        self._counters.add("edge_send_errors", topic=topic, error=type(error).__name__)
        facts = {"topic": topic, "error": f"{type(error).__name__}: {error}", "records": len(self.spool.taken)}
        if lane is None or getattr(error, "retriable", True):
            if self._outage.should_log:
                self._outage.log(facts)
            return
        _log.error("Kafka rejected a batch; kept and retried", extra=facts | {"partition": lane[1]})
        self._lanes.rejected(lane, self._clock.monotonic_s(), random.random())

    def _backing_off(self) -> frozenset[LaneKey]:
        return self._lanes.backing_off(self._clock.monotonic_s())

    async def _keep_forever(self) -> None:
        while True:
            await self._until_a_save()
            if self._is_to_keep():
                await self._keep()

    async def _until_a_save(self) -> None:
        """Wait for the next save; longer while nothing is acknowledged, as while Kafka is unavailable."""
        pause_s = self._save_pause_s()
        if pause_s < self._settings.save_every_s and self.spool.low == self._saved_low:
            await comes(self._acknowledged, self._settings.save_every_s - pause_s)
        self._acknowledged.clear()
        await asyncio.sleep(until_beat_s(self._clock.now_ms(), pause_s))

    def _is_to_keep(self) -> bool:
        """Whether a save is due: something was acknowledged, or the last one is too old."""
        overdue = self._clock.monotonic_s() - self._kept_s >= self._settings.save_every_s
        return overdue or self.spool.low != self._saved_low

    def _save_pause_s(self) -> float:
        """Short until a save knows all that older boots left and something of this one: who is killed again and again
        would otherwise send the same records every time, and more of them each time."""
        often_s = self._settings.save_every_s
        return often_s if self._caught_up else min(_FIRST_SAVES_EVERY_S, often_s)

    async def _keep(self) -> None:
        self._kept_s = self._clock.monotonic_s()
        await self._disk.sync()
        low = self.spool.low
        if await self._disk.save():
            self._saved_low = low
            self._caught_up |= low > (self.spool.boot, 0)
        self._counters.set("edge_spool_bytes", self.spool.size_bytes)
        self._counters.set("edge_oldest_ms", await self._disk.oldest_age_ms(self._clock.now_ms))
        if self._clock.monotonic_s() >= self._next_books_s:
            if self._skew.ms is not None or self.spool.unacknowledged_records <= self.spool.undeliverable.records:
                await self._publish_books()  # else the first acknowledgement is to come, which tells the brokers' time
            await self.states.publish(self._producer, self._clock.monotonic_s())
            self._next_books_s = self._clock.monotonic_s() + self._settings.books_every_s

    async def _publish_books(self) -> None:
        """Publish the books if they changed since Kafka last acknowledged them; a failure waits for the next time."""
        books, spool = copy_of(self.spool.books), self.spool
        ends = {boot: spool.end_of(boot) for boot, _ in books}
        await self._disk.sync()
        producer = self._producer
        if producer is None or not books or books == self._published_books or _BOOKS_LANE in self._backing_off():
            return
        of, skew_ms = spool.identity.source_of, self._skew.ms
        value = encode_rows(book_rows(books, of, self._host, self._skew.broker_ms(), ends.__getitem__, skew_ms))
        try:
            async with asyncio.timeout(self._settings.close_within_s):
                partition = place(spool.source.encode(), self._partitions[BOOKS_TOPIC])
                await (await producer.send(BOOKS_TOPIC, value, partition=partition, headers=_BOOKS_HEADERS))
        except TimeoutError:  # it may still arrive
            return
        except FAILURES as error:
            self._books_failure = error  # the producer is of no use any more
            self._work.set()
            return
        self._published_books = books
        self._lanes.delivered(_BOOKS_LANE)
        async with self._disk.turn:
            self.spool.books_delivered(key for key, tally in books.items() if tally.settled)

    def _check_alive(self) -> None:
        assert not self._closing, "the publisher is closed"
        if (failure := self.failure) is not None:
            raise failure

    async def _acknowledged_something(self) -> None:
        self._settled.clear()
        await comes(self._settled, 0.5)
        if (failure := self.failure) is not None:
            raise failure


_BOOKS_HEADERS = [("schema", PRODUCER_BOOKS.schema.encode()), ("content-type", headers.NATIVE.encode())]
