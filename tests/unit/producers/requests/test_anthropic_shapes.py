"""Anthropic's messages: a stream's events and whole answers, as their reference shows them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from producers.requests.anthropic_shapes import usage_of_message
from producers.requests.chunk import Usage
from producers.requests.endings import Ending, How
from producers.requests.openai_shapes import read_document
from producers.requests.request_meta import RequestMeta
from producers.requests.tracker import Tracker

START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-1",
        "stop_reason": None,
        "usage": {"input_tokens": 25, "cache_read_input_tokens": 100, "output_tokens": 1},
    },
}
STREAM: list[dict[str, Any]] = [
    START,
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQ"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t", "name": "n"}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 15}},
    {"type": "message_stop"},
]
LABELS = {"host": "h", "origin": "measured"}


def tracked(
    *events: dict[str, Any], streamed: bool = True, how: How = How.COMPLETE
) -> tuple[dict[str, Any], dict[str, int]]:
    """The row of an answer of these events, a millisecond apart; and what could not be read."""
    tracker = Tracker(RequestMeta("r", "messages", "claude-1", streamed=streamed, choices=1, labels=LABELS), 10**9)
    tracker.status(10**9, 200)
    at_ns = 10**9
    for event in events:
        at_ns += 10**6
        (tracker.data if streamed else tracker.body)(at_ns, orjson.dumps(event))
    row = tracker.end(at_ns, 1_700_000_000_000, Ending(how))
    assert row is not None
    return row, dict(tracker.reasons)


def test_what_a_start_says_of_output_is_no_count() -> None:
    """Servers write 1 there before anything is generated; of a stream that its client left, what came is counted."""
    row, unread = tracked(*STREAM[:8], how=How.CLIENT_GONE)

    assert (row["input_tokens"], row["output_tokens"], row["tokens_from"]) == (125, 2, "counted")
    assert unread == {}


def test_a_stream_has_its_latencies_tokens_and_end() -> None:
    """The first token is the first thought, the first of the output the first text; cached tokens are in the input."""
    row, unread = tracked(*STREAM)

    assert (row["ttft_us"], row["ttfo_us"], row["chunks"]) == (4_000, 8_000, 3)
    assert (row["input_tokens"], row["cached_tokens"], row["output_tokens"]) == (125, 100, 15)
    assert (row["status"], row["finish_reason"], row["tool_calls"]) == ("ok", "tool_calls", 1)
    assert (row["model"], row["api"], unread) == ("claude-1", "messages", {})


def test_a_stream_that_is_given_up_has_what_was_reported_until_then() -> None:
    """The prompt's tokens stand at its begin."""
    row, _ = tracked(*STREAM[:8])

    assert (row["input_tokens"], row["cached_tokens"]) == (125, 100)


def test_a_whole_message_has_its_tokens_and_end() -> None:
    """And its tool calls."""
    message = {
        **START["message"],
        "content": [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "t", "name": "n", "input": {}}],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 3, "cache_creation_input_tokens": 4, "output_tokens": 5},
    }
    row, unread = tracked(message, streamed=False)

    assert (row["input_tokens"], row["output_tokens"], row["finish_reason"], row["tool_calls"]) == (7, 5, "length", 1)
    assert unread == {}


def test_an_error_inside_a_stream_is_one() -> None:
    """Overload, as Anthropic names it."""
    row, _ = tracked(START, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

    assert (row["status"], row["error_kind"]) == ("rejected", "overload")


@pytest.mark.parametrize(
    ("reported", "usage", "bad"),
    [
        (None, None, False),
        ({}, None, False),
        ([], None, True),
        ({"input_tokens": -1, "output_tokens": 2}, Usage(None, None, 2), True),
        ({"input_tokens": "3"}, None, True),
        ({"input_tokens": 3, "cache_read_input_tokens": None}, Usage(3), False),
    ],
)
def test_usage_is_read_field_by_field(reported: object, usage: Usage | None, bad: bool) -> None:
    """What is no whole number is unknown, and counted as such."""
    found, reasons = usage_of_message(reported)

    assert (found, bool(reasons)) == (usage, bad)


DEEP = orjson.loads(b"[" * 1_000 + b"]" * 1_000)


@pytest.mark.parametrize(
    "kind", ["message", "message_start", "message_delta", "content_block_start", "content_block_delta"]
)
@pytest.mark.parametrize("inner", [None, 1, "x", [], [1], {}, {"type": []}, {"type": {}}, {"type": DEEP}])
def test_any_shape_is_read(kind: str, inner: object) -> None:
    """Nothing raises; no token, no usage and no error is made of it."""
    names = ("message", "delta", "content_block", "usage", "index")
    found = read_document({"type": kind, **dict.fromkeys(names, inner), "content": [inner]}, whole=False)

    assert sum(part.tokens for part in found.parts) == 0
    assert (found.usage or Usage(), found.error_kind) == (Usage(), None)


@pytest.mark.parametrize("came", range(9, len(STREAM) + 1))
def test_a_stream_that_breaks_off_in_good_order_is_an_error(came: int) -> None:
    """It ends with a stop reason, or with ``message_stop``; one that closed without either is cut."""
    row, unread = tracked(*STREAM[:came])

    whole = STREAM[came - 1]["type"] in ("message_delta", "message_stop")
    assert (row["status"], row["error_kind"]) == (("ok", None) if whole else ("error", "engine_lost"))
    assert unread == ({} if whole else {"unfinished": 1})


@pytest.mark.parametrize(
    "delta",
    [
        {"type": "text_delta", "text": ""},
        {"type": "thinking_delta", "thinking": ""},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "text_delta"},
    ],
    ids=str,
)
def test_a_delta_without_content_is_no_token(delta: dict[str, Any]) -> None:
    """Servers open a block with one."""
    empty = {"type": "content_block_delta", "index": 0, "delta": delta}

    row, _ = tracked(START, empty, *STREAM[7:8], *STREAM[-2:])

    assert (row["ttft_us"], row["chunks"]) == (3_000, 1)
