"""Asking for usage changes nothing else; its chunk is taken out of any stream, cut anywhere."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.proxy.usage import HELD_BYTES_MAX, UsageFilter, is_usage, usage_option, with_option
from producers.requests.request_meta import client_fields

USAGE = b'data: {"id":"x","choices":[],"usage":{"prompt_tokens":1}}'
KEPT = (
    b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}',
    b'data: {"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":1}}',
    b'data: {"choices":[],"usage":null}',
    b'data: {"choices":[],"usage":{',
    b": a comment",
    b"data: [DONE]",
    b"event: x\ndata: {}",
)


def with_usage(body: bytes) -> bytes | None:
    option = usage_option(body, client_fields("chat", body))
    return None if option is None else with_option(body, option)


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
    """Usage beside content stays, and so does what is no JSON."""
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
