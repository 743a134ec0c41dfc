"""How far a consumer has read, where that is known; and partitions read to their ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError

WITHIN_S = 0.2
"""Positions that are not known are waited for so long, all of them together."""
POLL_MS = 500


async def known_positions(
    consumer: Any, partitions: Iterable[TopicPartition], within_s: float = WITHIN_S
) -> dict[TopicPartition, int]:
    """The offset of each one's next record. Left out is a partition that was revoked, and one whose position is still
    looked up after ``within_s``: aiokafka waits for ever for a leader. It holds up no other."""
    known: dict[TopicPartition, int] = {}
    until_s = asyncio.get_running_loop().time() + within_s
    for partition in partitions:
        with contextlib.suppress(IllegalStateError, TimeoutError):
            async with asyncio.timeout_at(until_s):
                known[partition] = await consumer.position(partition)
    return known


async def read_whole(
    consumer: Any, partitions: Sequence[TopicPartition], ends: Mapping[TopicPartition, int] | None = None
) -> AsyncIterator[Any]:
    """Every record of these partitions, which the consumer is assigned, from their begins to their ``ends``; None:
    where they end now. Some behind those may come along. It waits for each end as long as the caller lets it, whatever
    a transaction hides before it."""
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    if ends is None:
        ends = await consumer.end_offsets(partitions)
    while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
        for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
            for record in records:
                yield record
