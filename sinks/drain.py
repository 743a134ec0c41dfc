"""What a sink that is stopping still waits for: the statements that ClickHouse has, for some time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from schemas.errors import UnavailableError

T = TypeVar("T")


@dataclass(slots=True)
class Drain:
    """Runs statements in threads. One is waited for as long as it takes, and once ``stop`` came for ``seconds`` more,
    which all that follow share. ``abandoned``: one was not waited for to its end, since time was over or the waiting
    was cancelled; its thread goes on."""

    stop: asyncio.Event
    seconds: float
    abandoned: bool = False
    _ends_s: float | None = None

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises; ``UnavailableError`` when the time is over, whatever it did by then."""
        working = asyncio.create_task(asyncio.to_thread(work))
        try:
            await _done_or(self.stop, working)
            if not working.done():
                await asyncio.wait({working}, timeout=self._left_s())
        finally:
            if not working.done():
                self.abandoned = True
                working.cancel()
        if working.done():
            return working.result()
        raise UnavailableError(f"ClickHouse has not answered {self.seconds:g} s after the sink was told to stop")

    def _left_s(self) -> float:
        now_s = asyncio.get_running_loop().time()
        if self._ends_s is None:
            self._ends_s = now_s + self.seconds
        return max(self._ends_s - now_s, 0.0)


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work, or less when ``stop`` comes, which cancels it; True when it was done. Raises what it does."""
    working = asyncio.create_task(work)
    try:
        await _done_or(stop, working)
    finally:
        working.cancel()  # nothing where it is done
        await asyncio.wait({working})
    if working.cancelled():
        return False
    working.result()
    return True


async def _done_or(stop: asyncio.Event, working: asyncio.Task[Any]) -> None:
    """Wait for the task, whatever it does, or less when ``stop`` comes."""
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
