"""Requests to a server, repeated for as long as it is unavailable."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from runtime.backoff import Backoff
from runtime.health import Readiness
from runtime.runbook import cause_of, named
from schemas.errors import ConfigError, ContractError, ReplicaBehindError, UnavailableError

_log = logging.getLogger(__name__)
T = TypeVar("T")
BACKOFF = Backoff(0.4, 5.0)
BEHIND_S = 60.0
"""So long a server may be behind others; what it lacks for longer it will not get by itself."""


async def retried(
    what: str, work: Callable[[], Awaitable[T]], stop: asyncio.Event, readiness: Readiness, *, worked: bool = False
) -> T | None:
    """The result of ``work``, retried for ever while ``what`` is unavailable, for ``BEHIND_S`` while behind; None
    when ``stop`` came first. ``worked``: it did before, with these settings; one that is rejected now may be
    accepted again. Else it raises ``ConfigError``."""
    behind_s: float | None = None
    failures = 0
    while True:
        try:
            done = await work()
        except (UnavailableError, ConfigError) as error:
            if isinstance(error, ConfigError) and not worked:
                raise
            facts: dict[str, Any] = {"server": what, "error": str(error), "cause": cause_of(error)}
            if stop.is_set():
                _log.warning("stopped before the server answered; offsets are not committed", extra=facts)
                return None
            behind_s = behind_since_s(error, behind_s)
            failures += 1
            pause_s = BACKOFF.pause_s(failures, random.random())
            readiness.hold(what, named(error), cause_of(error))
            facts |= {"attempt": failures, "retry_in_s": round(pause_s, 1)}
            _log.warning("server unavailable, retrying; offsets are not committed", extra=facts)
            if await sleep(pause_s, stop):
                return None
            continue
        readiness.release(what)
        return done


def behind_since_s(error: Exception, since_s: float | None) -> float | None:
    """Since when a server is behind others, by the loop's clock: ``since_s``, or now; None where ``error`` is no such.
    Raises ``ContractError`` once that is ``BEHIND_S`` ago."""
    if not isinstance(error, ReplicaBehindError):
        return None
    now_s = asyncio.get_running_loop().time()
    if since_s is not None and now_s - since_s >= BEHIND_S:
        raise ContractError(str(error)) from error
    return now_s if since_s is None else since_s


async def sleep(seconds: float, stop: asyncio.Event) -> bool:
    """Sleep, or less when ``stop`` comes; True when it came."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
        return True
    return False
