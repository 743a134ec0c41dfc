"""Streams and answers in the shapes of the ``openai`` package, which is not installed; datagrams read again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

from fleetpulse_track.handover import HEADER


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
FIELDS_OF_CHAT = {
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
    """The fields of a datagram."""
    return dict(json.loads(data[-HEADER.unpack_from(data)[3] :]))


class Response:
    """As an ``httpx.Response``: the engine goes on generating until it is closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.is_closed = True


class Stream:
    """As ``openai.Stream``: an iterator, over which ``iter`` gives a generator that closes nothing; a context."""

    def __init__(self, chunks: list[Any], error: BaseException | None = None) -> None:
        self._left = iter(chunks)
        self._error = error
        self.response = Response()

    def __next__(self) -> Any:
        for chunk in self._left:
            return chunk
        raise self._error or StopIteration

    def __iter__(self) -> Iterator[Any]:
        yield from self._left

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.response.close()


class AsyncStream:
    """As ``openai.AsyncStream``: it closes by ``await close()``; there is no ``aclose``."""

    def __init__(self, chunks: list[Any]) -> None:
        self._left = iter(chunks)
        self.response = Response()

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        for chunk in self._left:
            return chunk
        raise StopAsyncIteration

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            try:
                yield await self.__anext__()
            except StopAsyncIteration:
                return

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.response.aclose()
