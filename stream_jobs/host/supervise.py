"""Start a process again whenever it ends, for ever, until SIGTERM.

Any doubt ends a job's process, so something has to start it again: systemd, Kubernetes, or this.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
import time
from collections.abc import Sequence

_log = logging.getLogger(__name__)

RESTART_AFTER_S = 2.0
"""A crash loop that is faster starves a broker that is starting."""
STOP_WITHIN_S = 10.0


def supervise(command: Sequence[str], *, restart_after_s: float = RESTART_AFTER_S) -> int:
    """Run ``command`` for ever; on SIGTERM or SIGINT pass SIGTERM on and return its exit code. An end without a signal
    is taken for a crash, whatever its code. Call from the main thread."""
    stopping = threading.Event()
    children: list[subprocess.Popen[bytes]] = []

    def received(number: int, _frame: object) -> None:
        stopping.set()
        for child in children:
            child.send_signal(signal.SIGTERM)

    before = {number: signal.signal(number, received) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        while True:
            began_s = time.monotonic()
            child = subprocess.Popen(list(command), stdin=subprocess.DEVNULL)
            children[:] = [child]
            if stopping.is_set():  # the signal came before the child was known
                child.send_signal(signal.SIGTERM)
            code = _wait(child, stopping)
            if stopping.is_set():
                return code
            lived_s = round(time.monotonic() - began_s, 1)
            _log.warning("a process ended and is started again", extra={"code": code, "lived_s": lived_s})
            stopping.wait(restart_after_s)
            if stopping.is_set():
                return code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(child: subprocess.Popen[bytes], stopping: threading.Event) -> int:
    while not stopping.is_set():
        try:
            return child.wait(0.5)
        except subprocess.TimeoutExpired:
            continue
    try:
        return child.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()
