"""Commits of the sink: what was landed, and behind it the markers of ended transactions, which are no records; and what
a log no longer has of what comes next, also where it was recreated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError

from runtime.counters import COUNTERS, Counters
from runtime.positions import known_positions
from schemas.errors import ContractError

_log = logging.getLogger(__name__)
_GROUP_WITHIN_S = 20.0
"""So long the group's coordinator has to answer. aiokafka asks for ever; ``TimeoutError`` lets the group reconnect."""
_MARKERS_MAX = 1_000
"""So many between two records of a partition that is read on are no reason to ask the brokers where its log begins: as
many jobs may have committed there at once."""


async def commit(
    consumer: Any,
    landed: dict[TopicPartition, int],
    offsets: Mapping[TopicPartition, int],
    same_assignment: Callable[[], bool] = lambda: True,
) -> None:
    """Commit these offsets, and remember them as landed; a partition that is no longer ours is another's to commit.

    Nothing is remembered of what was read under an assignment before: the consumer may have taken its position from
    what the group had committed until then, and is right to come back to it."""
    try:
        async with asyncio.timeout(_GROUP_WITHIN_S):
            await consumer.commit(offsets)
        if same_assignment():
            landed.update(offsets)
    except (CommitFailedError, IllegalStateError) as error:
        _log.warning(
            "Kafka commit rejected after a rebalance; rows are inserted again and deduplicated",
            extra={"why": repr(error)},
        )


async def _committed(consumer: Any, partition: TopicPartition) -> int | None:
    """The group's committed offset."""
    async with asyncio.timeout(_GROUP_WITHIN_S):
        offset: int | None = await consumer.committed(partition)
    return offset


async def demand_log_ids(
    consumer: Any,
    known: Mapping[str, str],
    read: Callable[[], Awaitable[Mapping[str, str] | None]],
    partitions: Iterable[TopicPartition],
) -> bool:
    """Of partitions that bring their first records: where the group has no committed offset, the topic may have been
    recreated since this process read the log ids. Then they are read again; another one is a ``ContractError``, since
    under the old one its rows would replace those of the old log. False where ``read`` has None, which leaves that
    unknown."""
    new = {one.topic for one in partitions if await _committed(consumer, one) is None}
    ids = await read() if new else {}
    if ids is None:
        return False
    for topic in sorted(new):
        if ids.get(topic) != known.get(topic):
            raise ContractError(f"topic {topic} was recreated since the sink read its log id; restart the sink")
    return True


async def check_log(consumer: Any, landed: dict[TopicPartition, int], partition: TopicPartition, offset: int) -> None:
    """A log that begins again was recreated (``ContractError``): under the old log id its rows would replace those of
    the old log, and its group has no committed offset, or one beyond its end. After a rebalance the group may have one
    before what this process committed, by another member: its rows are inserted again and deduplicated."""
    before = landed.get(partition, 0)
    if offset >= before:
        return
    committed = await _committed(consumer, partition)
    if committed is None or committed > offset:
        raise ContractError(
            f"{partition.topic}[{partition.partition}] goes back from offset {before} to {offset}: was the topic"
            " recreated? Run `fleetpulse migrate`, then restart the sink"
        )
    _log.info(
        "partition resumes from an earlier committed offset; rows are inserted again and deduplicated",
        extra={"partition": f"{partition.topic}[{partition.partition}]", "offset": offset, "before": before},
    )
    landed[partition] = offset


async def commit_markers(consumer: Any, landed: dict[TopicPartition, int]) -> None:
    """Commit how far partitions were read where every record that came is landed. What lies between are markers: of
    some transactions that ended at once there are several, which nobody waits for and which count as lag. Of a
    partition without leader the position may be unknown; others are not held up by it."""
    read = await known_positions(consumer, consumer.assignment() & landed.keys())
    ahead = {partition: offset for partition, offset in read.items() if offset > landed[partition]}
    if ahead:
        await commit(consumer, landed, ahead)


async def count_missing(
    consumer: Any,
    read: Mapping[TopicPartition, int],
    partition: TopicPartition,
    offset: int,
    counters: Counters = COUNTERS,
) -> None:
    """Count records that were deleted between what the group read last and ``offset``, the next that came. ``read`` is
    how far this process has read each partition; of a new one, what the group committed counts."""
    if offset <= (read[partition] + _MARKERS_MAX if partition in read else 0):
        return
    committed = await _committed(consumer, partition)
    if committed is None and partition not in read:
        return
    begins = (await consumer.beginning_offsets([partition]))[partition]
    missing = min(begins, offset) - max(committed or 0, read.get(partition, 0))
    if missing > 0:
        counters.add("sink_missing_records", missing, topic=partition.topic, partition=partition.partition)
        _log.error(
            "records were deleted before they were read; the tables lack them",
            extra={"partition": f"{partition.topic}[{partition.partition}]", "records": missing},
        )
