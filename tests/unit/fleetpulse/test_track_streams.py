"""Streams and calls of an ``openai`` client and of anything else: passed on untouched, told once."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fleetpulse import track
from fleetpulse.track.handover import HEADER, MARKED
from fleetpulse.track.requests import REASONING
from tests.unit.producers.receiver import sent


@pytest.fixture
def client() -> sent.Recorded:
    return sent.Recorded()


def thing(value: Any) -> Any:
    """The tree as objects with attributes, as ``openai`` makes them."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: thing(each) for name, each in value.items()})
    return [thing(each) for each in value] if isinstance(value, list) else value


def delta(index: int = 0, reason: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": fields, "finish_reason": reason}
    return {"id": "chatcmpl-1", "model": "m-1", "choices": [choice], "usage": None}


USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 8},
    "completion_tokens_details": {"reasoning_tokens": 1, "accepted_prediction_tokens": 2},
}
CHAT: list[dict[str, Any]] = [
    delta(role="assistant", content=""),
    delta(reasoning_content="hm"),
    delta(content="he"),
    delta(content="llo"),
    delta(1, content="other"),
    delta(tool_calls=[{"index": 0}]),
    delta(reason="stop"),
    {"id": "chatcmpl-1", "model": "m-1", "choices": [], "usage": USAGE},
]
TOLD_OF_CHAT = {
    "status": "ok",
    "request_id": "chatcmpl-1",
    "model": "m-1",
    "finish_reason": "stop",
    "input_tokens": 9,
    "output_tokens": 4,
    "cached_tokens": 8,
    "reasoning_tokens": 1,
    "speculative_tokens": 2,
    "tokens_from": "engine",
}


def said(data: bytes) -> dict[str, Any]:
    return dict(json.loads(data[-HEADER.unpack_from(data)[3] :]))


def marks(data: bytes) -> list[int]:
    _, _, flags, _, count, *_ = HEADER.unpack_from(data)
    return np.frombuffer(data, "<u4", count, HEADER.size + 8 * count).tolist() if flags & MARKED else [0] * count


class Stream:
    """As ``openai.Stream``: its own iterator, a context, closable."""

    def __init__(self, chunks: list[Any], error: BaseException | None = None) -> None:
        self._chunks = iter(chunks)
        self._error = error
        self.closed = 0
        self.response = "the response"

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        for chunk in self._chunks:
            return chunk
        raise self._error or StopIteration

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed += 1


class AsyncStream(Stream):
    """As ``openai.AsyncStream``."""

    __next__ = None  # type: ignore[assignment]
    __iter__ = None  # type: ignore[assignment]

    def __aiter__(self) -> AsyncIterator[Any]:
        return self  # type: ignore[return-value]

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        for chunk in self._chunks:
            return chunk
        raise self._error or StopAsyncIteration

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.closed += 1

    async def close(self) -> None:  # type: ignore[override]
        self.closed += 1


@pytest.mark.parametrize("make", [thing, dict], ids=["objects", "dictionaries"])
def test_a_chat_stream_is_passed_on_and_told(client: sent.Recorded, make: Any) -> None:
    """The role chunk and the usage chunk are no tokens; reasoning and choices are marked."""
    chunks = [make(chunk) for chunk in CHAT]

    passed = list(track.watch(Stream(chunks), track.request(client=client)))

    assert passed == chunks
    (data,) = client.sent
    assert said(data) == TOLD_OF_CHAT
    assert marks(data) == [REASONING, 0, 0, 1 << 20, 0]


async def test_an_async_stream_is_the_same(client: sent.Recorded) -> None:
    """Chunk for chunk."""
    chunks = [thing(chunk) for chunk in CHAT]

    passed = [chunk async for chunk in track.watch(AsyncStream(chunks), track.request(client=client))]

    assert passed == chunks
    assert [said(data) for data in client.sent] == [TOLD_OF_CHAT]


def test_completions_and_responses_are_read_too(client: sent.Recorded) -> None:
    """Their own shapes."""
    text = {"id": "cmpl-1", "model": "m", "choices": [{"index": 0, "text": "a", "finish_reason": "length"}]}
    answer = {"id": "resp-1", "model": "m-2", "usage": {"input_tokens": 3, "output_tokens": 2}}
    events = [
        {"type": "response.created", "response": {"id": "resp-1"}},
        {"type": "response.reasoning_text.delta", "delta": "h"},
        {"type": "response.output_text.delta", "delta": "a"},
        {"type": "response.output_item.done"},
        {"type": "response.completed", "response": answer},
    ]

    for chunks in ([text], events, [{"type": "response.failed", "response": {"id": "resp-2"}}]):
        list(track.watch(Stream([thing(chunk) for chunk in chunks]), track.request(client=client)))

    assert [said(data) for data in client.sent] == [
        {"status": "ok", "request_id": "cmpl-1", "model": "m", "finish_reason": "length"},
        {
            "status": "ok",
            "request_id": "resp-1",
            "model": "m-2",
            "input_tokens": 3,
            "output_tokens": 2,
            "tokens_from": "engine",
        },
        {"status": "error", "error_kind": "server", "request_id": "resp-2"},
    ]
    assert [marks(data) for data in client.sent] == [[0], [REASONING, 0], []]


def test_a_stream_closed_early_was_aborted(client: sent.Recorded) -> None:
    """By close, by the end of a with, by being dropped; the stream below is closed as before."""
    closed, left, dropped = (Stream([thing(chunk) for chunk in CHAT]) for _ in range(3))
    watched = track.watch(closed, track.request(client=client))
    next(watched)
    watched.close()
    with track.watch(left, track.request(client=client)) as watched:
        next(watched)
    watched = track.watch(dropped, track.request(client=client))
    next(watched)
    del watched
    gc.collect()

    assert [said(data)["status"] for data in client.sent] == ["aborted"] * 3
    assert (closed.closed, left.closed, dropped.closed) == (1, 1, 0)


async def test_an_async_stream_closed_early_was_aborted(client: sent.Recorded) -> None:
    """The same."""
    closed, left = (AsyncStream([thing(chunk) for chunk in CHAT]) for _ in range(2))
    watched = track.watch(closed, track.request(client=client))
    await anext(watched)
    await watched.close()
    async with track.watch(left, track.request(client=client)) as watched:
        await anext(watched)

    assert [said(data)["status"] for data in client.sent] == ["aborted"] * 2
    assert (closed.closed, left.closed) == (1, 1)


def test_a_stream_read_to_its_end_inside_a_with_went_well(client: sent.Recorded) -> None:
    """Closing it afterwards says nothing more."""
    with track.watch(Stream([thing(CHAT[2])]), track.request(client=client)) as watched:
        assert len(list(watched)) == 1

    assert [said(data)["status"] for data in client.sent] == ["ok"]


def test_an_error_in_a_stream_reaches_the_caller(client: sent.Recorded) -> None:
    """As it was, and once."""
    error = TimeoutError("slow")
    watched = track.watch(Stream([thing(CHAT[2])], error), track.request(client=client))
    next(watched)

    with pytest.raises(TimeoutError) as seen:
        next(watched)

    assert seen.value is error
    assert [said(data)["status"] for data in client.sent] == ["timeout"]


def test_whatever_else_a_stream_offers_is_there(client: sent.Recorded) -> None:
    """Attributes are those of the stream."""
    watched = track.watch(Stream([]), track.request(client=client))

    assert watched.response == "the response"
    with pytest.raises(AttributeError):
        _ = watched.nothing
    list(watched)


class Odd:
    """Raises at every attribute but a few."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    "chunk",
    [
        None,
        "text",
        b"",
        7,
        [],
        {},
        pytest.param(Odd(), id="odd"),
        {"choices": 5},
        {"choices": [None]},
        thing({"choices": [{"delta": {}}]}),
    ],
    ids=str,
)
def test_any_chunk_is_passed_on(client: sent.Recorded, chunk: Any) -> None:
    """Whatever its shape, nothing is raised and the request is told once."""
    assert list(track.watch(Stream([chunk]), track.request(client=client))) == [chunk]
    assert [said(data)["status"] for data in client.sent] == ["ok"]


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
TOLD_OF_WHOLE = {
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
        TOLD_OF_WHOLE,
        TOLD_OF_CHAT | {"api": "chat", "tenant": "t"},
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
    assert [said(data) for data in client.sent] == [TOLD_OF_WHOLE, TOLD_OF_CHAT | {"api": "chat", "tenant": "t"}]
