"""Waiting on the event loop: for an event with a timeout; for blocking work to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def comes(event: asyncio.Event, within_s: float) -> bool:
    """Whether it is set by then."""
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def finish(blocking: Callable[[], object]) -> None:
    """Run it in a thread; when cancelled, wait for its end first: its files may not be closed under it."""
    running = asyncio.ensure_future(asyncio.to_thread(blocking))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
