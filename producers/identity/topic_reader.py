"""Follows the compacted topic ``engines``: every engine of the deployment, for an edge on another host than they are.

Without Kafka, or without the right to read the topic, it knows nothing, logs why once until it has read again, and goes
on trying; it never ends the process it is part of.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from itertools import islice

from aiokafka import TopicPartition

from producers.identity.directory import Directory
from runtime.backoff import Backoff
from runtime.config import KafkaConfig
from runtime.kafka_clients import FAILED, explained, make_consumer, started
from schemas.contract.engines import FORGOTTEN_AFTER_MS, REPEATED_EVERY_MS, Engine, decode
from schemas.contract.topics import ENGINES_TOPIC
from schemas.errors import RejectedError

_log = logging.getLogger(__name__)

RETRY = Backoff(1.0, 60.0)
POLL_MS = 1_000
ENGINES_MAX = 200_000
"""Beyond it new ones are left out."""
TURN_RECORDS = 200
"""Taken in one turn of the loop, in some milliseconds."""


class TopicEngines:
    """``directory`` is what is known now: the same object throughout, which changes."""

    def __init__(self, kafka: KafkaConfig, now_ms: Callable[[], int], topic: str = ENGINES_TOPIC.name) -> None:
        self._kafka = kafka
        self._now_ms = now_ms
        self._topic = topic
        self._round: Iterator[Engine] = iter(())
        self.directory = Directory()
        self._reported_ms = 0
        self._failures = 0  # since something was read

    @property
    def fresh(self) -> bool:
        """Whether some agent has repeated an engine lately: in two rounds at least one."""
        return self._now_ms() - self._reported_ms <= 2 * REPEATED_EVERY_MS

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except Exception as error:
                self._failures += 1
                if self._failures == 1:
                    facts = {"topic": self._topic, "error": str(await explained(self._kafka, error, FAILED))}
                    _log.warning("engines of other hosts unknown, retrying; their requests join no GPU", extra=facts)
            await asyncio.sleep(RETRY.pause_s(self._failures, random.random()))

    async def _follow(self) -> None:
        partition = TopicPartition(self._topic, 0)
        async with started(make_consumer(self._kafka)) as consumer:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            while True:
                found = await consumer.getmany(partition, timeout_ms=POLL_MS)
                self._failures = 0
                records = found.get(partition, [])
                for first in range(0, len(records), TURN_RECORDS):
                    for record in records[first : first + TURN_RECORDS]:
                        self.take(record.key, record.value)
                    await asyncio.sleep(0)  # the loop also passes on streams
                self.forget_old()

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """A record; without a value, or repeated too long ago, the engine is forgotten. What is no engine is left
        out."""
        if key is None:
            return
        if value is None:
            self.directory.forget(key)
            return
        try:
            engine = decode(value)
        except RejectedError as error:
            _log.debug("record of the topic engines left out", extra={"why": error.detail})
            return
        self._reported_ms = max(self._reported_ms, engine.reported_ms)
        if engine.reported_ms < self._now_ms() - FORGOTTEN_AFTER_MS:
            self.directory.forget(engine.key)
        elif self.directory.keyed(engine.key) is not None or self.directory.count < ENGINES_MAX:
            self.directory.put(engine)

    def forget_old(self) -> None:
        """Look at the next ``TURN_RECORDS`` engines, round after round, and forget those that nobody has repeated."""
        oldest_ms = self._now_ms() - FORGOTTEN_AFTER_MS
        looked_at = tuple(islice(self._round, TURN_RECORDS))
        for engine in looked_at:
            if engine.reported_ms < oldest_ms and self.directory.keyed(engine.key) is engine:
                self.directory.forget(engine.key)
        if len(looked_at) < TURN_RECORDS:
            self._round = iter(self.directory.engines)
