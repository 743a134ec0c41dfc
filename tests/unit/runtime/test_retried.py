"""What is asked of a server that is away: again, until it answers or the process has to stop."""

from __future__ import annotations

import asyncio

import pytest

from runtime.backoff import Backoff
from runtime.health import Readiness
from runtime.retried import retried, sleep
from schemas.errors import ContractError, ReplicaBehindError, UnavailableError

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


async def test_a_server_that_is_behind_others_may_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that was away comes back behind: it is given its time anew."""
    monkeypatch.setattr("runtime.retried.BACKOFF", Backoff(0.001, 0.001))
    monkeypatch.setattr("runtime.retried.BEHIND_S", 0.0)
    behind, away = ReplicaBehindError("no such column"), UnavailableError("away")
    answers: list[Exception | int] = [behind, away, behind, 7]

    async def ask() -> int:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    assert await retried("ClickHouse", ask, asyncio.Event(), Readiness()) == 7


async def test_a_server_that_stays_behind_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it lacks a person has to make; the error is the server's own."""
    monkeypatch.setattr("runtime.retried.BACKOFF", Backoff(0.001, 0.001))
    monkeypatch.setattr("runtime.retried.BEHIND_S", 0.05)
    asked_s: list[float] = []

    async def behind() -> int:
        asked_s.append(asyncio.get_running_loop().time())
        raise ReplicaBehindError("no such column")

    with pytest.raises(ContractError, match="no such column"):
        await retried("ClickHouse", behind, asyncio.Event(), Readiness())

    assert asked_s[-1] - asked_s[0] >= 0.05


async def test_a_sleep_ends_when_it_has_to() -> None:
    """And says so."""
    stop = asyncio.Event()
    assert not await sleep(0.0, stop)
    stop.set()
    assert await sleep(HANGS_S, stop)
