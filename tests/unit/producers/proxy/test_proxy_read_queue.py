"""What was forwarded is read in its order, so much in a turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

from producers.proxy.exchange import Exchange
from producers.proxy.read_queue import LOOK_BYTES_MAX, LOOK_MOST, ReadQueue

EXCHANGE = cast("Exchange", None)


class Reading:
    """Reads names, each in as many steps of half a turn as its number says."""

    def __init__(self, after_s: float = 3_600.0) -> None:
        self.steps: list[str] = []
        self.queue = ReadQueue(self._read, after_s)

    def _read(self, _exchange: Exchange, number: int, name: Any) -> Iterator[int]:
        for _ in range(number):
            self.steps.append(name)
            yield LOOK_BYTES_MAX // 2


async def test_a_turn_reads_so_much_and_the_next_goes_on() -> None:
    """In order; it is behind until all is read."""
    reading = Reading()
    reading.queue.put(EXCHANGE, 3, "a")
    reading.queue.put(EXCHANGE, 1, "b")

    first = reading.queue.look(), reading.queue.behind, list(reading.steps)
    reading.queue.put(EXCHANGE, 1, "c")
    for _ in range(4):
        await asyncio.sleep(0)

    assert first == (False, True, ["a", "a"])
    assert reading.steps == ["a", "a", "a", "b", "c"]
    assert (reading.queue.behind, reading.queue.look()) == (False, True)


async def test_some_pieces_wait_for_more_and_many_do_not() -> None:
    """The last of many is read in the next turn."""
    reading = Reading()
    for number in range(LOOK_MOST - 1):
        reading.queue.put(EXCHANGE, 0, str(number))
    reading.queue.put(EXCHANGE, 1, "last")
    before = list(reading.steps)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert (before, reading.steps) == ([], ["last"])


async def test_what_is_put_is_read_soon() -> None:
    """Without anybody asking."""
    reading = Reading(after_s=0.0)
    reading.queue.put(EXCHANGE, 1, "a")
    for _ in range(100):
        if not reading.steps:
            await asyncio.sleep(0.01)

    assert reading.steps == ["a"]
