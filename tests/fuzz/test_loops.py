"""What a harness begins and does not await fails the harness: a transport calls nobody back who could."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.fuzz import loops


def fail() -> None:
    raise KeyError("lost")


async def fail_later() -> None:
    await asyncio.sleep(0)
    fail()


BEGUN: dict[str, Callable[[asyncio.AbstractEventLoop], object]] = {
    "call_soon": lambda loop: loop.call_soon(fail),
    "call_later": lambda loop: loop.call_later(0, fail),
    "task": lambda loop: loop.create_task(fail_later()),
}


@pytest.mark.parametrize("begin", BEGUN.values(), ids=BEGUN)
def test_an_error_that_nobody_awaits_is_raised(begin: Callable[[asyncio.AbstractEventLoop], object]) -> None:
    """Once; the next run is another."""

    async def harness() -> object:
        return begin(asyncio.get_running_loop())

    async def sound() -> int:
        return 3

    with pytest.raises(KeyError, match="lost"):
        loops.run(harness)
    assert loops.run(sound) == 3
