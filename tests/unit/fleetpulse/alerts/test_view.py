"""The topic of alerts is read to its end, however slow the broker is."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from fleetpulse.alerts.view import _to_end

AT = TopicPartition("alerts", 0)


class Broker:
    """Gives out batches of offsets, an empty one where it is slow; markers behind the last record never."""

    def __init__(self, end: int, *batches: list[int]) -> None:
        self._end, self._batches, self._position = end, deque(batches), 0
        self.fetches = 0

    async def end_offsets(self, _: Any) -> dict[TopicPartition, int]:
        return {AT: self._end}

    async def position(self, _: Any) -> int:
        return self._position

    async def getmany(self, _: Any, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        self.fetches += 1
        offsets = self._batches.popleft() if self._batches else []
        if not offsets:
            return {}
        self._position = offsets[-1] + 1
        return {AT: [SimpleNamespace(key=b"k", value=bytes([offset])) for offset in offsets]}


@pytest.mark.parametrize(
    ("broker", "fetches"),
    [
        pytest.param(Broker(3, [0, 1, 2]), 1, id="no marker"),
        pytest.param(Broker(4, [0, 1, 2]), 2, id="a marker behind the last record"),
        pytest.param(Broker(4, [], [], [0, 1, 2]), 4, id="slow at first"),
        pytest.param(Broker(4, [0], [], [1, 2]), 4, id="slow in between"),
        pytest.param(Broker(5, [0, 1, 2]), 4, id="two markers behind the last record"),
    ],
)
async def test_every_record_is_read(broker: Broker, fetches: int) -> None:
    """A quiet moment is no end, unless nothing but a marker can be left."""
    found = [value async for _, value in _to_end(broker, AT)]

    assert found == [b"\0", b"\1", b"\2"]
    assert broker.fetches == fetches
