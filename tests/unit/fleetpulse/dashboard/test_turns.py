"""Turns at ClickHouse: how many at once, who waits, who is refused."""

from __future__ import annotations

import asyncio

import pytest

from fleetpulse.dashboard.turns import Turns
from schemas.errors import UnavailableError


async def test_so_many_have_a_turn_more_wait_and_one_beyond_is_refused() -> None:
    """Whoever waits has it once another has ended, also by an error; a turn that is given back can be taken again."""
    turns, ends = Turns(1, 1, "too many"), [asyncio.Event(), asyncio.Event()]
    began: list[int] = []

    async def use(number: int) -> None:
        async with turns.one():
            began.append(number)
            await ends[number].wait()
            raise ValueError(number)

    both = [asyncio.ensure_future(use(number)) for number in range(2)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert began == [0]
    with pytest.raises(UnavailableError, match="too many"):
        async with turns.one():
            pass

    ends[0].set()
    ends[1].set()
    await asyncio.wait(both)
    assert began == [0, 1]
    async with turns.one():
        pass
