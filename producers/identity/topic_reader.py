"""Follows the compacted topic ``engines``: every engine of the deployment, for an edge on another host than they are.

Without Kafka, or without the right to read the topic, it knows nothing, logs why once, and tries again; it never ends
the process it is part of.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from aiokafka import TopicPartition

from producers.identity.directory import Directory
from runtime.backoff import Backoff
from runtime.config import KafkaConfig
from runtime.kafka_clients import FAILED, explained, make_consumer, started
from schemas.contract.engines import FORGOTTEN_AFTER_MS, Engine, decode
from schemas.contract.topics import ENGINES_TOPIC
from schemas.errors import RejectedError

_log = logging.getLogger(__name__)

RETRY = Backoff(1.0, 60.0)
POLL_MS = 1_000
ENGINES_MAX = 200_000
"""Beyond it new ones are left out."""


class TopicEngines:
    """``directory`` is what is known now."""

    def __init__(self, kafka: KafkaConfig, now_ms: Callable[[], int], topic: str = ENGINES_TOPIC.name) -> None:
        self._kafka = kafka
        self._now_ms = now_ms
        self._topic = topic
        self._engines: dict[bytes, Engine] = {}
        self.directory = Directory()

    async def run(self) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            try:
                await self._follow()
            except Exception as error:
                failures += 1
                if failures == 1:
                    facts = {"topic": self._topic, "error": str(await explained(self._kafka, error, FAILED))}
                    _log.warning("engines of other hosts unknown, retrying; their requests join no GPU", extra=facts)
            await asyncio.sleep(RETRY.pause_s(failures, random.random()))

    async def _follow(self) -> None:
        partition = TopicPartition(self._topic, 0)
        async with started(make_consumer(self._kafka)) as consumer:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            while True:
                found = await consumer.getmany(partition, timeout_ms=POLL_MS)
                records = found.get(partition, [])
                for record in records:
                    self.take(record.key, record.value)
                if records:
                    self.refresh()

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """A record; without a value the engine is forgotten. What is no engine is left out."""
        if key is None:
            return
        if value is None:
            self._engines.pop(key, None)
            return
        try:
            engine = decode(value)
        except RejectedError as error:
            _log.debug("record of the topic engines left out", extra={"why": error.detail})
            return
        if key in self._engines or len(self._engines) < ENGINES_MAX:
            self._engines[key] = engine

    def refresh(self) -> None:
        """Make a directory of what was taken and is not too old."""
        oldest_ms = self._now_ms() - FORGOTTEN_AFTER_MS
        self._engines = {key: each for key, each in self._engines.items() if each.reported_ms >= oldest_ms}
        self.directory = Directory(self._engines.values())
