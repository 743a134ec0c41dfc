"""Functions of all kinds and the calls of an ``openai`` client: each is a request.

Covers fleetpulse_track.calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import fleetpulse_track as track
from fleetpulse_track.handover import HEADER
from tests.unit.producers.receiver import sent
from tests.unit.sdk.openai_shapes import CHAT, FIELDS_OF_CHAT, AsyncStream, Stream, said, thing


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


def an_openai(*answers: Any, awaited: bool = False) -> Any:
    """A client with the resources of ``openai.OpenAI``; each call gives the next answer."""
    left = iter(answers)

    def create(**kwargs: Any) -> Any:
        answer = next(left)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def acreate(**kwargs: Any) -> Any:
        return create(**kwargs)

    def resource() -> Any:
        return SimpleNamespace(create=acreate if awaited else create)

    return SimpleNamespace(
        chat=SimpleNamespace(completions=resource()),
        completions=resource(),
        embeddings=resource(),
        models=SimpleNamespace(list="untouched"),
    )


WHOLE = {
    "id": "chatcmpl-2",
    "model": "m-3",
    "choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [{}, {}]}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 6},
}
FIELDS_OF_WHOLE = {
    "status": "ok",
    "api": "chat",
    "model": "m-3",
    "tenant": "t",
    "request_id": "chatcmpl-2",
    "finish_reason": "tool_calls",
    "choices": 1,
    "tool_calls": 2,
    "input_tokens": 5,
    "output_tokens": 6,
    "tokens_from": "engine",
}


def test_every_call_of_an_openai_client_is_a_request(client: sent.Recorded) -> None:
    """Whole answers, streams, embeddings, failures; the caller's answers are the engine's."""
    refused = type("RateLimitError", (Exception,), {"status_code": 429})()
    whole, stream = thing(WHOLE), Stream([thing(chunk) for chunk in CHAT])
    vector = thing({"model": "e", "usage": {"prompt_tokens": 2, "total_tokens": 2}, "data": []})
    ours = track.openai(an_openai(whole, stream, vector, refused), client=client, tenant="t")

    assert ours.chat.completions.create(model="m") is whole
    assert len(list(ours.chat.completions.create(model="m", stream=True))) == len(CHAT)
    assert ours.embeddings.create(model="e") is vector
    with pytest.raises(type(refused)):
        ours.completions.create(model="m")

    assert ours.models.list == "untouched"
    assert [said(data) for data in client.sent] == [
        FIELDS_OF_WHOLE,
        FIELDS_OF_CHAT | {"api": "chat", "tenant": "t"},
        {"status": "ok", "api": "embeddings", "tenant": "t", "model": "e", "input_tokens": 2, "tokens_from": "engine"},
        {
            "status": "rejected",
            "error_kind": "overload",
            "http_status": 429,
            "api": "completions",
            "tenant": "t",
            "model": "m",
        },
    ]


async def test_an_async_openai_client_is_the_same(client: sent.Recorded) -> None:
    """Whole answers and streams."""
    whole, stream = thing(WHOLE), AsyncStream([thing(chunk) for chunk in CHAT])
    ours = track.openai(an_openai(whole, stream, awaited=True), client=client, tenant="t")

    assert await ours.chat.completions.create(model="m") is whole
    passed = [chunk async for chunk in await ours.chat.completions.create(model="m", stream=True)]

    assert len(passed) == len(CHAT)
    assert [said(data) for data in client.sent] == [FIELDS_OF_WHOLE, FIELDS_OF_CHAT | {"api": "chat", "tenant": "t"}]
