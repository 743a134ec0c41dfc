"""What the protocol needs from a broker, and nothing more.

Three things implement it: the real broker (``kafka_ports``), and in the tests an in-memory broker with transactions
whose every call may fail, hang or come late. Every call may raise; the owner never catches, because after a failed
call the outcome is unknown and the process ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from schemas.contract.record import Output, Record


class Committed(NamedTuple):
    """A group's offset of one partition, with the text that was committed beside it."""

    offset: int
    metadata: str


class Batch(NamedTuple):
    """What a read brought, and the offset at which the next one begins (beyond markers and aborted records)."""

    records: Sequence[Record]
    position: int


class LogReader(Protocol):
    """Reads one partition forward, committed records only."""

    async def poll(self) -> Batch:
        """What is there at the position; no records when nothing new came within a short wait. May raise
        ``PartitionError`` where the log begins later, or go on from there."""
        ...

    async def close(self) -> None: ...


class TransactionalProducer(Protocol):
    """One producer with a transactional id of its own."""

    async def start(self) -> None:
        """Fence every predecessor with the same id and end its open transaction; returns when that is done."""
        ...

    async def begin(self) -> None: ...

    async def send(self, outputs: Sequence[Output]) -> list[int]:
        """Write within the transaction; returns every output's offset, after the broker has acknowledged them all."""
        ...

    async def add_offset(self, group: str, topic: str, partition: int, committed: Committed) -> None:
        """Let the group's offset become ``committed`` with this transaction."""
        ...

    async def commit(self) -> None: ...

    async def stop(self) -> None:
        """Free what the producer holds; ends no transaction."""
        ...


class Broker(Protocol):
    """A cluster. Offsets count committed records: an end offset is the last stable offset."""

    def producer(self, transactional_id: str) -> TransactionalProducer: ...

    async def committed(self, group: str, topic: str, partition: int) -> Committed | None:
        """The group's offset; None only when the broker answers that there is none (no answer raises)."""
        ...

    async def has_partition(self, topic: str, partition: int) -> bool:
        """Whether the topic exists and has this partition."""
        ...

    async def has_leader(self, topic: str, partition: int) -> bool:
        """Whether a broker leads this partition; no, once the time is over that it takes to elect one. Without one
        nobody can read or write it."""
        ...

    async def topic_id(self, topic: str) -> str | None:
        """What tells the topic from others that had its name before; None where the brokers do not say."""
        ...

    async def begin_offset(self, topic: str, partition: int) -> int: ...

    async def end_offset(self, topic: str, partition: int) -> int: ...

    async def reader(self, topic: str, partition: int, offset: int) -> LogReader: ...

    async def pause(self) -> None:
        """Let a little time pass."""
        ...
