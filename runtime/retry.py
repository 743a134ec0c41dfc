"""When to try again: named policies over stamina (exponential back-off with jitter).

A policy is chosen by what is at stake. Where giving up would lose data there is no limit of attempts; elsewhere the
caller's own limit ends it. Errors of ours that say ``retriable = False`` are never tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import stamina

from schemas.errors import FleetpulseError

Decide = Callable[[Exception], bool]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """``attempts_max`` and ``total_s`` of None: for ever. The n-th pause is ``wait_initial_s * 2^n`` up to
    ``wait_max_s``, plus up to ``jitter_s`` drawn at random, so that a fleet does not come back all at once."""

    name: str
    attempts_max: int | None
    total_s: float | None
    wait_initial_s: float
    wait_max_s: float
    jitter_s: float


NEVER_LOSE = RetryPolicy("never_lose", None, None, 0.2, 15.0, 1.0)
"""A sink or spool holding data that exists nowhere else."""
STARTUP = RetryPolicy("startup", None, 60.0, 0.1, 2.0, 0.2)
"""A process waiting for a server that is starting beside it."""
REQUEST = RetryPolicy("request", 5, 15.0, 0.1, 3.0, 0.3)
"""A person or a page waits for the answer."""
DOWNLOAD = RetryPolicy("download", 4, 300.0, 1.0, 10.0, 1.0)
"""Artifacts fetched once."""

POLICIES = {policy.name: policy for policy in (NEVER_LOSE, STARTUP, REQUEST, DOWNLOAD)}


def attempts(policy: RetryPolicy, on: type[Exception] | tuple[type[Exception], ...] | Decide) -> Any:
    """Attempts to loop over, from code or coroutine::

        async for attempt in attempts(NEVER_LOSE, (OSError, UnavailableError)):
            with attempt:
                await insert(block)

    ``on`` names what is worth another try, or decides it. The last error is raised as it was.
    """
    return stamina.retry_context(on=_guard(on), **_limits(policy))


def _limits(policy: RetryPolicy) -> dict[str, Any]:
    return {
        "attempts": policy.attempts_max,
        "timeout": policy.total_s,
        "wait_initial": policy.wait_initial_s,
        "wait_max": policy.wait_max_s,
        "wait_jitter": policy.jitter_s,
        "wait_exp_base": 2,
    }


def _guard(on: type[Exception] | tuple[type[Exception], ...] | Decide) -> Decide:
    def worth_it(error: Exception) -> bool:
        if isinstance(error, FleetpulseError) and not error.retriable:
            return False
        return isinstance(error, on) if isinstance(on, type | tuple) else on(error)

    return worth_it
