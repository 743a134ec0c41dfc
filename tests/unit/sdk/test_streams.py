"""Streams of ``openai`` and of anything else: passed on untouched, reported once, closed when they are left.

Covers fleetpulse_track.streams.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

import fleetpulse_track as track
from fleetpulse_track import streams
from fleetpulse_track.handover import HEADER, MARKED
from fleetpulse_track.requests import REASONING
from producers.requests.endings import FINISH_REASON_OF
from tests.unit.producers.receiver import sent
from tests.unit.sdk.openai_shapes import CHAT, FIELDS_OF_CHAT, AsyncStream, Stream, delta, said, thing


@pytest.fixture
def client() -> sent.Recorded:
    return sent.Recorded()


def marks(data: bytes) -> list[int]:
    _, _, flags, _, count, *_ = HEADER.unpack_from(data)
    return np.frombuffer(data, "<u4", count, HEADER.size + 8 * count).tolist() if flags & MARKED else [0] * count


class Pieces:
    """Not an iterator itself: every ``iter`` begins a generator."""

    def __init__(self, chunks: list[Any]) -> None:
        self._all = chunks
        self.closed: list[str] = []

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._all
        finally:
            self.closed.append("iterator")

    def close(self) -> None:
        self.closed.append("stream")


@pytest.mark.parametrize("choices", [None, 1, 2])
def test_a_stream_of_several_choices_is_claimed_at_its_first_chunk(client: sent.Recorded, choices: int | None) -> None:
    """Once, without a number in the client's sequence; one of a single choice ends as its plug-in reports it."""
    claimed = []
    for _ in track.watch(Stream(list(map(thing, CHAT))), track.request(client=client, choices=choices)):
        claimed.append(len(client.claimed))

    assert set(claimed) == {int(choices == 2)}
    assert [said(data) for data in client.claimed] == [{"request_id": CHAT[0]["id"]}] * (choices == 2)
    assert [HEADER.unpack_from(data)[9] for data in client.sent] == [0]


@pytest.mark.parametrize("make", [thing, dict], ids=["objects", "dictionaries"])
def test_a_chat_stream_is_passed_on_and_reported(client: sent.Recorded, make: Any) -> None:
    """The role chunk and the usage chunk are no tokens; reasoning and choices are marked."""
    chunks = [make(chunk) for chunk in CHAT]

    passed = list(track.watch(Stream(chunks), track.request(client=client)))

    assert passed == chunks
    (data,) = client.sent
    assert said(data) == FIELDS_OF_CHAT
    assert marks(data) == [REASONING, 0, 0, 1 << 20, 0]


async def test_an_async_stream_is_the_same(client: sent.Recorded) -> None:
    """Chunk for chunk."""
    chunks = [thing(chunk) for chunk in CHAT]

    passed = [chunk async for chunk in track.watch(AsyncStream(chunks), track.request(client=client))]

    assert passed == chunks
    assert [said(data) for data in client.sent] == [FIELDS_OF_CHAT]


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        ("completed", None, ("ok", None)),
        ("incomplete", None, ("ok", None)),
        ("failed", {"code": "server_error", "message": "m"}, ("error", "server")),
        ("failed", {"code": "rate_limit_exceeded"}, ("rejected", "overload")),
        ("failed", {"code": "vector_store_timeout"}, ("timeout", "timeout")),
        ("failed", {"code": 400}, ("error", "client")),
        ("failed", None, ("error", "server")),
        ("cancelled", None, ("aborted", None)),
    ],
)
def test_a_response_that_failed_is_no_success(
    client: sent.Recorded, status: str, error: Any, expected: tuple[str, str | None]
) -> None:
    """Answered whole with 200, or at the end of a stream. What another API calls a status says nothing."""
    answer = {"id": "resp-1", "object": "response", "status": status, "error": error, "usage": {"output_tokens": 2}}
    for each in (answer, answer | {"object": "job"}):
        track.watch(thing(each), track.request(client=client))
    list(track.watch(Stream([thing({"type": f"response.{status}", "response": answer})]), track.request(client=client)))

    whole, other, streamed = ({**said(data)} for data in client.sent)
    assert (whole["status"], whole.get("error_kind")) == expected
    assert (other["status"], other["output_tokens"]) == ("ok", 2)
    assert streamed == whole


def test_what_had_begun_was_not_rejected(client: sent.Recorded) -> None:
    """Its engine broke off, whatever it gives as the reason."""
    failed = {"type": "response.failed", "response": {"id": "r", "error": {"code": "rate_limit_exceeded"}}}
    events = [{"type": "response.output_text.delta", "delta": "a"}, failed]
    list(track.watch(Stream(list(map(thing, events))), track.request(client=client)))

    (fields,) = map(said, client.sent)
    assert (fields["status"], fields["error_kind"]) == ("error", "overload")


def test_a_stream_ends_for_the_reason_that_a_proxy_reads() -> None:
    """Whoever reports a request, its reason is the same."""
    assert dict(FINISH_REASON_OF) == streams._FINISH


@pytest.mark.parametrize(("said_by", "reason"), [("end_turn", "stop"), ("refusal", "content_filter"), ("x", "other")])
def test_a_gateway_may_say_why_in_another_apis_words(client: sent.Recorded, said_by: str, reason: str) -> None:
    """In chunks of this one, and in a whole answer."""
    whole = {"id": "r", "choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": said_by}]}
    list(track.watch(Stream([thing(delta(content="a")), thing(delta(reason=said_by))]), track.request(client=client)))
    track.watch(thing(whole), track.request(client=client))

    assert [said(data)["finish_reason"] for data in client.sent] == [reason, reason]


def counted(index: int, output: int) -> dict[str, Any]:
    """A chunk with what its choice has used so far, as vLLM writes it on request."""
    return delta(index, content="a") | {"usage": {"prompt_tokens": 9, "completion_tokens": output}}


@pytest.mark.parametrize(
    ("chunks", "tokens"),
    [
        pytest.param([counted(0, 1), counted(0, 2)], (9, 2), id="one choice"),
        pytest.param([counted(0, 1), counted(1, 1), counted(0, 3), counted(1, 2)], (9, 5), id="two choices"),
        pytest.param([counted(0, 3), counted(1, 2), CHAT[-1]], (9, 4), id="and a count of the request"),
        pytest.param([delta(content="a"), counted(1, 2)], (9, None), id="a choice without a count"),
    ],
)
def test_running_counts_of_several_choices_add_up(
    client: sent.Recorded, chunks: list[dict[str, Any]], tokens: tuple[int, int | None]
) -> None:
    """Each counts its own choice, all of them one prompt; where the count of one is missing the agent counts chunks."""
    list(track.watch(Stream(list(map(thing, chunks))), track.request(client=client)))

    (fields,) = map(said, client.sent)
    assert (fields["input_tokens"], fields.get("output_tokens"), fields["tokens_from"]) == (*tokens, "engine")


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


def test_a_stream_left_early_was_aborted_and_its_response_is_closed(client: sent.Recorded) -> None:
    """By close, by the end of a with, by break, by an exception, before the first chunk: the engine stops."""
    closed, left, dropped, failed, unread = (Stream([thing(chunk) for chunk in CHAT]) for _ in range(5))
    watched = track.watch(closed, track.request(client=client))
    next(watched)
    watched.close()
    with track.watch(left, track.request(client=client)) as watched:
        next(watched)
    for _ in track.watch(dropped, track.request(client=client)):
        break
    with contextlib.suppress(KeyError):
        for _ in track.watch(failed, track.request(client=client)):
            raise KeyError
    track.watch(unread, track.request(client=client))
    del watched
    gc.collect()

    assert [said(data)["status"] for data in client.sent] == ["aborted"] * 5
    assert [stream.response.is_closed for stream in (closed, left, dropped, failed, unread)] == [True] * 5


@pytest.mark.parametrize("name", ["close", "aclose"])
async def test_an_async_stream_left_early_was_aborted_and_its_response_is_closed(
    client: sent.Recorded, name: str
) -> None:
    """By either name of closing, whatever the stream itself calls it, and by the end of a with."""
    closed, left = (AsyncStream([thing(chunk) for chunk in CHAT]) for _ in range(2))
    watched = track.watch(closed, track.request(client=client))
    await anext(watched)
    await getattr(watched, name)()
    async with track.watch(left, track.request(client=client)) as watched:
        await anext(watched)

    assert [said(data)["status"] for data in client.sent] == ["aborted"] * 2
    assert (closed.response.is_closed, left.response.is_closed) == (True, True)


async def test_generators_left_early_are_closed(client: sent.Recorded) -> None:
    """Of both kinds: their ``finally`` runs at once."""
    ended: list[str] = []

    def pieces() -> Iterator[str]:
        try:
            yield "a"
        finally:
            ended.append("plain")

    async def later() -> AsyncIterator[str]:
        try:
            yield "a"
        finally:
            ended.append("async")

    next(watched := track.watch(pieces(), track.request(client=client)))
    watched.close()
    await anext(awaited := track.watch(later(), track.request(client=client)))
    await awaited.close()

    assert ended == ["plain", "async"]
    assert [said(data)["status"] for data in client.sent] == ["aborted"] * 2


def test_a_stream_that_is_no_iterator_is_closed_with_its_iterator(client: sent.Recorded) -> None:
    """The iterator first."""
    stream = Pieces(["a", "b"])
    next(watched := track.watch(stream, track.request(client=client)))

    watched.close()

    assert stream.closed == ["iterator", "stream"]


def test_a_stream_of_which_something_was_taken_is_not_closed_when_dropped(client: sent.Recorded) -> None:
    """Its caller reads on, past what is watched; the request has ended."""

    class WithTexts(Stream):
        @property
        def text_stream(self) -> Iterator[Any]:
            return iter(self)

    stream = WithTexts([thing(chunk) for chunk in CHAT])
    for _ in track.watch(stream, track.request(client=client)).text_stream:
        gc.collect()
        assert not stream.response.is_closed

    assert next(stream, None) is None
    assert [said(data)["status"] for data in client.sent] == ["aborted"]


def test_a_stream_read_to_its_end_is_left_alone_when_dropped(client: sent.Recorded) -> None:
    """The engine has ended it; who opened it may keep it."""
    stream = Stream([thing(CHAT[2])])
    assert len(list(track.watch(stream, track.request(client=client)))) == 1
    gc.collect()

    assert not stream.response.is_closed
    assert [said(data)["status"] for data in client.sent] == ["ok"]


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
    stream, awaited = Stream([]), AsyncStream([])
    watched = track.watch(stream, track.request(client=client))

    assert watched.response is stream.response
    assert track.watch(awaited, track.request(client=client)).response is awaited.response
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
    """Whatever its shape, nothing is raised and the request is reported once."""
    assert list(track.watch(Stream([chunk]), track.request(client=client))) == [chunk]
    assert [said(data)["status"] for data in client.sent] == ["ok"]


def test_a_stream_left_after_its_last_reason_went_well(client: sent.Recorded) -> None:
    """Its caller waited for nothing more; one of two choices that ended is not both of them."""
    for chunks in ([delta(content="a"), delta(reason="stop")], [delta(1, content="b"), delta(reason="stop")]):
        with track.watch(Stream([*chunks, delta(reason="stop")]), track.request(client=client)) as watched:
            for _ in zip(range(2), watched, strict=False):
                pass

    assert [said(data)["status"] for data in client.sent] == ["ok", "aborted"]
