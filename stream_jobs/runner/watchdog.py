"""A thread that ends the process when an assignment is not live in time, and makes no progress towards it.

Faust ignores the time-out of a seek and continues without it, and no coroutine notices an event loop that hangs; a
thread of its own notices both.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

_log = logging.getLogger(__name__)

EXIT_FATAL = 70
"""Exit code after a fatal error."""


def end_process(why: str) -> None:
    """End at once; nothing is flushed or committed any more."""
    _log.critical("exiting: %s; restart resumes from the last committed offset", why)
    faulthandler.dump_traceback(all_threads=True)
    os._exit(EXIT_FATAL)


class Watchdog:
    """``expect`` arms it, ``met`` disarms it; ``end`` is called when ``limit_ms`` pass between. A context manager."""

    def __init__(
        self, limit_ms: int, *, end: Callable[[str], None] = end_process, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit_s = limit_ms / 1_000
        self._end = end
        self._now_s = now_s
        self._deadline_s: float | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="runner-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join()

    def expect(self) -> None:
        """An assignment began, and must be live in time."""
        if self._deadline_s is None:
            self._deadline_s = self._now_s() + self._limit_s

    def progressed(self) -> None:
        """It is not live yet, but comes nearer: restart the timeout."""
        if self._deadline_s is not None:
            self._deadline_s = self._now_s() + self._limit_s

    def met(self) -> None:
        """It is live, or was revoked."""
        self._deadline_s = None

    def look(self) -> bool:
        """Call ``end`` and return True if the time is over."""
        deadline_s = self._deadline_s
        if deadline_s is None or self._now_s() < deadline_s:
            return False
        self._end(f"assignment not live after {self._limit_s:.0f} s")
        return True

    def _watch(self) -> None:
        while not self._closed.wait(min(1.0, self._limit_s / 10)):
            if self.look():
                return
