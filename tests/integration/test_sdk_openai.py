"""The real ``openai`` package, tracked and not, against an engine on loopback: helpers, connections, early closes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

import fleetpulse_track as track
from fleetpulse_track.handover import HEADER
from tests.integration import sdk_engine

pytestmark = pytest.mark.integration

HI: Any = [{"role": "user", "content": "hi"}]
USAGE: Any = {"include_usage": True}
LONG = 1_500
AFTER_CLOSE_MAX = 10
"""Chunks, 5 ms apart, that an engine may write until it sees that its client has left: 5 were read."""


class Recorded(track.Client):
    """Keeps the fields and the number of chunks of each request."""

    def __init__(self) -> None:
        self.rows: list[tuple[dict[str, Any], int]] = []
        super().__init__("/nowhere")

    def _sent(self, datagram: bytes) -> bool:
        head = HEADER.unpack_from(datagram)
        self.rows.append((json.loads(datagram[-head[3] :]), head[5]))
        return True


@pytest.fixture
def engine() -> Iterator[sdk_engine.Engine]:
    with sdk_engine.running() as engine:
        yield engine


@pytest.fixture
def openai() -> Any:
    return import_module("openai")


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def parse(ours: Any) -> Any:
    answer = ours.chat.completions.parse(model="m", messages=HI)
    return answer.choices[0].message.content


def chat_stream(ours: Any) -> Any:
    with ours.chat.completions.stream(model="m", messages=HI, stream_options=USAGE) as events:
        list(events)
        return events.get_final_completion().choices[0].message.content


def responses_stream(ours: Any) -> Any:
    with ours.responses.stream(model="m", input="hi") as events:
        list(events)
        return events.get_final_response().output_text


def packed(ours: Any) -> Any:
    with ours.chat.completions.with_streaming_response.create(model="packed", messages=HI) as response:
        return response.parse().choices[0].message.content


@pytest.mark.parametrize(
    ("call", "api", "chunks"),
    [(parse, "chat", 0), (chat_stream, "chat", 5), (responses_stream, "responses", 5), (packed, "chat", 0)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_helpers_of_openai_work_and_are_counted_with_their_tokens(
    openai: Any, engine: sdk_engine.Engine, recorded: Recorded, call: Callable[[Any], Any], api: str, chunks: int
) -> None:
    """As without tracking."""
    with openai.OpenAI(base_url=engine.url, api_key="k") as original:
        answers = [call(original), call(track.openai(original, client=recorded))]

    assert answers == ["".join(sdk_engine.WORDS)] * 2
    ((fields, came),) = recorded.rows
    named = ("status", "api", "address", "input_tokens", "cached_tokens", "output_tokens")
    assert [fields[name] for name in named] == ["ok", api, engine.address, 9, 8, 5]
    assert came == chunks


async def test_async_helpers_of_openai_work_and_are_counted_with_their_tokens(
    openai: Any, engine: sdk_engine.Engine, recorded: Recorded
) -> None:
    """As the others."""
    async with openai.AsyncOpenAI(base_url=engine.url, api_key="k") as original:
        ours = track.openai(original, client=recorded)
        async with ours.chat.completions.stream(model="m", messages=HI, stream_options=USAGE) as events:
            completion = await events.get_final_completion()
        async with ours.responses.stream(model="m", input="hi") as events:
            response = await events.get_final_response()

    assert [completion.choices[0].message.content, response.output_text] == ["".join(sdk_engine.WORDS)] * 2
    assert [(fields["status"], fields["output_tokens"], came) for fields, came in recorded.rows] == [("ok", 5, 5)] * 2


def test_connections_are_kept_as_without_tracking(openai: Any, engine: sdk_engine.Engine, recorded: Recorded) -> None:
    """One for all: of the original, the tracked one and its copies."""
    with openai.OpenAI(base_url=engine.url, api_key="k") as original:
        ours = track.openai(original, client=recorded)
        for each in (original, ours, ours.with_options(timeout=5), ours.copy()):
            each.chat.completions.create(model="m", messages=HI)
            create = each.chat.completions.with_streaming_response.create
            with create(model="m", messages=HI, stream=True) as response:
                assert response.read().endswith(b"data: [DONE]\n\n")

    assert (len(engine.paths), engine.connections) == (8, 1)


@pytest.mark.parametrize(
    ("model", "status", "error_kind"),
    [("breaks", "error", "engine_lost"), ("error", "error", "server"), ("fail-500", "error", "server")],
)
def test_failures_reach_the_caller_and_are_told_apart(
    openai: Any, engine: sdk_engine.Engine, recorded: Recorded, model: str, status: str, error_kind: str
) -> None:
    """A cut stream, an error inside a stream, a 500 at each attempt: one request each."""
    raised = []
    with openai.OpenAI(base_url=engine.url, api_key="k", max_retries=1) as original:
        for each in (original, track.openai(original, client=recorded)):
            try:
                list(each.chat.completions.create(model=model, messages=HI, stream=True))
            except openai.OpenAIError as error:
                raised.append((type(error), str(error)))

    assert len(raised) == 2
    assert raised[0] == raised[1]
    assert [(fields["status"], fields["error_kind"]) for fields, _ in recorded.rows] == [(status, error_kind)]


def test_an_attempt_that_was_repeated_is_no_request_of_its_own(
    openai: Any, engine: sdk_engine.Engine, recorded: Recorded
) -> None:
    """429, then well: the engine has seen two, the caller made one."""
    with openai.OpenAI(base_url=engine.url, api_key="k") as original:
        track.openai(original, client=recorded).chat.completions.create(model="fail-429-then-ok", messages=HI)

    assert len(engine.paths) == 2
    assert [(fields["status"], fields["output_tokens"]) for fields, _ in recorded.rows] == [("ok", 5)]


@pytest.mark.parametrize("tracked", [False, True], ids=["plain", "tracked"])
@pytest.mark.parametrize("by", ["close", "with"])
def test_an_engine_stops_as_soon_as_its_caller_closes(
    openai: Any, engine: sdk_engine.Engine, recorded: Recorded, by: str, tracked: bool
) -> None:
    """After 5 chunks of 1,500; the plain client is the yardstick."""
    with openai.OpenAI(base_url=engine.url, api_key="k") as original:
        ours = track.openai(original, client=recorded) if tracked else original
        stream = ours.chat.completions.create(model="m", messages=HI, stream=True, max_tokens=LONG)
        with stream if by == "with" else contextlib.nullcontext():
            for _ in range(5):
                next(stream)
        stream.close()
        written = _written(engine)

    assert 5 <= written <= AFTER_CLOSE_MAX
    assert [(fields["status"], came) for fields, came in recorded.rows] == [("aborted", 5)] * tracked


@pytest.mark.parametrize("tracked", [False, True], ids=["plain", "tracked"])
@pytest.mark.parametrize("by", ["close", "with", "cancel"])
async def test_an_engine_stops_as_soon_as_its_async_caller_closes(
    openai: Any, engine: sdk_engine.Engine, recorded: Recorded, by: str, tracked: bool
) -> None:
    """By a cancelled task too."""
    async with openai.AsyncOpenAI(base_url=engine.url, api_key="k") as original:
        ours = track.openai(original, client=recorded) if tracked else original
        stream = await ours.chat.completions.create(model="m", messages=HI, stream=True, max_tokens=LONG)
        five = asyncio.Event()

        async def read() -> None:
            async with stream if by == "with" else contextlib.nullcontext():
                for _ in range(5):
                    await anext(stream)
                five.set()
                while by == "cancel":
                    await anext(stream)
            await stream.close()

        task = asyncio.create_task(read())
        await five.wait()
        if by == "cancel":
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        written = await asyncio.to_thread(_written, engine)

    assert 5 <= written <= AFTER_CLOSE_MAX
    assert [fields["status"] for fields, _ in recorded.rows] == ["aborted"] * tracked


def _written(engine: sdk_engine.Engine) -> int:
    """Chunks of the one stream, once the engine has ended it."""
    until_s = time.monotonic() + 30
    while not engine.written:
        assert time.monotonic() < until_s
        time.sleep(0.005)
    return engine.written[0]
