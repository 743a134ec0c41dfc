"""What the bench runs beside the proxy: a relay that looks at nothing, and the proxy without Kafka.

Covers lab.bench.proxy_between.
"""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from lab.bench.proxy_between import Counting, Side
from producers.batch import Batch


class Wire(asyncio.Transport):
    """Remembers what was written, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = 0

    def write(self, data: object) -> None:
        self.written.append(bytes(cast(bytes, data)))

    def close(self) -> None:
        self.closed += 1


def pair() -> tuple[Side, Side]:
    near, far = Side(), Side()
    near.other, far.other = far, near
    return near, far


def test_what_comes_before_the_other_side_stands_is_sent_first() -> None:
    """In order, once, and what comes later goes through at once; both ways."""
    (near, far), (one, two) = pair(), (Wire(), Wire())
    near.connection_made(one)

    near.data_received(b"a")
    near.data_received(b"b")
    far.connection_made(two)
    near.data_received(b"c")
    far.data_received(b"d")

    assert (two.written, one.written) == ([b"a", b"b", b"c"], [b"d"])


def test_both_sides_go_together() -> None:
    """Also when the other one never stood."""
    (near, far), two = pair(), Wire()
    far.connection_made(two)

    near.connection_lost(None)
    far.connection_lost(None)

    assert two.closed == 1


async def test_the_proxy_without_kafka_counts_events_and_drops_none() -> None:
    """An event that does not fit ends the bench."""
    counting = Counting()
    batch = Batch("llm.requests", "llm.requests/1", "x", b"k", 3, b"value")

    assert [counting.put_at_once(batch) for _ in range(2)] == [True, True]
    assert counting.events == 6
    with pytest.raises(AssertionError, match=r"2 events of llm\.requests did not fit"):
        counting.shed("llm.requests", 2)
