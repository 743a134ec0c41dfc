"""Positions that are known, and those that are not to be had."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError

from runtime.positions import known_positions, read_whole

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


@pytest.mark.parametrize(("ends", "read"), [(None, "abcd"), ({PLACES[0]: 1, PLACES[1]: 0}, "ab")])
async def test_partitions_are_read_to_their_ends(ends: dict[TopicPartition, int] | None, read: str) -> None:
    """From their begins; to those that are given, or as they are now."""

    class Consumer:
        """Gives out one record of each partition at a time; of the second one a marker is left out."""

        def __init__(self) -> None:
            self.held: dict[TopicPartition, list[str | None]] = {PLACES[0]: ["a", "c"], PLACES[1]: ["b", None, "d"]}
            self.at = dict[TopicPartition, int]()

        def assign(self, places: list[TopicPartition]) -> None:
            self.at |= dict.fromkeys(places, -1)

        async def seek_to_beginning(self, *places: TopicPartition) -> None:
            self.at |= dict.fromkeys(places, 0)

        async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
            return {place: len(self.held[place]) for place in places}

        async def position(self, place: TopicPartition) -> int:
            return self.at[place]

        async def getmany(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
            found = {place: self.held[place][at : at + 1] for place, at in self.at.items()}
            self.at = {place: at + 1 for place, at in self.at.items()}
            return {place: [SimpleNamespace(value=one) for one in each if one] for place, each in found.items()}

    assert "".join([one.value async for one in read_whole(Consumer(), PLACES[:2], ends)]) == read
