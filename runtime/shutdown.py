"""Graceful shutdown: the first SIGTERM or SIGINT sets an event, the second ends the process at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable

_log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def on_stop_signal(loop: asyncio.AbstractEventLoop, *, exit_now: Callable[[int], object] = os._exit) -> asyncio.Event:
    """An event that SIGTERM and SIGINT set. A second signal calls ``exit_now(128 + signal)``: that
    ends a drain that hangs. Call from the main thread."""
    stopping = asyncio.Event()

    def received(number: signal.Signals) -> None:
        if stopping.is_set():
            exit_now(128 + number)
            return
        _log.info("stopping", extra={"signal": number.name})
        stopping.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, received, number)
    return stopping
