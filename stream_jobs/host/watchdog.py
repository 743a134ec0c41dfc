"""A thread that ends the process when an assignment does not get live in time.

Faust swallows the time-out of a seek and goes on unseeked, and an event loop can hang in ways that no coroutine of it
will ever tell; a thread of its own sees both.
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

EXIT_DOUBT = 70
"""Exit code of a process that ends because of a doubt."""


def end_process(why: str) -> None:
    """End at once, saying why; nothing is flushed or committed any more."""
    _log.critical("the process ends: %s", why)
    faulthandler.dump_traceback(all_threads=True)
    os._exit(EXIT_DOUBT)


class Watchdog:
    """``expect`` arms it, ``met`` disarms it; ``end`` is called when ``limit_ms`` pass between. A context manager."""

    def __init__(
        self,
        limit_ms: int,
        *,
        end: Callable[[str], None] = end_process,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit_s = limit_ms / 1_000
        self._end = end
        self._now_s = now_s
        self._deadline_s: float | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="host-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join()

    def expect(self) -> None:
        """From now on something has to get live."""
        if self._deadline_s is None:
            self._deadline_s = self._now_s() + self._limit_s

    def met(self) -> None:
        """It is live (or was taken back)."""
        self._deadline_s = None

    def look(self) -> bool:
        """Call ``end`` if the time is over; True when it was."""
        deadline_s = self._deadline_s
        if deadline_s is None or self._now_s() < deadline_s:
            return False
        self._end(f"an assignment is not live after {self._limit_s:.0f} s")
        return True

    def _watch(self) -> None:
        while not self._closed.wait(min(1.0, self._limit_s / 10)):
            if self.look():
                return
