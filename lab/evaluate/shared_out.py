"""Work shared out among processes that end with their parent: on Ctrl-C nothing that waits is begun."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context
from typing import TypeVar

Task = TypeVar("Task")
Found = TypeVar("Found")


def shared_out(
    work: Callable[[Task], Found], tasks: Sequence[Task], processes: int, on_progress: Callable[[int, int], None]
) -> list[Found]:
    """What ``work`` makes of each, in their order; ``on_progress`` gets how many of how many are done.

    Whatever ends it early, an error or an interrupt: processes that are at work are terminated, what was queued is
    never begun, and it does not wait.
    """
    before = set(active_children())
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_leave_interrupts)
    try:
        jobs = [pool.submit(work, one) for one in tasks]
        for done, job in enumerate(as_completed(jobs), 1):
            job.result()
            on_progress(done, len(jobs))
        return [job.result() for job in jobs]
    except BaseException:
        for child in set(active_children()) - before:
            child.terminate()
        raise
    finally:  # the pool alone joins its processes: of two that wait for one, the second is told of none too early
        pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """A terminal interrupts children too: that is for the parent to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
