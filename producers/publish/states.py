"""States: the newest value of each key of compacted topics, published beside events.

They are no events and not in the books: a state that is lost or repeated changes nothing, since the next one says it
all. What Kafka has acknowledged is not sent again until it changes; a process that restarts begins without any.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from aiokafka import AIOKafkaProducer

from producers.publish.sender import FAILURES
from schemas.contract.placement import place
from schemas.contract.topics import BY_NAME

_log = logging.getLogger(__name__)

PAUSE_S = 30.0
"""A topic that is not there holds up the keeping of the spool for as long as an attempt takes."""


class States:
    """``partitions``: counts by topic, where they are not the contract's. ``within_s``: the longest that publishing one
    may take. They may outlive a publisher."""

    def __init__(self, partitions: Mapping[str, int] | None = None, within_s: float = 3.0) -> None:
        self._partitions = {name: topic.partitions for name, topic in BY_NAME.items()} | dict(partitions or {})
        self._within_s = within_s
        self._wanted: dict[tuple[str, bytes], tuple[bytes | None, str]] = {}
        self._acknowledged: dict[tuple[str, bytes], bytes] = {}
        self._due_s = 0.0

    def announce(self, topic: str, key: bytes, value: bytes, schema: str) -> None:
        """The state of ``key`` from now on."""
        self._wanted[topic, key] = (value, schema)

    def withdraw(self, topic: str, key: bytes, schema: str) -> None:
        """``key`` has no state any more: a record without a value, after which compaction drops the key."""
        self._wanted[topic, key] = (None, schema)

    async def publish(self, producer: AIOKafkaProducer | None, now_s: float) -> None:
        """Send what changed; a failure leaves the rest for ``PAUSE_S`` later. None: Kafka is unavailable."""
        if producer is None or now_s < self._due_s:
            return
        for (topic, key), (value, schema) in list(self._wanted.items()):
            if value is not None and self._acknowledged.get((topic, key)) == value:
                continue
            headers = [("schema", schema.encode()), ("content-type", b"application/json")]
            partition = place(key, self._partitions[topic])
            try:
                async with asyncio.timeout(self._within_s):
                    await (await producer.send(topic, value, key=key, partition=partition, headers=headers))
            except FAILURES as error:
                facts = {"topic": topic, "error": f"{type(error).__name__}: {error}"}
                self._due_s = now_s + PAUSE_S
                _log.debug("state not published, retrying", extra=facts)
                return
            if value is not None:
                self._acknowledged[topic, key] = value
            elif self._wanted.get((topic, key)) == (None, schema):
                del self._wanted[topic, key]
                self._acknowledged.pop((topic, key), None)
