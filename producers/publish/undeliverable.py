"""Undeliverable topics: when a topic's records are kept apart from all others, and how they are retried.

A topic that rejects its records (no right to write, no such topic), or a partition that takes none while others do,
would hold up the window and the segments of the whole spool. Its records move to files of their own
(``producers.spool.undeliverable``) and are sent by a producer of their own, with back-off; as soon as they are
acknowledged the topic is delivered as any other again. A record that is too large alone goes this way by itself.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from producers.publish.disk import Disk
from producers.publish.reconnect import Lanes, finish
from producers.publish.sender import FAILURES, LaneError, LaneKey, Sender
from producers.spool.frame import Spooled
from producers.spool.spool import Spool
from runtime.backoff import Backoff
from runtime.clock import Clock
from runtime.counters import Counters
from runtime.runbook import Cause

_log = logging.getLogger(__name__)

RETRY = Backoff(1.0, 15.0)
"""Of each topic. Well below the 30 s for which a window waits for a source."""
STRIKES_MAX = 3
"""A lane that fails so often in a row while others deliver is as undeliverable as one that is rejected."""
_LOOK_EVERY_S = 0.5
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_OF_ALL_TOPICS = (ClusterAuthorizationFailedError, OutOfOrderSequenceNumber)


def is_too_large(error: Exception) -> bool:
    """Whether Kafka rejects a batch or a record for its size."""
    return isinstance(error, _TOO_LARGE)


def is_of_topic(error: Exception) -> bool:
    """Whether Kafka rejects a topic's records, and will again until somebody changes something."""
    if isinstance(error, (*_TOO_LARGE, *_OF_ALL_TOPICS)):
        return False
    rejected = isinstance(error, BrokerResponseError) and not error.retriable
    return rejected or isinstance(error, UnknownTopicOrPartitionError)


@dataclass(slots=True)
class _Topic:
    """Why it is retried, how often that failed, and when the next try is due."""

    why: str
    failures: int = 1
    again_s: float = 0.0


class UndeliverableTopics:
    """Those of one spool; ``some`` is set while there are any. Times are monotonic seconds."""

    def __init__(
        self, spool: Spool, counters: Counters, chance: Callable[[], float] = random.random, now_s: float = 0.0
    ) -> None:
        self._spool = spool
        self._counters = counters
        self._chance = chance
        self._strikes: dict[LaneKey, int] = {}
        self._struck: set[LaneKey] = set()  # since another lane delivered
        self.some = asyncio.Event()
        found = spool.undeliverable.topics()
        self._topics = {topic: _Topic("rejected before the start", again_s=now_s) for topic in found}
        if self._topics:
            self.some.set()
        self.count()

    @property
    def why(self) -> str | None:
        """A sentence that names the topics, and what Kafka says about them; None when there are none."""
        if not self._topics:
            return None
        about = "; ".join(f"{name} ({one.why})" for name, one in sorted(self._topics.items()))
        return f"undeliverable topics, kept apart in the spool and retried: {about}"

    def delivered(self, lane: LaneKey) -> None:
        """A batch of this lane was taken."""
        self._strikes.pop(lane, None)
        self._struck.clear()

    def failed(self, failure: LaneError, now_s: float) -> bool:
        """Whether a failure is that of a topic or a record, whose records are kept apart from now on."""
        topic, error = failure.lane[0], failure.cause
        if is_too_large(error) and len(failure.records) == 1:
            self._spool.undeliverable.hold_alone(failure.records[0])
        elif is_of_topic(error) or self._is_stuck(failure.lane):
            self._spool.hold(topic)
        else:
            return False
        if topic not in self._topics:
            facts = {"topic": topic, "error": _text(error), "cause": _cause_of(error)}
            _log.error("topic undeliverable: its records are kept apart and retried", extra=facts)
            self._topics[topic] = _Topic(_text(error), again_s=now_s + RETRY.pause_s(1, self._chance()))
        self._topics[topic].why = _text(error)
        self.some.set()
        return True

    def _is_stuck(self, lane: LaneKey) -> bool:
        if lane not in self._struck:
            self._struck.add(lane)
            self._strikes[lane] = self._strikes.get(lane, 0) + 1
        return self._strikes.get(lane, 0) >= STRIKES_MAX

    def due(self, now_s: float) -> list[str]:
        """Topics to be tried now."""
        return [name for name, one in self._topics.items() if one.again_s <= now_s]

    def tried(self, topic: str, error: Exception | None, now_s: float) -> None:
        """Take note of how a try ended; None: all was taken that was there."""
        one = self._topics[topic]
        if error is not None:
            one.failures += 1
            one.again_s, one.why = now_s + RETRY.pause_s(one.failures, self._chance()), _text(error)
            return
        one.failures, one.again_s = 1, now_s
        held = self._spool.undeliverable
        if (topic not in held.queues or self._spool.release(topic)) and topic not in held.topics():
            del self._topics[topic]
            if not self._topics:
                self.some.clear()
            self._counters.set("edge_undeliverable_bytes", 0, topic=topic)
            self._counters.set("edge_undeliverable_records", 0, topic=topic)
            self.count()
            _log.info("topic deliverable again", extra={"topic": topic})

    async def retry_forever(self, retry: Retry, clock: Clock, is_up: Callable[[], bool]) -> None:
        """Try the topics when they are due, while Kafka ``is_up``: it takes what is sent otherwise."""
        while True:
            await self.some.wait()
            await asyncio.sleep(_LOOK_EVERY_S)
            self.count()
            for topic in self.due(clock.monotonic_s()) if is_up() else []:
                error = await retry.send(topic)
                async with retry.disk.turn:
                    self.tried(topic, error, clock.monotonic_s())

    def count(self) -> None:
        """Set the gauges."""
        for topic in self._topics:
            records, size_bytes = self._spool.undeliverable.of(topic)
            self._counters.set("edge_undeliverable_records", records, topic=topic)
            self._counters.set("edge_undeliverable_bytes", size_bytes, topic=topic)
        missing = any(one.why.startswith(Cause.TOPIC) for one in self._topics.values())
        self._counters.set("cause", int(missing), cause=Cause.TOPIC)


def _cause_of(error: Exception) -> Cause | None:
    return {UnknownTopicOrPartitionError: Cause.TOPIC, TopicAuthorizationFailedError: Cause.KAFKA_LOGIN}.get(
        type(error)
    )


def _text(error: Exception) -> str:
    cause, text = _cause_of(error), f"{type(error).__name__}: {error}"
    return text if cause is None else f"{cause}: {text}"


@dataclass(frozen=True, slots=True)
class Retry:
    """Sends what is held, by a producer of its own. ``new_sender`` holds no lane back: a topic pauses as one."""

    spool: Spool
    disk: Disk
    connect: Callable[[], AbstractAsyncContextManager[AIOKafkaProducer]]
    new_sender: Callable[[AIOKafkaProducer], Sender]
    lanes: Lanes

    async def send(self, topic: str) -> Exception | None:
        """Send what is held of a topic; None when nothing of it is left, else why not."""
        try:
            async with self.connect() as producer:
                failed = await self._send_all(topic, producer)
        except FAILURES as error:  # OSError: of the disk too
            return error
        return failed.cause if isinstance(failed, LaneError) else failed

    async def _send_all(self, topic: str, producer: AIOKafkaProducer) -> Exception | None:
        failed = await self._send_queue(topic, producer)
        for identity in self.spool.undeliverable.oversized.identities(topic):
            record = await self._read(identity)
            if record is not None and (error := await self._send(producer, [record])) is not None:
                failed = error
                if not isinstance(error, LaneError) or not is_too_large(error.cause):
                    break
        return failed

    async def _read(self, identity: tuple[int, int]) -> Spooled | None:
        held = self.spool.undeliverable.oversized
        found: list[Spooled] = []
        await self.disk.read(lambda: held.read(identity), found.extend)
        if not found:
            _log.error("spooled records unreadable: they are lost", extra={"records": 1})
            held.forget(identity)
            return None
        return found[0]

    async def _send_queue(self, topic: str, producer: AIOKafkaProducer) -> Exception | None:
        queue = self.spool.undeliverable.queues.get(topic)
        while queue is not None and queue.records:
            await self.disk.read(queue.read, queue.hand_out)
            failed = await self._send(producer, list(queue.window.values()))
            queue.trim()
            if failed is not None and not await self._is_set_apart(failed):
                return failed
        return None

    async def _is_set_apart(self, failed: Exception) -> bool:
        """Whether a record that was too large is out of the way, or will be found by sending one at a time."""
        if not isinstance(failed, LaneError) or not is_too_large(failed.cause):
            return False
        if len(failed.records) != 1:
            self.lanes.alone.add(failed.lane)
            return True
        async with self.disk.turn:
            await finish(partial(self.spool.undeliverable.move_alone, failed.records[0]))
        self.lanes.set_apart(failed.lane)
        return True

    async def _send(self, producer: AIOKafkaProducer, records: Sequence[Spooled]) -> Exception | None:
        async def feed(sender: Sender) -> None:
            sender.send(records)

        try:
            await self.new_sender(producer).run(feed)
        except (LaneError, *FAILURES) as error:
            return error
        return None
