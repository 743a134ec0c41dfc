"""What is asked of a server that is away: again, until it answers or the process has to stop."""

from __future__ import annotations

import asyncio

import pytest

from runtime.health import Readiness
from runtime.retried import retried, sleep
from schemas.errors import UnavailableError

HANGS_S = 20.0
"""Whatever takes so long would never end."""


@pytest.mark.parametrize("stops", [False, True])
async def test_a_stop_says_that_nothing_is_retried(stops: bool, caplog: pytest.LogCaptureFixture) -> None:
    """But a server that is away is."""
    stop, attempts = asyncio.Event(), list[int]()

    async def away() -> int:
        attempts.append(1)
        if len(attempts) > 1:
            return 7
        if stops:
            stop.set()
        raise UnavailableError("away")

    done = await retried("ClickHouse", away, stop, Readiness())

    said = "stopped before the server answered" if stops else "server unavailable, retrying"
    assert done == (None if stops else 7)
    assert [record.getMessage() for record in caplog.records] == [f"{said}; offsets are not committed"]


async def test_a_sleep_ends_when_it_has_to() -> None:
    """And says so."""
    stop = asyncio.Event()
    assert not await sleep(0.0, stop)
    stop.set()
    assert await sleep(HANGS_S, stop)
