"""All threads of the agent on one processor: the one where the scheduler put the event loop.

A second of the agent is a few threads that wake one after another, each for less than a millisecond. On processors of
their own each finds caches that know nothing of it; on one they find the interpreter there. No processor is chosen
here: the loop's thread stays free, so when something else keeps its processor busy the scheduler moves it, and the
others follow within a second. Threads of Python do not work at the same time anyway.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path

GATHER_EVERY = 60
"""Looks after which threads are gathered again though nothing seems to have changed: those of C are not counted."""
TASKS = Path("/proc/self/task")


class OneProcessor:
    """``look`` belongs to the thread that the others follow. It does nothing where the system has no affinity."""

    def __init__(self) -> None:
        self._processor_now = _processor_now()
        self._gathered: tuple[int, int] | None = None
        self._looks = 0

    def look(self) -> None:
        """Call it now and then: threads go where the calling thread is, if it moved or there are new ones."""
        if self._processor_now is None:
            return
        self._looks += 1
        now = self._processor_now(), threading.active_count()
        if now != self._gathered or self._looks % GATHER_EVERY == 0:
            self._gathered = now
            _gather({now[0]})

    def leave(self) -> None:
        """Let the others go where the calling thread may."""
        if self._gathered is not None:
            self._gathered = None
            _gather(os.sched_getaffinity(0))


def _gather(processors: Collection[int]) -> None:
    own = threading.get_native_id()
    for thread in (int(task.name) for task in TASKS.iterdir()):
        if thread != own:
            with contextlib.suppress(OSError):  # it has ended, or the processor is no longer ours
                os.sched_setaffinity(thread, processors)


def _processor_now() -> Callable[[], int] | None:
    """Tells the processor of the calling thread; None where the system does not."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    function: Callable[[], int] | None = getattr(ctypes.CDLL(None), "sched_getcpu", None)
    return function
