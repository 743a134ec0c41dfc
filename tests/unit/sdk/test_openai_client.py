"""Tracked clients of the real ``openai`` package: its callers cannot see a difference, and every call is a request.

Covers fleetpulse_track.openai_client. Answers are vLLM's own (tests/data/engine_answers), over a transport in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fleetpulse_track as track
from fleetpulse_track.handover import HEADER
from tests.unit.producers.receiver import sent
from tests.unit.sdk.openai_shapes import CHAT, FIELDS_OF_CHAT, AsyncStream, Stream, said, thing

ANSWERS = Path(__file__).resolve().parents[2] / "data" / "engine_answers" / "vllm-0.32.0"
HI: Any = [{"role": "user", "content": "hi"}]
USAGE: Any = {"include_usage": True}
CALLED = {"status": "ok", "address": "engine:8000", "tenant": "t", "model": "tiny"}
COUNTED = {"input_tokens": 255, "cached_tokens": 0, "output_tokens": 6, "tokens_from": "engine"}
CHAT_ENDED = {**CALLED, "api": "chat", "request_id": "chatcmpl-recorded", "finish_reason": "length"}
WHOLE_CHAT = {**CHAT_ENDED, **COUNTED, "choices": 1, "tool_calls": 0}
STREAMED_CHAT = {**CHAT_ENDED, **COUNTED, "cached_tokens": 128}


@pytest.fixture
def client() -> sent.Recorded:
    return sent.Recorded()


@pytest.fixture
def openai() -> Any:
    return import_module("openai")


def answer(request: Any) -> Any:
    """What vLLM answered to such a request."""
    body = json.loads(request.content)
    name = {"completions": "chat" if "messages" in body else "completions"}.get(
        request.url.path.rpartition("/")[2], request.url.path.rpartition("/")[2]
    )
    response = import_module("httpx2").Response
    if name == "embeddings":
        usage = {"prompt_tokens": 2, "total_tokens": 2}
        return response(200, json={"object": "list", "model": "tiny", "data": VECTORS, "usage": usage})
    if body["model"] == "nobody":
        return response(404, content=(ANSWERS / "unknown_model.json").read_bytes())
    if not body.get("stream"):
        return response(200, headers=JSON, content=(ANSWERS / f"{name}.json").read_bytes())
    file = f"{name}_stream_usage.sse" if body.get("stream_options") else f"{name}_stream.sse"
    return response(200, headers=EVENT_STREAM, stream=_Bytes.of((ANSWERS / file).read_bytes()))


VECTORS = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
JSON = {"content-type": "application/json"}
EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8"}


class _Bytes:
    """A connection that gives 100 bytes at a time."""

    @staticmethod
    def of(data: bytes) -> Any:
        httpx2 = import_module("httpx2")

        class Both(httpx2.SyncByteStream, httpx2.AsyncByteStream):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Iterator[bytes]:
                yield from (data[start : start + 100] for start in range(0, len(data), 100))

            async def __aiter__(self) -> Any:
                for chunk in self:
                    yield chunk

        return Both()


def a_client(openai: Any, handler: Callable[[Any], Any] = answer, **settings: Any) -> Any:
    transport = import_module("httpx2").MockTransport(handler)
    http_client = openai.DefaultHttpx2Client(transport=transport)
    return openai.OpenAI(base_url="http://engine:8000/v1", api_key="k", http_client=http_client, **settings)


def an_async_client(openai: Any) -> Any:
    transport = import_module("httpx2").MockTransport(answer)
    http_client = openai.DefaultAsyncHttpx2Client(transport=transport)
    return openai.AsyncOpenAI(base_url="http://engine:8000/v1", api_key="k", http_client=http_client)


def test_a_tracked_client_is_the_same_to_its_caller(openai: Any, client: sent.Recorded) -> None:
    """Its class, what it sends, its settings and connections; the original stays as it was."""
    original = a_client(openai, max_retries=7, timeout=3.0, _strict_response_validation=True)
    bound = original.chat
    names = sorted(vars(original))

    ours = track.openai(original, client=client, tenant="t")

    assert isinstance(ours, openai.OpenAI)
    assert (type(ours).__name__, type(ours).__module__) == ("OpenAI", "openai")
    assert ours.user_agent == original.user_agent
    assert (ours.max_retries, ours.timeout, ours._strict_response_validation) == (7, 3.0, True)
    assert ours._client is original._client
    assert type(original) is openai.OpenAI
    assert original.chat is bound
    assert ours.chat is not bound
    assert sorted(vars(original)) == names
    original.chat.completions.create(model="tiny", messages=HI)
    assert client.sent == []


def calls() -> dict[str, tuple[Callable[[Any], Any], dict[str, Any]]]:
    """Each way to call, and the fields of its request."""

    def raw_stream(ours: Any) -> Any:
        raw = ours.chat.completions.with_raw_response.create(
            model="tiny", messages=HI, stream=True, stream_options=USAGE
        )
        return list(raw.parse())

    def streaming(ours: Any) -> Any:
        with ours.chat.completions.with_streaming_response.create(model="tiny", messages=HI) as response:
            return response.parse()

    def lines(ours: Any) -> Any:
        create = ours.chat.completions.with_streaming_response.create
        with create(model="tiny", messages=HI, stream=True, stream_options=USAGE) as response:
            return list(response.iter_lines())

    completed = {
        **CALLED,
        **COUNTED,
        "input_tokens": 3,
        "api": "completions",
        "request_id": "cmpl-recorded",
        "finish_reason": "length",
    }
    return {
        "create": (lambda ours: ours.chat.completions.create(model="tiny", messages=HI), WHOLE_CHAT),
        "with_options": (
            lambda ours: ours.with_options(timeout=1).chat.completions.create(model="tiny", messages=HI),
            WHOLE_CHAT,
        ),
        "copy": (lambda ours: ours.copy().copy().chat.completions.create(model="tiny", messages=HI), WHOLE_CHAT),
        "raw": (
            lambda ours: ours.chat.completions.with_raw_response.create(model="tiny", messages=HI).parse(),
            WHOLE_CHAT,
        ),
        "streaming": (streaming, WHOLE_CHAT),
        "stream": (
            lambda ours: list(
                ours.chat.completions.create(model="tiny", messages=HI, stream=True, stream_options=USAGE)
            ),
            STREAMED_CHAT,
        ),
        "raw stream": (raw_stream, STREAMED_CHAT),
        "lines": (lines, STREAMED_CHAT),
        "completions": (
            lambda ours: ours.completions.create(model="tiny", prompt="a"),
            {**completed, "choices": 1, "tool_calls": 0},
        ),
        "completions stream": (
            lambda ours: list(ours.completions.create(model="tiny", prompt="a", stream=True, stream_options=USAGE)),
            {**completed},
        ),
        "embeddings": (
            lambda ours: ours.embeddings.create(model="tiny", input="a"),
            {**CALLED, "api": "embeddings", "input_tokens": 2, "tokens_from": "engine"},
        ),
    }


@pytest.mark.parametrize("name", list(calls()))
def test_every_call_is_one_request_and_answers_as_before(openai: Any, client: sent.Recorded, name: str) -> None:
    """The same answer as without tracking, and its tokens."""
    call, expected = calls()[name]
    original = a_client(openai)

    answered = call(track.openai(original, client=client, tenant="t"))

    assert answered == call(original)
    (fields,) = [said(data) for data in client.sent]
    assert fields == expected
    streamed = HEADER.unpack_from(client.sent[0])[5] > 0
    assert streamed == (name in {"stream", "raw stream", "lines", "completions stream"})


def test_the_responses_api_is_tracked(openai: Any, client: sent.Recorded) -> None:
    """Its usage has other names."""
    ours = track.openai(a_client(openai), client=client)

    text = ours.responses.create(model="tiny", input="a")

    (fields,) = [said(data) for data in client.sent]
    assert (fields["api"], fields["request_id"]) == ("responses", text.id)
    assert (fields["input_tokens"], fields["output_tokens"]) == (text.usage.input_tokens, text.usage.output_tokens)


async def test_an_async_client_is_the_same(openai: Any, client: sent.Recorded) -> None:
    """Whole answers, streams, streaming responses."""
    original = an_async_client(openai)
    ours = track.openai(original, client=client, tenant="t")

    whole = await ours.chat.completions.create(model="tiny", messages=HI)
    stream = await ours.chat.completions.create(model="tiny", messages=HI, stream=True, stream_options=USAGE)
    chunks = [chunk async for chunk in stream]
    async with ours.chat.completions.with_streaming_response.create(model="tiny", messages=HI) as response:
        assert await response.parse() == whole

    assert isinstance(ours, openai.AsyncOpenAI)
    assert isinstance(stream, openai.AsyncStream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [said(data) for data in client.sent] == [WHOLE_CHAT, STREAMED_CHAT, WHOLE_CHAT]


def test_a_stream_is_openais_own(openai: Any, client: sent.Recorded) -> None:
    """An instance of its class, with its response, which closing closes."""
    ours = track.openai(a_client(openai), client=client)
    stream = ours.chat.completions.create(model="tiny", messages=HI, stream=True)
    next(stream)

    stream.close()

    assert type(stream) is openai.Stream
    assert stream.response.is_closed
    assert stream.response.headers["content-type"] == EVENT_STREAM["content-type"]
    assert [said(data)["status"] for data in client.sent] == ["aborted"]


def test_attempts_of_one_call_are_one_request_with_the_last_outcome(openai: Any, client: sent.Recorded) -> None:
    """As the caller sees it: 429, then well; always 500."""
    seen: list[str] = []

    def handler(request: Any) -> Any:
        model = json.loads(request.content)["model"]
        seen.append(model)
        status = 429 if seen.count(model) == 1 else 500
        if model == "tiny" and status == 500:
            return answer(request)
        return import_module("httpx2").Response(status, headers={"retry-after-ms": "1"})

    ours = track.openai(a_client(openai, handler, max_retries=2), client=client, tenant="t")
    ours.chat.completions.create(model="tiny", messages=HI)
    with pytest.raises(openai.InternalServerError):
        ours.chat.completions.create(model="lost", messages=HI)

    assert seen == ["tiny", "tiny", "lost", "lost", "lost"]
    failed = {"status": "error", "error_kind": "server", "http_status": 500, "model": "lost", "api": "chat"}
    assert [said(data) for data in client.sent] == [WHOLE_CHAT, {**CALLED, **failed}]


def test_errors_reach_the_caller(openai: Any, client: sent.Recorded) -> None:
    """404 of an unknown model; an engine that is not there."""

    def gone(request: Any) -> Any:
        raise import_module("httpx2").ConnectError("no")

    with pytest.raises(openai.NotFoundError):
        track.openai(a_client(openai), client=client).chat.completions.create(model="nobody", messages=HI)
    with pytest.raises(openai.APIConnectionError):
        track.openai(a_client(openai, gone, max_retries=0), client=client).embeddings.create(model="m", input="a")

    ends = [(said(data)["status"], said(data)["error_kind"]) for data in client.sent]
    assert ends == [("error", "client"), ("error", "network")]


def test_an_answer_that_parse_rejects_was_given_well(openai: Any, client: sent.Recorded) -> None:
    """The caller's error stays; vLLM's answer was cut by its length."""
    model = import_module("pydantic").create_model("Answer", x=(int, ...))

    with pytest.raises(openai.LengthFinishReasonError):
        track.openai(a_client(openai), client=client, tenant="t").chat.completions.parse(
            model="tiny", messages=HI, response_format=model
        )

    assert [said(data) for data in client.sent] == [WHOLE_CHAT]


def test_other_calls_are_no_requests(openai: Any, client: sent.Recorded) -> None:
    """Lists of models, say."""

    def models(request: Any) -> Any:
        return import_module("httpx2").Response(200, json=json.loads((ANSWERS / "v1_models.json").read_bytes()))

    assert [each.id for each in track.openai(a_client(openai, models), client=client).models.list()] == ["tiny"]
    assert client.sent == []


def test_tracking_a_tracked_client_counts_once(openai: Any, client: sent.Recorded) -> None:
    """By the last fields."""
    ours = track.openai(track.openai(a_client(openai), client=client, tenant="a"), client=client, tenant="b")
    ours.chat.completions.create(model="tiny", messages=HI)

    assert [said(data)["tenant"] for data in client.sent] == ["b"]


def test_a_client_of_azure_is_tracked(openai: Any, client: sent.Recorded) -> None:
    """Its paths are longer; copies take its own arguments."""
    http_client = openai.DefaultHttpx2Client(transport=import_module("httpx2").MockTransport(answer))
    azure = openai.AzureOpenAI(azure_endpoint="https://engine", api_key="k", api_version="1", http_client=http_client)
    ours = track.openai(azure, client=client)

    for each in (ours, ours.with_options(timeout=1)):
        each.chat.completions.create(model="tiny", messages=HI)

    assert isinstance(ours, openai.AzureOpenAI)
    assert [said(data)["address"] for data in client.sent] == ["engine:443"] * 2


def test_the_user_that_a_call_names_goes_to_the_agent(openai: Any, client: sent.Recorded) -> None:
    """As the caller wrote it; the field that was set for the client comes first."""
    create = track.openai(a_client(openai), client=client).chat.completions.create
    create(model="tiny", messages=HI, user="ann")
    create(model="tiny", messages=HI, safety_identifier="bob", user="ann")
    track.openai(a_client(openai), client=client, user="eve").embeddings.create(model="tiny", input="a", user="ann")

    assert [said(data)["user"] for data in client.sent] == ["ann", "bob", "eve"]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8000/v1", "127.0.0.1:8000"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
        ("https://engine/v1", "engine:443"),
        ("http://engine", "engine:80"),
    ],
)
def test_a_request_carries_the_address_that_it_went_to(
    openai: Any, client: sent.Recorded, url: str, address: str
) -> None:
    """Host and port, by which the agent finds the engine."""
    ours = track.openai(a_client(openai), client=client).with_options(base_url=url)
    ours.chat.completions.create(model="tiny", messages=HI)

    assert [said(data)["address"] for data in client.sent] == [address]


def test_a_class_of_the_callers_own_is_kept(openai: Any, client: sent.Recorded) -> None:
    """With its attributes and methods, whatever its constructor takes."""

    class Own(openai.OpenAI):  # type: ignore[misc, name-defined]
        def __init__(self, name: str, **settings: Any) -> None:
            super().__init__(api_key="k", **settings)
            self.name = name

    original = Own("mine", base_url="http://engine:8000/v1", http_client=a_client(openai)._client)
    ours = track.openai(original, client=client)
    ours.chat.completions.create(model="tiny", messages=HI)

    assert (type(ours).__name__, isinstance(ours, Own), ours.name) == ("Own", True, "mine")
    assert len(client.sent) == 1


def another(*answers: Any, awaited: bool = False) -> Any:
    """A client of another package with the resources of ``openai.OpenAI``; each call gives the next answer."""
    left = iter(answers)

    def create(**kwargs: Any) -> Any:
        one = next(left)
        if isinstance(one, BaseException):
            raise one
        return one

    async def acreate(**kwargs: Any) -> Any:
        return create(**kwargs)

    def resource() -> Any:
        return SimpleNamespace(create=acreate if awaited else create)

    return SimpleNamespace(chat=SimpleNamespace(completions=resource()), completions=resource(), embeddings=resource())


def test_creates_of_another_client_are_wrapped_in_place(client: sent.Recorded) -> None:
    """Whole answers, streams, failures."""
    refused = type("RateLimitError", (Exception,), {"status_code": 429})()
    vector, stream = thing({"model": "e", "usage": {"prompt_tokens": 2}}), Stream([thing(chunk) for chunk in CHAT])
    original = another(stream, vector, refused)
    ours = track.openai(original, client=client, tenant="t")

    assert ours is original
    assert len(list(ours.chat.completions.create(model="m", stream=True))) == len(CHAT)
    assert ours.embeddings.create(model="e") is vector
    with pytest.raises(type(refused)):
        ours.completions.create(model="m")

    limited = {"status": "rejected", "error_kind": "overload", "http_status": 429}
    assert [said(data) for data in client.sent] == [
        FIELDS_OF_CHAT | {"api": "chat", "tenant": "t", "model": "m"},
        {"status": "ok", "api": "embeddings", "tenant": "t", "model": "e", "input_tokens": 2, "tokens_from": "engine"},
        limited | {"api": "completions", "tenant": "t", "model": "m"},
    ]


async def test_creates_of_another_async_client_are_wrapped_in_place(client: sent.Recorded) -> None:
    """The same."""
    ours = track.openai(another(AsyncStream([thing(chunk) for chunk in CHAT]), awaited=True), client=client)

    passed = [chunk async for chunk in await ours.chat.completions.create(model="m", stream=True)]

    assert len(passed) == len(CHAT)
    assert [said(data) for data in client.sent] == [FIELDS_OF_CHAT | {"api": "chat", "model": "m"}]


@pytest.mark.parametrize(
    ("asked", "choices"),
    [({"n": 3}, 3), ({"n": 2, "prompt": ["a", "b"]}, 4), ({"prompt": [5, 6]}, None), ({"n": None}, None), ({}, None)],
)
def test_a_stream_of_several_choices_says_how_many_were_asked_for(
    openai: Any, client: sent.Recorded, asked: dict[str, Any], choices: int | None
) -> None:
    """Also where none of them came: a plug-in's report of one choice is not the amount of all."""
    ours = track.openai(a_client(openai), client=client)

    list(ours.completions.create(**{"model": "tiny", "prompt": "hi", "stream": True, "stream_options": USAGE, **asked}))

    assert said(client.sent[0]).get("choices") == choices
    assert [said(data) for data in client.claimed] == [{"request_id": "cmpl-recorded"}] * (choices is not None)


def test_tracking_another_client_again_counts_once(client: sent.Recorded) -> None:
    """By the last fields."""
    ours = another(None, None, None)
    for tenant in "abc":
        track.openai(ours, client=client, tenant=tenant)
    ours.embeddings.create(model="e")

    assert [said(data)["tenant"] for data in client.sent] == ["c"]


def test_a_client_that_cannot_be_tracked_is_left_alone_and_named(caplog: pytest.LogCaptureFixture) -> None:
    """Without a word its owner would wait for requests."""

    class Fixed:
        __slots__ = ()

        def create(self, **kwargs: Any) -> None: ...

    for ours in (SimpleNamespace(embeddings=Fixed()), SimpleNamespace(messages=Fixed()), Messages()):
        assert track.openai(ours) is ours

    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3


class Messages:
    """As ``anthropic.Anthropic``: made with the same tools as ``openai``, for another API."""

    messages = cached_property(lambda _: None)
    completions = cached_property(lambda _: None)

    def copy(self) -> Messages:
        return Messages()

    def request(self) -> None: ...


def test_a_call_that_runs_in_the_background_is_no_request(openai: Any, client: sent.Recorded) -> None:
    """It is answered before anything is generated."""
    ours = track.openai(a_client(openai), client=client)
    ours.responses.create(model="tiny", input="hi", background=True)

    assert client.sent == []


def test_a_stream_of_a_call_that_runs_in_the_background_is_a_request(openai: Any, client: sent.Recorded) -> None:
    """Its answer is generated while it is read."""
    made = json.loads((ANSWERS / "responses.json").read_bytes())
    events = (
        {"type": "response.created", "sequence_number": 0, "response": made | {"status": "queued", "output": []}},
        {"type": "response.output_text.delta", "sequence_number": 1, "delta": "a", "item_id": "i"},
        {"type": "response.completed", "sequence_number": 2, "response": made},
    )
    stream = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)

    def streaming(_request: Any) -> Any:
        return import_module("httpx2").Response(200, headers=EVENT_STREAM, stream=_Bytes.of(stream))

    ours = track.openai(a_client(openai, streaming), client=client)
    for _ in ours.responses.create(model="tiny", input="hi", background=True, stream=True):
        pass

    (fields,) = [said(data) for data in client.sent]
    assert (fields["status"], fields["request_id"]) == ("ok", made["id"])
    assert HEADER.unpack_from(client.sent[0])[5] == 1
