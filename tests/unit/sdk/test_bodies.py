"""Bodies of responses: read along, handed on byte for byte, closed when their caller closes them.

Covers fleetpulse_track.bodies.
"""

from __future__ import annotations

import gc
import gzip
import json
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import fleetpulse_track as track
from fleetpulse_track.bodies import EVENT_BYTES_MAX, JSON_BYTES_MAX, Events, Reader, read_along
from fleetpulse_track.handover import HEADER
from tests.unit.producers.receiver import sent
from tests.unit.sdk.openai_shapes import CHAT, FIELDS_OF_CHAT, said

EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}
STREAM = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in CHAT) + b"data: [DONE]\n\n"
WHOLE = json.dumps({"id": "chatcmpl-2", "model": "m", "choices": [], "usage": {"completion_tokens": 6}}).encode()


@pytest.fixture
def client() -> sent.Recorded:
    return sent.Recorded()


class Bytes(httpx.SyncByteStream):
    """A connection; ``closed`` counts."""

    def __init__(self, chunks: list[bytes], error: BaseException | None = None) -> None:
        self.chunks = chunks
        self.error = error
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed += 1


class AsyncBytes(httpx.AsyncByteStream):
    """The same, awaited."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks
        self.closed = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk

    async def aclose(self) -> None:
        self.closed += 1


class Turned:
    """A package's decompressor, as ``brotlicffi`` has it; of an encoding that turns bits around."""

    def decompress(self, data: bytes) -> bytes:
        return bytes(byte ^ 0x55 for byte in data)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def answered(stream: Any, client: sent.Recorded, headers: dict[str, str] = EVENT_STREAM) -> httpx.Response:
    response = httpx.Response(200, headers=headers, stream=stream)
    read_along(response, track.request(client=client))
    return response


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_an_event_stream_is_handed_on_chunk_by_chunk_and_reported(client: sent.Recorded, size: int) -> None:
    """Wherever it was cut; what the caller gets are the objects that came."""
    chunks = cut(STREAM, size)
    stream = Bytes(chunks)

    passed = list(answered(stream, client).stream)  # type: ignore[arg-type]

    assert all(one is other for one, other in zip(passed, chunks, strict=True))
    assert [(said(data), HEADER.unpack_from(data)[5]) for data in client.sent] == [(FIELDS_OF_CHAT, 5)]


async def test_an_async_event_stream_is_the_same(client: sent.Recorded) -> None:
    """Chunk for chunk, through the response."""
    response = answered(AsyncBytes(cut(STREAM, 50)), client)

    assert b"".join([chunk async for chunk in response.aiter_bytes()]) == STREAM
    assert [said(data) for data in client.sent] == [FIELDS_OF_CHAT]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1)), size=st.integers(1, 9)
)
def test_events_are_those_of_the_standard(end: str, texts: list[str], size: int) -> None:
    """Any line end, comments and other fields left out, cut anywhere."""
    fields = "".join(f": comment{end}event: e{end}data: {text}{end}id: 1{end}{end}" for text in texts)
    events = Events()

    found = [event for part in cut(f"{fields}{end}{end}".encode(), size) for event in events.of(part)]

    assert found == [text.encode() for text in texts]


def test_lines_of_one_event_are_joined() -> None:
    """With a line feed, a space after the colon or not."""
    assert list(Events().of(b"data: a\ndata:b\n\ndata\n\n")) == [b"a\nb"]


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_an_event_beyond_the_bound_is_left_out(size: int) -> None:
    """The next one is read; memory stays at the bound."""
    events = Events()
    data = b"data: " + b"x" * (4 * EVENT_BYTES_MAX) + b"\n\ndata: next\n\n"
    parts = cut(data, size)
    tracemalloc.start()

    found = [event for part in parts for event in events.of(part)]

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [b"next"]
    assert peak < 4 * EVENT_BYTES_MAX


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstandard.compress),
        ("br", lambda data: bytes(byte ^ 0x55 for byte in data)),
        ("identity", bytes),
        ("", bytes),
    ],
)
@pytest.mark.parametrize("headers", [EVENT_STREAM, JSON], ids=["stream", "whole"])
def test_encodings_that_this_process_can_unpack_are_read(
    client: sent.Recorded, encoding: str, packed: Any, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets them packed, as they came. ``br`` by whichever package there is."""
    monkeypatch.setitem(sys.modules, "brotli", None)
    monkeypatch.setitem(sys.modules, "brotlicffi", SimpleNamespace(Decompressor=Turned))
    data = packed(STREAM if headers is EVENT_STREAM else WHOLE)

    response = answered(Bytes(cut(data, 40)), client, headers | {"content-encoding": encoding})

    assert b"".join(response.iter_raw()) == data
    assert [said(data)["output_tokens"] for data in client.sent] == [4 if headers is EVENT_STREAM else 6]


@pytest.mark.parametrize(
    ("headers", "data"),
    [
        pytest.param(EVENT_STREAM | {"content-encoding": "br"}, STREAM, id="another encoding"),
        pytest.param(EVENT_STREAM | {"content-encoding": "gzip"}, STREAM, id="a wrong encoding"),
        pytest.param(EVENT_STREAM, b"data: {\n\ndata: \xff\n\ndata: 5\n\n", id="no JSON"),
        pytest.param(JSON, WHOLE + b"x", id="broken JSON"),
        pytest.param(JSON, b'{"x": "%b"}' % (b"x" * JSON_BYTES_MAX), id="a body beyond the bound"),
        pytest.param(JSON | {"content-encoding": "gzip"}, gzip.compress(bytes(2**24)), id="a gzip bomb"),
        pytest.param(JSON | {"content-encoding": "zstd"}, zstandard.compress(bytes(2**24)), id="a zstd bomb"),
        pytest.param({}, b"", id="nothing"),
    ],
)
def test_what_cannot_be_read_is_unknown_and_handed_on(
    client: sent.Recorded, headers: dict[str, str], data: bytes
) -> None:
    """The request is reported all the same."""
    response = answered(Bytes(cut(data, 4_096)), client, headers)

    assert b"".join(response.iter_raw()) == data
    assert [said(data) for data in client.sent] == [{"status": "ok"}]


def test_an_event_that_is_no_json_is_passed_over(client: sent.Recorded) -> None:
    """What a proxy in between puts into a stream; the rest of it counts."""
    response = answered(Bytes([b"data: keep-alive\n\n", STREAM, b"data: bye\n\n"]), client)
    for _ in zip(range(2), response.iter_raw(), strict=False):
        pass
    response.close()

    assert [said(data) for data in client.sent] == [FIELDS_OF_CHAT]


def chunk_of(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return b"data: %b\n\n" % json.dumps({"object": "chat.completion.chunk", "choices": [choice]}).encode()


@pytest.mark.parametrize(
    ("chunks", "status", "error_kind"),
    [
        pytest.param([chunk_of("a")], "error", "engine_lost", id="cut"),
        pytest.param([chunk_of("a"), chunk_of("", "stop")], "ok", None, id="without [DONE]"),
        pytest.param([chunk_of("a"), b"data: [DONE]\n\n"], "ok", None, id="without a reason"),
        pytest.param([chunk_of("a"), b'data: {"error": {"code": 429}}\n\n'], "rejected", "overload", id="an error"),
        pytest.param([b'data: {"choices": []}\n\n'], "ok", None, id="nothing began"),
    ],
)
def test_a_stream_that_says_no_end_lost_its_engine(
    client: sent.Recorded, chunks: list[bytes], status: str, error_kind: str | None
) -> None:
    """A gateway may end it as if it were whole."""
    list(answered(Bytes(chunks), client).iter_raw())

    assert [(said(data)["status"], said(data).get("error_kind")) for data in client.sent] == [(status, error_kind)]


def test_a_stream_closed_early_is_closed_at_once_and_was_aborted(client: sent.Recorded) -> None:
    """Before any byte too; twice reports once."""
    read, unread = Bytes(cut(STREAM, 200)), Bytes([STREAM])
    response = answered(read, client)
    next(response.iter_bytes())
    for one in (response, answered(unread, client), response):
        one.close()

    assert (read.closed, unread.closed) == (1, 1)
    assert [said(data)["status"] for data in client.sent] == ["aborted"] * 2


async def test_an_async_stream_closed_early_is_closed_at_once_and_was_aborted(client: sent.Recorded) -> None:
    """By ``aclose``."""
    stream = AsyncBytes(cut(STREAM, 200))
    response = answered(stream, client)
    await anext(response.aiter_bytes())

    await response.aclose()

    assert stream.closed == 1
    assert [said(data)["status"] for data in client.sent] == ["aborted"]


def test_a_stream_closed_after_its_last_event_went_well(client: sent.Recorded) -> None:
    """``openai`` closes at ``[DONE]`` without reading on."""
    response = answered(Bytes([STREAM, b": more\n\n"]), client)
    next(response.iter_raw())
    response.close()

    assert [said(data)["status"] for data in client.sent] == ["ok"]


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response.failed"])
def test_the_responses_api_ends_with_its_own_event(client: sent.Recorded, kind: str) -> None:
    """There is no ``[DONE]``; an answer that was cut says why."""
    details = {"reason": "max_output_tokens"} if kind == "response.incomplete" else None
    answer = {"id": "r", "usage": {"output_tokens": 2}, "incomplete_details": details}
    event = b"data: %b\n\n" % json.dumps({"type": kind, "response": answer}).encode()
    response = answered(Bytes([event, b"x"]), client)
    next(response.iter_raw())
    response.close()

    failed = {"status": "error", "error_kind": "server"} if kind == "response.failed" else {"status": "ok"}
    cut_off = {"finish_reason": "length"} if details else {}
    assert [said(data) for data in client.sent] == [
        {**failed, **cut_off, "request_id": "r", "output_tokens": 2, "tokens_from": "engine"}
    ]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "EngineCore died", "code": 500}, ("error", "server")),
        ({"message": "slow down", "code": "429"}, ("rejected", "overload")),
        ({"message": "?", "code": "server_error"}, ("error", "server")),
        ({"message": "?"}, ("error", "server")),
    ],
)
def test_an_error_inside_a_stream(client: sent.Recorded, error: dict[str, Any], expected: tuple[str, str]) -> None:
    """vLLM puts it there once it has answered 200; the caller then closes."""
    response = answered(Bytes([b'data: {"error": %b}\n\n' % json.dumps(error).encode()]), client)
    next(response.iter_raw())
    response.close()

    assert [(said(data)["status"], said(data)["error_kind"]) for data in client.sent] == [expected]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (httpx.ReadTimeout("slow"), "timeout"),
        (httpx.RemoteProtocolError("gone"), "error"),
        (KeyboardInterrupt(), "aborted"),
    ],
    ids=str,
)
def test_a_connection_that_breaks_reaches_the_caller(client: sent.Recorded, error: BaseException, status: str) -> None:
    """As it was, and once."""
    response = answered(Bytes([STREAM[:300]], error), client)

    with pytest.raises(type(error)) as seen:
        list(response.stream)  # type: ignore[arg-type]
    response.close()

    assert seen.value is error
    assert [said(data)["status"] for data in client.sent] == [status]


def test_a_response_that_was_dropped_was_aborted(client: sent.Recorded) -> None:
    """Its connection is the garbage collector's, as without tracking."""
    response = answered(Bytes([STREAM]), client)
    del response
    gc.collect()

    assert [said(data)["status"] for data in client.sent] == ["aborted"]


def test_a_response_that_was_read_before_is_reported_at_once(client: sent.Recorded) -> None:
    """From its content, which is decoded."""
    packed = JSON | {"content-encoding": "gzip"}
    read_along(httpx.Response(200, headers=packed, content=gzip.compress(WHOLE)), track.request(client=client))

    assert [said(data)["output_tokens"] for data in client.sent] == [6]


def test_whatever_else_a_stream_offers_is_there(client: sent.Recorded) -> None:
    """And its library knows it by its base."""
    stream = Bytes([])
    response = answered(stream, client)

    assert isinstance(response.stream, httpx.SyncByteStream)
    assert response.stream.chunks is stream.chunks  # type: ignore[attr-defined]


def test_a_stream_of_another_library_is_left_alone(client: sent.Recorded) -> None:
    """It raises here, for who called; the stream is what it was."""
    response = httpx.Response(200, stream=Bytes([]))
    response.stream = stream = object()  # type: ignore[assignment]

    with pytest.raises(ValueError, match="not enough values"):
        read_along(response, track.request(client=client))
    assert response.stream is stream


def test_the_bytes_of_a_whole_body_are_let_go(client: sent.Recorded) -> None:
    """Beyond the bound nothing is kept."""
    reader = Reader(track.request(client=client), "application/json", "")
    for _ in range(10):
        reader.feed(bytes(JSON_BYTES_MAX // 4))

    assert reader._whole == []


def test_a_stream_that_cannot_be_read_was_not_aborted_by_its_close(client: sent.Recorded) -> None:
    """``openai`` closes at ``[DONE]``: whether that had come is unknown here."""
    response = answered(Bytes([STREAM, b"more"]), client, EVENT_STREAM | {"content-encoding": "br"})
    next(response.iter_raw())
    response.close()

    assert [said(data) for data in client.sent] == [{"status": "ok"}]


async def test_reading_on_by_another_iterator_goes_on(client: sent.Recorded) -> None:
    """``openai`` drains what is left after ``[DONE]`` so: a connection whose first iterator ended would be closed."""
    chunks = cut(STREAM, 100)
    plain, awaited = answered(Bytes(chunks), client), answered(AsyncBytes(chunks), client)
    body: Any = plain.stream
    abody: Any = awaited.stream

    assert [next(iter(body)), *body] == chunks
    assert [await anext(aiter(abody)), *[chunk async for chunk in abody]] == chunks
    assert [said(data)["status"] for data in client.sent] == ["ok", "ok"]


def test_a_stream_closed_after_its_last_reason_went_well(client: sent.Recorded) -> None:
    """Its caller waited for nothing more; one of several choices that ended is not all of them."""
    for asked in (None, 2):
        response = httpx.Response(
            200, headers=EVENT_STREAM, stream=Bytes([chunk_of("a"), chunk_of("", "stop"), b"data: [DONE]\n\n"])
        )
        read_along(response, track.request(client=client, choices=asked))
        for _ in zip(range(2), response.iter_raw(), strict=False):
            pass
        response.close()

    assert [said(data)["status"] for data in client.sent] == ["ok", "aborted"]
