"""Requesting usage changes nothing else; what was not requested is taken out of any stream, cut anywhere."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.proxy.usage import (
    HELD_BYTES_MAX,
    Level,
    UsageFilter,
    UsageRequest,
    is_usage,
    options_to_extend,
    without_running_usage,
)
from producers.proxy.wire import Answer
from producers.requests.request_meta import client_fields
from schemas.codec.values import DEPTH_MAX

USAGE = b'data: {"id":"x","choices":[],"usage":{"prompt_tokens":1}}'
KEPT = (
    b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}',
    b'data: {"choices":[],"usage":null}',
    b'data: {"choices":[],"usage":{',
    b": a comment",
    b"data: [DONE]",
    b"event: x\ndata: {}",
)


def with_level(body: bytes, level: Level) -> bytes | None:
    sent = UsageRequest(options_to_extend(body, client_fields("chat", body))).body(body, level)
    return None if sent == body else sent


def with_usage(body: bytes) -> bytes | None:
    return with_level(body, Level.FINAL)


@pytest.mark.parametrize(
    ("body", "added"),
    [
        (b'{"stream":true}', b',"stream_options":{"include_usage":true}}'),
        (b'{"stream":true}\n ', b',"stream_options":{"include_usage":true}}'),
        (b'{"stream":true,"stream_options":null}', b',"stream_options":{"include_usage":true}}'),
        (
            b'{"stream":true,"stream_options":{"x":1,"include_usage":false}}',
            b',"stream_options":{"x":1,"include_usage":true}}',
        ),
    ],
)
def test_usage_is_requested_at_the_end_of_the_body(body: bytes, added: bytes) -> None:
    """Every byte before the last brace stays; the last of two keys counts, with the client's other options."""
    changed = with_usage(body)

    assert changed == body.rstrip()[:-1] + added
    assert orjson.loads(changed)["stream_options"]["include_usage"] is True


RUNNING = {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize("own", [None, {}, {"include_usage": False}, {"include_usage": True}, {"x": 1}], ids=str)
def test_the_highest_level_adds_running_usage(own: dict[str, Any] | None) -> None:
    """To a client's own options, and to those that request usage at the end too."""
    body = orjson.dumps({"stream": True} if own is None else {"stream": True, "stream_options": own})

    changed = with_level(body, Level.RUNNING)

    assert changed is not None
    assert orjson.loads(changed)["stream_options"] == {**(own or {}), **RUNNING}


@pytest.mark.parametrize("depth", [300, DEPTH_MAX + 1])
def test_options_nested_too_deep_to_be_written_go_on_as_they_came(depth: int) -> None:
    """They can be read, to four times the depth; the engine says what it makes of them. The bound is that of every
    foreign object."""
    body = b'{"stream":true,"stream_options":{"x":' + b"[" * depth + b"]" * depth + b"}}"

    assert with_level(body, Level.RUNNING) is None


def test_an_upstream_that_takes_nothing_gets_nothing() -> None:
    """Nor does a client that requests running usage itself meet a filter."""
    body = orjson.dumps({"stream": True, "stream_options": RUNNING})

    assert with_level(b'{"stream":true}', Level.NOTHING) is None
    assert with_level(body, Level.RUNNING) is None


def rejected(request: UsageRequest, body: bytes) -> bool:
    assert request.holds(Answer(status=400))
    assert request.hold([body])
    return request.withdraw()


def test_each_rejection_takes_one_step_down() -> None:
    """Running usage, usage at the end, none; what is answered then is what the upstream takes."""
    body, request = b'{"stream":true}', UsageRequest({})
    sent = []
    for _ in range(2):
        sent.append(request.body(body, Level.RUNNING))
        assert rejected(request, b"unknown: stream_options.continuous_usage_stats")
    sent.append(request.body(body, Level.RUNNING))

    assert [b"continuous" in each for each in sent] == [True, False, False]
    assert [b"include_usage" in each for each in sent] == [True, True, False]
    assert (request.filter, sent[-1]) == (None, body)
    assert request.proven(Answer(status=200)) is Level.NOTHING
    assert request.proven(Answer(status=500)) is None


OTHER = '{"type":"missing","loc":["body","messages"],"input":{"stream_options":{"include_usage":true}}}'
REJECTIONS = {
    "pydantic, of the option": (
        '{"detail":[{"type":"extra_forbidden","loc":["body","stream_options","continuous_usage_stats"]}]}',
        True,
    ),
    "pydantic, of another field": (f'{{"detail":[{OTHER}]}}', False),
    "pydantic, of both": (f'{{"detail":[{OTHER},{{"loc":["body","stream_options"]}}]}}', True),
    "vLLM, of another field": (
        """{"error":{"message":"[{'loc': ('body', 'messages'), 'input': {'stream_options': {}}}]"}}""",
        False,
    ),
    "vLLM, of the option": ("""{"error":{"message":"[{'loc': ('body', 'stream_options')}]","param":null}}""", True),
    "OpenAI, of another field": ('{"error":{"message":"stream_options were fine","param":"messages"}}', False),
    "OpenAI, of the option": ('{"error":{"message":"Unknown parameter","param":"stream_options"}}', True),
    "the body as a whole": ('{"detail":[{"loc":["body"],"msg":"stream_options need a stream"}]}', True),
    "a text": ("unknown field `stream_options`", True),
}


@pytest.mark.parametrize(("answer", "expected"), REJECTIONS.values(), ids=REJECTIONS)
def test_a_rejection_of_another_field_is_the_clients(answer: str, expected: bool) -> None:
    """Servers repeat the request beside what they reject; sent again it would be rejected again."""
    request = UsageRequest({})
    request.body(b'{"stream":true}', Level.RUNNING)

    assert rejected(request, answer.encode()) is expected


def test_a_body_with_the_option_of_its_own_proves_nothing() -> None:
    """An upstream may refuse the key that comes twice: streams of others are asked for their counts all the same."""
    body, request = b'{"stream":true,"stream_options":null}', UsageRequest({})
    for _ in range(2):
        request.body(body, Level.RUNNING)
        assert rejected(request, b"duplicate field `stream_options`")

    assert request.body(body, Level.RUNNING) == body
    assert request.proven(Answer(status=200)) is None


def test_a_rejection_that_names_the_option_itself_proves_it_for_all() -> None:
    """Also where the client's body has the key: all clients of an upstream may have it."""
    body, request = b'{"stream":true,"stream_options":{"include_usage":true}}', UsageRequest({"include_usage": True})
    request.body(body, Level.RUNNING)
    assert rejected(request, b"extra_forbidden: stream_options.continuous_usage_stats")

    assert request.body(body, Level.RUNNING) == body
    assert request.proven(Answer(status=200)) is Level.FINAL


def test_an_answer_for_another_reason_is_released() -> None:
    """It comes out whole, and proves nothing."""
    request = UsageRequest({})
    request.body(b'{"stream":true}', Level.RUNNING)

    assert not rejected(request, b"max_tokens is too large")
    answer, pieces = request.release()

    assert (answer.status, pieces, request.answer, request.filter) == (400, [b"max_tokens is too large"], None, None)
    assert request.proven(Answer(status=200)) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"stream":false}',
        b"{}",
        b'{"stream":1}',
        b'{"stream":true,"stream_options":{"include_usage":true}}',
        b'{"stream":true,"stream_options":7}',
        b"[1]",
        b"no JSON",
    ],
)
def test_a_body_is_unchanged_where_usage_is_not_to_be_requested(body: bytes) -> None:
    """No stream, the client asks itself, or what it sends makes no sense."""
    assert with_usage(body) is None


@given(st.dictionaries(st.text(max_size=5), st.none() | st.integers(-5, 5) | st.text(max_size=5), max_size=4))
def test_all_else_means_the_same(more: dict[str, Any]) -> None:
    """Read by a JSON parser, the body differs in the one option alone."""
    body = {**more, "stream": True}

    changed = with_usage(orjson.dumps(body))

    assert changed is not None
    assert orjson.loads(changed) == {**body, "stream_options": {"include_usage": True}}


def test_only_usage_without_choices_is_the_chunk() -> None:
    """Not what has content beside it, nor what is no JSON."""
    assert is_usage(USAGE)
    assert [is_usage(event) for event in KEPT] == [False] * len(KEPT)


@given(
    st.lists(st.sampled_from((*KEPT, USAGE)), max_size=8),
    st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r"]),
    st.lists(st.integers(0, 600), max_size=30),
)
def test_the_chunk_is_gone_wherever_the_stream_is_cut(events: list[bytes], end: bytes, cuts: list[int]) -> None:
    """All other bytes come out in order, whatever the pieces and line ends."""
    stream = b"".join(event + end for event in events)
    bounds = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    filtering = UsageFilter()

    out = b"".join(filtering.feed(stream[a:b]) for a, b in itertools.pairwise(bounds)) + filtering.finish()

    expected = b"".join(event + end for event in events if event != USAGE)
    assert out.replace(b"\r\n", b"\n") == expected.replace(b"\r\n", b"\n")


@pytest.mark.parametrize(("event", "kept"), [(USAGE, b""), (KEPT[0], KEPT[0] + b"\r\n\r\n")], ids=["usage", "kept"])
def test_a_line_end_that_is_cut_in_two_belongs_to_its_event(event: bytes, kept: bytes) -> None:
    """The event goes on at once; its last line feed comes, or goes, with it and opens no other."""
    filtering = UsageFilter()

    begun = filtering.feed(event + b"\r\n\r")
    rest = filtering.feed(b"\n" + USAGE + b"\r\n\r\n" + KEPT[0] + b"\n\n")

    assert (begun, begun + rest + filtering.finish()) == (kept[:-1], kept + KEPT[0] + b"\n\n")


def test_whole_events_are_not_held_back() -> None:
    """What ends with an event is through at once; the rest when its end comes, or when it is too long."""
    filtering = UsageFilter()

    assert filtering.feed(KEPT[0] + b"\n\ndata: {") == KEPT[0] + b"\n\n"
    assert filtering.feed(b"}\n\n") == b"data: {}\n\n"
    assert filtering.feed(b"x" * (HELD_BYTES_MAX + 1)) == b"x" * (HELD_BYTES_MAX + 1)
    assert filtering.feed(b"tail") == b""
    assert filtering.finish() == b"tail"


def test_a_usage_that_ends_the_stream_is_taken_out() -> None:
    """Also without the blank line behind it."""
    filtering = UsageFilter()

    assert filtering.feed(USAGE) + filtering.finish() == b""


RECORDED = Path(__file__).resolve().parents[3] / "data" / "engine_answers" / "vllm-0.32.0"


def stream_of(name: str) -> list[dict[str, Any]]:
    return [
        json.loads(event[6:]) for event in (RECORDED / name).read_text().split("\n\n") if event.startswith("data: {")
    ]


@pytest.mark.parametrize(
    "name", ["chat_stream_continuous.sse", "chat_stream_n3_continuous.sse", "completions_stream_continuous.sse"]
)
@pytest.mark.parametrize("keep_final", [False, True], ids=["no usage requested", "usage requested"])
@pytest.mark.parametrize("size", [1, 7, 300, 100_000])
def test_a_real_stream_with_running_usage_has_what_its_client_requested(name: str, keep_final: bool, size: int) -> None:
    """Chunk by chunk the same but for the counts, whatever the pieces."""
    raw, filtering = (RECORDED / name).read_bytes(), UsageFilter(keep_final=keep_final)

    out = b"".join(filtering.feed(raw[at : at + size]) for at in range(0, len(raw), size)) + filtering.finish()

    chunks = [json.loads(event[6:]) for event in out.split(b"\n\n") if event.startswith(b"data: {")]
    expected = [{k: v for k, v in chunk.items() if k != "usage" or not chunk["choices"]} for chunk in stream_of(name)]
    assert chunks == [chunk for chunk in expected if chunk["choices"] or keep_final]
    assert out.endswith(b"data: [DONE]\n\n")


CONTENT = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":{"total_tokens":4}}'
PLAIN = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}'
FINISH = b'data: {"choices":[{"delta":{"content":""},"finish_reason":"stop"}],"usage":{"total_tokens":5}}'
FINISHED = b'data: {"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}'
DONE = b"data: [DONE]"


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ([CONTENT, FINISH, DONE], [PLAIN, FINISH, DONE]),
        ([CONTENT, FINISH], [PLAIN, FINISH]),
        ([CONTENT, FINISH, b": ping", DONE], [PLAIN, b": ping", FINISH, DONE]),
        ([CONTENT, FINISH, USAGE, DONE], [PLAIN, FINISHED, USAGE, DONE]),
        ([FINISH, CONTENT, FINISH, DONE], [FINISHED, PLAIN, FINISH, DONE]),
        ([FINISH, FINISH, USAGE, DONE], [FINISHED, FINISHED, USAGE, DONE]),
    ],
    ids=["in the last chunk", "no end", "a comment", "alone", "several choices", "several choices and alone"],
)
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_usage_that_comes_with_the_last_choice_reaches_who_requested_it(
    sent: list[bytes], shown: list[bytes], end: bytes, size: int
) -> None:
    """LMDeploy has no chunk of usage alone: that of the last chunk is the request's."""
    raw, filtering = b"".join(each + end for each in sent), UsageFilter(keep_final=True)

    out = b"".join(filtering.feed(raw[at : at + size]) for at in range(0, len(raw), size)) + filtering.finish()

    assert out.replace(b"\r", b"").rstrip().split(b"\n\n") == shown


def test_a_long_event_does_not_overtake_the_chunk_before_it() -> None:
    """That waited to be the last, and was not: it goes first, without its count."""
    filtering, long = UsageFilter(keep_final=True), b"data: " + b"x" * HELD_BYTES_MAX

    assert filtering.feed(FINISH + b"\n\n" + long[:10]) == b""
    assert filtering.feed(long[10:]) == FINISHED + b"\n\n" + long
    assert filtering.feed(b"\n\n" + DONE + b"\n\n") + filtering.finish() == b"\n\n" + DONE + b"\n\n"


def test_without_a_request_for_it_no_usage_is_held() -> None:
    """What finishes goes on at once."""
    assert UsageFilter().feed(FINISH + b"\n\n") == FINISHED + b"\n\n"


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"choices":[{"delta":{"content":"say \\",\\"usage\\":{\\"a\\":1}\\" twice"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"b"}}],"usage":null}\n\n',
        b'data: {"choices":[{"delta":{"content":"b"}}],"usage":[1]}\n\n',
        b'data: {"choices":[{"delta":{"content":"b"}}],"usage":{"a":\n\n',
    ],
    ids=["a text that looks so", "null", "no object", "cut off"],
)
def test_what_is_no_count_stays(event: bytes) -> None:
    """Byte by byte."""
    assert without_running_usage(event) == event
    assert UsageFilter().feed(event) == event


def test_counts_of_parts_go_with_their_whole() -> None:
    """An object within the count, and fields behind it."""
    event = b'data: {"choices":[{"text":"b"}],"usage":{"a":1,"prompt_details":{"cached":2},"b":3},"z":null}'

    assert without_running_usage(event) == b'data: {"choices":[{"text":"b"}],"z":null}'
