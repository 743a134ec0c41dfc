"""An event loop on which no error is lost: what a callback, a timer or a task raises, its harness raises."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
TURNS = 8
"""Of the loop after the harness is done, for what it began."""

_LOOP = asyncio.new_event_loop()
_LOST: list[BaseException] = []


def run(harness: Callable[[], Awaitable[T]]) -> T:
    """What it returns. Raises the first error, that of a timer of an earlier run as well."""
    try:
        found = _LOOP.run_until_complete(_with_what_it_began(harness))
    finally:
        lost = _LOST.copy()
        _LOST.clear()
    if lost:
        raise lost[0]
    return found


async def _with_what_it_began(harness: Callable[[], Awaitable[T]]) -> T:
    found = await harness()
    await turns()
    return found


async def turns() -> None:
    """Let what is ready run."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def _task(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **how: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **how)
    task.add_done_callback(_note)
    return task


def _note(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOST.append(error)


def _lose(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    _LOST.append(context.get("exception") or RuntimeError(context["message"]))


_LOOP.set_task_factory(_task)
_LOOP.set_exception_handler(_lose)
