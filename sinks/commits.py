"""Commits of the sink: what was landed, and behind it the markers of ended transactions, which are no records."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError

_log = logging.getLogger(__name__)


async def commit(consumer: Any, landed: dict[TopicPartition, int], offsets: Mapping[TopicPartition, int]) -> None:
    """Commit these offsets, and remember them as landed; a partition that is no longer ours is another's to commit."""
    try:
        await consumer.commit(offsets)
        landed.update(offsets)
    except (CommitFailedError, IllegalStateError) as error:
        _log.warning(
            "Kafka commit rejected after a rebalance; rows are inserted again and deduplicated",
            extra={"why": repr(error)},
        )


async def commit_markers(consumer: Any, landed: dict[TopicPartition, int]) -> None:
    """Commit how far partitions were read where every record that came is landed. What lies between are markers: of
    some transactions that ended at once there are several, which nobody waits for and which count as lag."""
    try:
        read = {partition: await consumer.position(partition) for partition in consumer.assignment() & landed.keys()}
    except IllegalStateError:  # revoked meanwhile
        return
    ahead = {partition: offset for partition, offset in read.items() if offset > landed[partition]}
    if ahead:
        await commit(consumer, landed, ahead)
