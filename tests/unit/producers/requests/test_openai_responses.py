from __future__ import annotations

from typing import Any

import orjson
import pytest

from producers.requests.chunk import CONTENT, REASONING, Chunk, Part, Usage
from producers.requests.openai_shapes import response_chunk, response_parts

RESPONSE = {
    "object": "response",
    "status": "completed",
    "model": "m",
    "output": [{"type": "reasoning"}, {"type": "message"}],
    "usage": {"input_tokens": 3, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 1}},
}
USAGE = Usage(3, None, 4, 1)


@pytest.mark.parametrize(
    ("document", "chunk"),
    [
        pytest.param({"type": "response.created", "response": RESPONSE}, Chunk(), id="created only announces"),
        pytest.param(
            {"type": "response.output_text.delta", "delta": "a"}, Chunk(parts=(Part(0, CONTENT, 0),)), id="text"
        ),
        pytest.param({"type": "response.output_text.delta", "delta": ""}, Chunk(), id="text without text"),
        pytest.param(
            {"type": "response.output_text.delta", "delta": "ab", "logprobs": [{}, {}]},
            Chunk(parts=(Part(0, CONTENT, 2),)),
            id="text whose tokens are listed",
        ),
        pytest.param({"type": "response.output_text.done", "text": "ab"}, Chunk(), id="done only repeats"),
        pytest.param(
            {"type": "response.reasoning_text.delta", "delta": "a"},
            Chunk(parts=(Part(0, REASONING, 0),)),
            id="reasoning",
        ),
        pytest.param(
            {"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call"}},
            Chunk(tool_calls=((0, 2),)),
            id="a tool call begins",
        ),
        pytest.param(
            {"type": "response.output_item.added", "item": {"type": "message"}}, Chunk(), id="a message begins"
        ),
        pytest.param(
            {"type": "response.completed", "response": RESPONSE},
            Chunk(finish_reasons=("stop",), usage=USAGE, model="m", done=True, choices=1),
            id="completed",
        ),
        pytest.param(
            {"type": "response.completed", "response": None}, Chunk(done=True, reasons=("unknown_shape",)), id="no body"
        ),
        pytest.param(
            {"type": "response.failed", "response": {"status": "failed", "error": {"code": "rate_limit_exceeded"}}},
            Chunk(error_kind="overload", done=True, choices=1),
            id="failed",
        ),
        pytest.param(
            {"type": "response.output_item.added", "item": {"type": orjson.loads(b"[" * 1_000 + b"]" * 1_000)}},
            Chunk(),
            id="what begins is nested deep",
        ),
        pytest.param({"type": "error", "code": "x", "message": "out of memory"}, Chunk(error_kind="oom"), id="error"),
    ],
)
def test_events_of_a_response_stream(document: dict[str, Any], chunk: Chunk) -> None:
    """Deltas are parts; announcements and repetitions are empty; the last event has usage and end."""
    assert response_chunk(document["type"], document) == chunk


@pytest.mark.parametrize(
    ("change", "finish", "calls", "error_kind"),
    [
        pytest.param({}, ("stop",), (), None, id="stop"),
        pytest.param({"status": None}, ("stop",), (), None, id="no status"),
        pytest.param({"output": [{"type": "function_call"}]}, ("tool_calls",), ((0, 0),), None, id="tool call"),
        pytest.param(
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            ("length",),
            (),
            None,
            id="length",
        ),
        pytest.param(
            {"status": "incomplete", "incomplete_details": {"reason": "x"}}, ("other",), (), None, id="unknown reason"
        ),
        pytest.param({"status": "incomplete", "incomplete_details": {"reason": 5}}, ("other",), (), None, id="no text"),
        pytest.param({"status": "incomplete"}, ("other",), (), None, id="incomplete without details"),
        pytest.param({"status": ["queued"]}, ("other",), (), None, id="a status that is a list"),
        pytest.param({"status": {"queued": 1}}, ("other",), (), None, id="a status that is an object"),
        pytest.param({"status": "cancelled"}, ("abort",), (), None, id="cancelled"),
        pytest.param({"status": "failed", "error": None}, (), (), "other", id="failed without an error"),
    ],
)
def test_how_a_response_ended(
    change: dict[str, Any], finish: tuple[str, ...], calls: tuple[tuple[int, int], ...], error_kind: str | None
) -> None:
    """Status, details and output give the finish reason."""
    expected = Chunk(finish_reasons=finish, tool_calls=calls, usage=USAGE, error_kind=error_kind, model="m")

    assert response_parts(RESPONSE | change) == expected._replace(done=True, choices=1)


def test_a_response_without_anything_is_read_all_the_same() -> None:
    """Fields of wrong types are as if absent."""
    assert response_parts({"output": 7, "usage": 7, "model": 7}) == Chunk(
        finish_reasons=("stop",), done=True, choices=1, reasons=("usage_unreadable",)
    )
