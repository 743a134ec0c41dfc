"""A Kafka record as every pure part of fleetpulse sees it."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes], ...]


class Record(NamedTuple):
    """One message read from a topic.

    ``timestamp_ms`` is the broker's LogAppendTime on source topics (milliseconds since the epoch, UTC).
    ``value`` is ``None`` for a tombstone. ``headers`` keep the order in which they were written.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def where(self) -> str:
        """Where it stands, for people."""
        return f"{self.topic}[{self.partition}] offset {self.offset}"


class Output(NamedTuple):
    """One message to be written, with the partition decided by the writer (never by a client's partitioner).

    ``value`` is ``None`` for a tombstone."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
