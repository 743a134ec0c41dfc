"""What a process does about itself: stopping on a signal, garbage collection, memory given back."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

_log = logging.getLogger(__name__)
T = TypeVar("T")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
TASKS_END_WITHIN_S = 2.0
_left = set[asyncio.Task[Any]]()
"""Tasks that no longer run, held so that their loop is not taken down before the process ends."""


def on_stop_signal(loop: asyncio.AbstractEventLoop, *, exit_now: Callable[[int], object] = os._exit) -> asyncio.Event:
    """An event that SIGTERM and SIGINT set. Ctrl-C after that calls ``exit_now(128 + signal)``: that ends a drain that
    hangs. Another SIGTERM changes nothing: supervisors send it twice, and kill when their time is over. Call from the
    main thread."""
    stopping = asyncio.Event()

    def received(number: signal.Signals) -> None:
        if stopping.is_set():
            if number == signal.SIGINT:
                exit_now(128 + number)
            return
        _log.info("stopping", extra={"signal": number.name})
        stopping.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, received, number)
    return stopping


def run_to_the_end(
    main: Coroutine[Any, Any, T],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    *,
    within_s: float = TASKS_END_WITHIN_S,
) -> T:
    """The same as ``asyncio.run``, which waits for ever for a task that does not end though it is cancelled: here such
    a task is logged and left, with its loop, so that the process ends."""
    runner = asyncio.Runner(loop_factory=loop_factory)
    try:
        return runner.run(main)
    finally:
        if left := runner.run(end_tasks(within_s)):
            _left.update(left)
            facts = {"tasks": [*map(repr, left)]}
            _log.error("cancelled tasks do not end, please report it; ending without them", extra=facts)
        else:
            runner.close()


async def end_tasks(within_s: float = TASKS_END_WITHIN_S) -> set[asyncio.Task[Any]]:
    """Cancel every other task of this loop, and what these begin meanwhile, and wait for all, so long at most; those
    that are left. Of a loop that is closed before they are logged as destroyed: ``asyncio.run`` itself ends those alone
    that there are."""
    loop, cancelled = asyncio.get_running_loop(), set[asyncio.Task[Any]]()
    until_s = loop.time() + within_s
    while (tasks := asyncio.all_tasks() - {asyncio.current_task()}) and (left_s := until_s - loop.time()) > 0:
        for task in tasks - cancelled:
            task.cancel()
        cancelled |= tasks
        done, _ = await asyncio.wait(tasks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.debug("a task did not end in order", exc_info=error)
    return tasks


def leave(code: int) -> NoReturn:
    """Exit; at once where a thread goes on that is none of Python's daemons, which Python would wait for, for ever."""
    if all(thread.daemon or thread is threading.current_thread() for thread in threading.enumerate()):
        sys.exit(code)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # its disk may be full
            stream.flush()
    os._exit(code)


def raise_descriptors() -> int:
    """Let this process open as many files as it may be allowed at all (the hard limit); how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # where the kernel's own bound is lower
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


RARELY = (50_000, 20, 20)
"""Thresholds of a process that works by batches: a fetch makes some hundred thousand small objects and lets all of them
go, none in a cycle; searching them at Python's default pace costs a tenth of its work."""


def settle(thresholds: tuple[int, int, int] | None = None) -> None:
    """What was made by now lives as long as the process: no later search walks over it. ``thresholds`` as those of
    ``gc.set_threshold``; None leaves them. The process is searched once, now."""
    gc.collect()
    gc.freeze()
    if thresholds is not None:
        gc.set_threshold(*thresholds)


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h of glibc
_KEPT_BYTES = 1 << 30
_MMAP_BYTES_OLD = 1 << 25
"""All that glibc before 2.35 takes for this threshold. Refused, it would stay at 128 KiB as soon as another one is set,
which is worse than setting none."""


def keep_freed() -> bool:
    """From now on freed memory (up to 1 GiB) stays with this process, for all its threads alike: it stays as large as
    it once had to be. Of pieces above 32 MiB only where glibc is 2.35 or newer. False where the C library cannot (any
    but glibc)."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        wanted = (
            (_ARENA_MAX, (1,)),
            (_MMAP_THRESHOLD, (_KEPT_BYTES, _MMAP_BYTES_OLD)),
            (_TRIM_THRESHOLD, (_KEPT_BYTES,)),
        )
        taken = [any(mallopt(name, value) == 1 for value in values) for name, values in wanted]
        return all(taken)
    return False
