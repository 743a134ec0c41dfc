"""Positions that are known, and those that are not to be had."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError

from runtime.positions import known_positions

PLACES = [TopicPartition("alerts", number) for number in range(3)]


@pytest.mark.parametrize("lost", [None, IllegalStateError("not assigned")], ids=["no leader", "revoked"])
async def test_a_position_that_is_not_to_be_had_is_left_out(lost: Exception | None) -> None:
    """Those after it are there, also once the time is over."""

    class Consumer:
        async def position(self, partition: TopicPartition) -> int:
            if partition.partition == 0:
                if lost is not None:
                    raise lost
                await asyncio.Event().wait()
            return {1: 10, 2: 20}[partition.partition]

    assert await known_positions(Consumer(), PLACES, within_s=0.01) == {PLACES[1]: 10, PLACES[2]: 20}
