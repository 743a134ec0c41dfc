"""How far a consumer has read, where that is known."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError

WITHIN_S = 0.2
"""Positions that are not known are waited for so long, all of them together."""


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
