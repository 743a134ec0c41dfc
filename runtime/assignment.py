"""When the partitions of a consumer were assigned anew: what it read before may come to it again."""

from __future__ import annotations

from collections.abc import Iterable

from aiokafka import ConsumerRebalanceListener, TopicPartition


class Assignment(ConsumerRebalanceListener):
    """Counts the changes of an assignment, the first one included. One has begun before any position is read for it."""

    def __init__(self) -> None:
        self.changes = 0

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.changes += 1

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.changes += 1
