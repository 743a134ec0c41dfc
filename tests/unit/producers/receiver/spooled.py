"""A real publisher on a spool of its own, without Kafka; and counters that can be waited for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from producers.publish.publisher import Publisher
from producers.spool.spool import Spool, SpoolLimits
from runtime.config import KafkaConfig
from runtime.counters import Counters
from schemas.codec import wire
from schemas.codec.build import rows_of
from schemas.events.event_types import LLM_REQUESTS
from schemas.fields import Event

PATIENCE_S = 20.0


class RecordingCounters:
    """Counters and gauges by name and label values; ``reached`` waits for one."""

    def __init__(self) -> None:
        self.totals: Counter[tuple[object, ...]] = Counter()
        self.levels: dict[str, float] = {}
        self._changed = asyncio.Event()

    def add(self, name: str, by: float = 1, **labels: object) -> None:
        if by:
            self.totals[name, *labels.values()] += int(by)
            self._changed.set()

    def set(self, name: str, value: float, **labels: object) -> None:
        self.levels[name] = value

    async def reached(self, enough: Callable[[Counter[tuple[object, ...]]], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not enough(self.totals):
                self._changed.clear()
                await self._changed.wait()


def publisher(folder: Path, bytes_max: int = 16 * 1024 * 1024) -> Publisher:
    return Publisher(Spool.open(folder, SpoolLimits(bytes_max=bytes_max)), KafkaConfig(), host="h", counters=Counters())


def rows(publishes: Publisher) -> list[dict[str, Any]]:
    """The rows of all spooled batches that are well formed, in order."""
    publishes.spool.sync()
    found: list[dict[str, Any]] = []
    while taken := publishes.spool.take():
        for record in taken:
            block = wire.parse(record.content_type, record.value, LLM_REQUESTS.fields).block
            found += rows_of(LLM_REQUESTS.fields, block)
        publishes.spool.acknowledge(taken)
    return found


def rows_by_topic(publishes: Publisher, *events: Event) -> dict[str, list[dict[str, Any]]]:
    """The same of these events, by topic; others are left out."""
    publishes.spool.sync()
    found: dict[str, list[dict[str, Any]]] = {event.topic: [] for event in events}
    fields = {event.topic: event.fields for event in events}
    while taken := publishes.spool.take():
        for record in taken:
            if record.topic in fields:
                block = wire.parse(record.content_type, record.value, fields[record.topic]).block
                found[record.topic] += rows_of(fields[record.topic], block)
        publishes.spool.acknowledge(taken)
    return found


def shed(publishes: Publisher) -> int:
    """Requests declared as shed."""
    return sum(tally.shed_events for (_, topic), tally in publishes.spool.books.items() if topic == LLM_REQUESTS.topic)
