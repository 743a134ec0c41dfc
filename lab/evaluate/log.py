"""A Kafka that is a list: records with offsets and append times, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.contract.record import Headers, Output, Record


class Log:
    """Counts offsets by topic and partition; keeps no record."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int], int] = {}

    def append(self, topic: str, partition: int, value: bytes | None, headers: Headers, now_ms: int) -> Record:
        """The record as a broker would hand it out that appended it at ``now_ms``."""
        offset = self._next.get((topic, partition), 0)
        self._next[topic, partition] = offset + 1
        return Record(topic, partition, offset, now_ms, None, value, headers)

    def append_all(self, outputs: Sequence[Output], now_ms: int) -> list[Record]:
        """What a step wrote, as records in order."""
        return [self.append(out.topic, out.partition, out.value, out.headers, now_ms) for out in outputs]
