"""A Kafka that is a list: records with offsets and append times, in memory, and a step that reads and writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.record import Headers, Output, Record
from stream_jobs.step import Commit, Step


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


class Stage:
    """A step with its states, driven as its host would: fold, then commit, with nothing in between."""

    def __init__(self, step: Step[Any, Any]) -> None:
        self._step = step
        self._states: dict[tuple[str, int], Any] = {}
        self._read: dict[tuple[str, int], int] = {}
        self._written: dict[tuple[str, int], int] = {}

    def take(self, topic: str, partition: int, records: Sequence[Record], now_ms: int) -> list[Output]:
        """What one commit over these records writes. Without records the source counts as idle."""
        at = (topic, partition)
        if at not in self._states:
            self._states[at] = self._step.new(topic, partition)
        changes = self._step.changes()
        self._step.fold(self._states[at], records, changes)
        begin = self._read.get(at, 0)
        end = self._read[at] = records[-1].offset + 1 if records else begin
        commit = Commit(topic, partition, begin, end, self._written.get(at, 0), now_ms, not records)
        outputs = self._step.rows(self._states[at], changes, commit)
        self._written[at] = commit.number + len(outputs)
        return outputs
