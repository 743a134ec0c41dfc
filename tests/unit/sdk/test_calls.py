"""Functions of all kinds: each call is a request.

Covers fleetpulse_track.calls.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import fleetpulse_track as track
from fleetpulse_track.handover import HEADER
from tests.unit.producers.receiver import sent
from tests.unit.sdk.openai_shapes import said


@pytest.fixture
def client() -> sent.Recorded:
    return sent.Recorded()


def test_a_decorator_takes_functions_of_all_kinds(client: sent.Recorded) -> None:
    """Plain ones, generators, coroutines, asynchronous generators; names stay."""
    tracked = track.tracked("m", client=client, tenant="t")

    @tracked
    def plain(value: int) -> int:
        return value + 1

    @tracked
    def pieces() -> Iterator[str]:
        yield "a"
        yield "b"

    @tracked
    async def awaited() -> str:
        return "c"

    @tracked
    async def later() -> AsyncIterator[str]:
        yield "d"

    async def all_of() -> list[str]:
        return [await awaited(), *[piece async for piece in later()]]

    assert (plain(1), list(pieces()), asyncio.run(all_of())) == (2, ["a", "b"], ["c", "d"])
    assert plain.__name__ == "plain"
    assert [(said(data)["status"], HEADER.unpack_from(data)[4]) for data in client.sent] == [
        ("ok", 0),
        ("ok", 2),
        ("ok", 0),
        ("ok", 1),
    ]
    assert all(said(data)["tenant"] == "t" for data in client.sent)


def test_a_decorated_function_that_raises(client: sent.Recorded) -> None:
    """Both kinds; the caller sees it."""

    @track.tracked("m", client=client)
    def plain() -> None:
        raise MemoryError

    @track.tracked("m", client=client)
    async def awaited() -> None:
        raise ConnectionError

    with pytest.raises(MemoryError):
        plain()
    with pytest.raises(ConnectionError):
        asyncio.run(awaited())

    assert [said(data)["error_kind"] for data in client.sent] == ["oom", "network"]


async def test_a_plain_function_may_return_what_is_awaited(client: sent.Recorded) -> None:
    """A coroutine; a task, which stays one and may fail or be cancelled; a future of a pool."""

    async def work(error: BaseException | None = None) -> str:
        if error is not None:
            raise error
        return "a"

    @track.tracked("m", client=client)
    def started(error: BaseException | None = None) -> asyncio.Task[str]:
        return asyncio.create_task(work(error))

    @track.tracked("m", client=client)
    def coroutine() -> Coroutine[Any, Any, str]:
        return work()

    @track.tracked("m", client=client)
    def pooled() -> Future[str]:
        return pool.submit(str, 5)

    assert await coroutine() == "a"
    assert isinstance(task := started(), asyncio.Task)
    assert client.sent == client.sent[:1]
    assert await task == "a"
    with pytest.raises(ConnectionError):
        await started(ConnectionError())
    cancelled = started()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    with ThreadPoolExecutor(1) as pool:
        assert pooled().result() == "5"

    assert [said(data)["status"] for data in client.sent] == ["ok", "ok", "error", "aborted", "ok"]


async def test_what_is_awaited_or_entered_is_the_callers(client: sent.Recorded) -> None:
    """As HTTP clients return it: the request ends with the call."""

    class Entered(Coroutine[Any, Any, str]):
        async def __aenter__(self) -> str:
            return "entered"

        async def __aexit__(self, *_: object) -> None:
            pass

        def __await__(self) -> Generator[Any, Any, str]:
            yield from asyncio.sleep(0).__await__()
            return "awaited"

        def send(self, value: Any) -> Any:
            raise StopIteration("sent")

        def throw(self, *_: Any) -> Any:
            raise StopIteration("thrown")

    @track.tracked("m", client=client)
    def get() -> Entered:
        return Entered()

    async with get() as answer:
        assert answer == "entered"
    assert await get() == "awaited"
    assert [said(data)["status"] for data in client.sent] == ["ok", "ok"]


async def test_a_decorated_coroutine_function_is_one(client: sent.Recorded) -> None:
    """Frameworks ask: what is none they run in a thread, and get a coroutine that nobody awaits."""

    @track.tracked("m", client=client)
    async def awaited(value: int) -> int:
        return value

    class Endpoint:
        @track.tracked("m", client=client)
        async def method(self) -> str:
            return "a"

    assert inspect.iscoroutinefunction(awaited)
    assert inspect.iscoroutinefunction(Endpoint().method)
    assert (await awaited(1), await Endpoint().method()) == (1, "a")
    with pytest.raises(TypeError):
        await awaited()  # type: ignore[call-arg]
    assert [said(data)["status"] for data in client.sent] == ["ok", "ok", "error"]
