from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.requests.chunk import CONTENT, DONE, REASONING, Chunk, EngineTimes, Part, Usage
from producers.requests.openai_shapes import body_of, chunk_of
from producers.requests.reasons import REASONS
from schemas.events.event_types import ERROR_KINDS, FINISH_REASONS


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"index": index, "delta": fields, "finish_reason": finish}


TEXT = Chunk(parts=(Part(0, CONTENT, 0),))


@pytest.mark.parametrize(
    ("choices", "chunk"),
    [
        pytest.param([delta(role="assistant", content="")], Chunk(), id="the role that opens a stream"),
        pytest.param([delta(content="a")], TEXT, id="text"),
        pytest.param([delta(content="a", finish="length")], TEXT._replace(finish_reasons=("length",)), id="last text"),
        pytest.param([delta(finish="stop")], Chunk(finish_reasons=("stop",)), id="a finish reason alone"),
        pytest.param([delta(reasoning_content="a")], Chunk(parts=(Part(0, REASONING, 0),)), id="reasoning, first name"),
        pytest.param([delta(reasoning="a", content=None)], Chunk(parts=(Part(0, REASONING, 0),)), id="second name"),
        pytest.param([delta(reasoning="a", content="b")], TEXT, id="reasoning and text together are text"),
        pytest.param(
            [delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}])],
            Chunk(parts=(Part(0, REASONING, 0),)),
            id="reasoning, a list of thoughts",
        ),
        pytest.param([delta(content=[{"type": "text", "text": "a"}])], TEXT, id="text in a list"),
        pytest.param([delta(content=[{"type": "thinking"}, {"type": "text"}])], TEXT, id="thoughts and text in a list"),
        pytest.param([delta(content=[7])], TEXT, id="a list of something else"),
        pytest.param([delta(refusal="no")], TEXT, id="refusal"),
        pytest.param(
            [delta(tool_calls=[{"index": 0, "id": "c"}, {"index": 1, "id": "d"}])],
            TEXT._replace(tool_calls=((0, 0), (0, 1))),
            id="two tool calls",
        ),
        pytest.param(
            [delta(tool_calls=[7, {"id": "c"}])], TEXT._replace(tool_calls=((0, 1),)), id="a broken tool call"
        ),
        pytest.param([delta(function_call={"name": "f"})], TEXT._replace(tool_calls=((0, 0),)), id="function call"),
        pytest.param(
            [delta(0, content="a"), delta(1, reasoning="b")],
            Chunk(parts=(Part(0, CONTENT, 0), Part(1, REASONING, 0))),
            id="two choices in one chunk",
        ),
        pytest.param([delta(-1, content="a")], TEXT, id="an index below zero"),
        pytest.param([delta(10**6, content="a")], TEXT, id="an index beyond bounds"),
        pytest.param(
            [{**delta(content="ab"), "token_ids": [5, 6]}], Chunk(parts=(Part(0, CONTENT, 2),)), id="token ids"
        ),
        pytest.param(
            [{**delta(content="ab"), "logprobs": {"content": [{}, {}, {}]}}],
            Chunk(parts=(Part(0, CONTENT, 3),)),
            id="logprobs of chat",
        ),
        pytest.param([{"index": 0, "text": "a"}], TEXT, id="completions"),
        pytest.param([{"index": 0, "text": ""}], Chunk(), id="completions without text"),
        pytest.param(
            [{"index": 0, "text": "ab", "logprobs": {"tokens": ["a", "b"]}}],
            Chunk(parts=(Part(0, CONTENT, 2),)),
            id="logprobs of completions",
        ),
        pytest.param([], Chunk(), id="no choices"),
        pytest.param([7, None, {"delta": 7}], Chunk(), id="choices that are none"),
    ],
)
def test_choices_of_a_chunk(choices: list[Any], chunk: Chunk) -> None:
    """Content, reasoning, tool calls and ends, choice by choice; an empty delta is no token."""
    assert chunk_of(orjson.dumps({"choices": choices})) == chunk


@pytest.mark.parametrize(
    ("document", "chunk"),
    [
        pytest.param(
            {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}, "model": "m"},
            Chunk(usage=Usage(1, None, 2), model="m"),
            id="usage at the end counts the request",
        ),
        pytest.param(
            {"choices": [delta(1, content="a")], "usage": {"completion_tokens": 2}},
            Chunk(parts=(Part(1, CONTENT, 0),), usage=Usage(output=2), usage_of=1),
            id="usage as it goes counts its choice",
        ),
        pytest.param(
            {"choices": [], "usage": {"completion_tokens": 9}, "timings": {"prompt_ms": 1, "draft_n_accepted": 4}},
            Chunk(usage=Usage(output=9, speculative=4), engine_times=EngineTimes(None, 1_000)),
            id="llama.cpp with drafts",
        ),
        pytest.param(
            {"choices": [delta(finish="stop")], "x_groq": {"usage": {"completion_tokens": 9}}},
            Chunk(finish_reasons=("stop",), usage=Usage(output=9), usage_of=0),
            id="Groq",
        ),
        pytest.param({"error": {"message": "m", "code": 400}}, Chunk(error_kind="client"), id="error"),
        pytest.param({"object": "error", "message": "m", "code": 500}, Chunk(error_kind="server"), id="error, bare"),
        pytest.param({"error": "x", "error_type": "overloaded"}, Chunk(error_kind="overload"), id="error, TGI"),
        pytest.param({"error": None, "choices": [delta(content="a")]}, TEXT, id="an error of null is none"),
        pytest.param({"type": "response.output_text.delta", "delta": "a"}, TEXT, id="responses"),
        pytest.param({}, Chunk(reasons=("unknown_shape",)), id="an empty object ends nothing"),
    ],
)
def test_documents_of_a_stream(document: dict[str, Any], chunk: Chunk) -> None:
    """Usage, phases and errors beside or instead of choices."""
    assert chunk_of(orjson.dumps(document)) == chunk


@pytest.mark.parametrize("data", [b"[DONE]", b" [DONE] "])
def test_the_last_event_of_a_stream(data: bytes) -> None:
    """OpenAI's word for the end."""
    assert chunk_of(data) == DONE


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "broken_json"),
        (b"", "broken_json"),
        (b'{"a":"\xff"}', "broken_json"),
        (b"[]", "no_object"),
        (b"7", "no_object"),
    ],
)
def test_what_is_no_object_is_counted(data: bytes, reason: str) -> None:
    """Cut, broken UTF-8, or JSON of another kind."""
    assert chunk_of(data) == body_of(data) == Chunk(reasons=(reason,))


@pytest.mark.parametrize(
    ("document", "chunk"),
    [
        pytest.param(
            {
                "model": "m",
                "choices": [
                    {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"},
                    {"index": 1, "message": {"tool_calls": [{"id": "x"}]}, "finish_reason": "tool_calls"},
                ],
                "usage": {"prompt_tokens": 5, "completion_tokens": 6},
            },
            Chunk(
                parts=(Part(0, CONTENT, 0), Part(1, CONTENT, 0)),
                finish_reasons=("stop", "tool_calls"),
                tool_calls=((1, 0),),
                usage=Usage(5, None, 6),
                model="m",
                done=True,
                choices=2,
                finished=(0, 1),
            ),
            id="chat with two choices",
        ),
        pytest.param(
            {"object": "list", "data": [], "model": "e", "usage": {"prompt_tokens": 5, "total_tokens": 5}},
            Chunk(usage=Usage(5), model="e", done=True),
            id="embeddings",
        ),
        pytest.param({"object": "list", "data": []}, Chunk(done=True), id="a list of models"),
        pytest.param(
            {"object": "response", "status": "completed", "usage": {"input_tokens": 1, "output_tokens": 2}},
            Chunk(finish_reasons=("stop",), usage=Usage(1, None, 2), done=True, choices=1),
            id="a response",
        ),
        pytest.param(
            {
                "object": "response",
                "status": "failed",
                "error": {"code": "server_error"},
                "usage": {"input_tokens": 1, "output_tokens": 2},
            },
            Chunk(usage=Usage(1, None, 2), error_kind="server", done=True, choices=1),
            id="a response that failed cost what it used",
        ),
        pytest.param(
            {"object": "response", "id": "resp_1", "status": "queued", "model": "m"},
            Chunk(model="m", done=True, answer_id="resp_1", reasons=("background",)),
            id="a response in the background",
        ),
        pytest.param({"input_tokens": 14}, Chunk(done=True), id="a count of tokens uses none"),
        pytest.param({"detail": "Not Found"}, Chunk(done=True), id="FastAPI's refusal"),
        pytest.param({"detail": [{"loc": ["body"], "msg": "m"}]}, Chunk(done=True), id="FastAPI's refusal of a body"),
        pytest.param({"error": {"code": 429}}, Chunk(error_kind="overload"), id="an error"),
    ],
)
def test_whole_bodies(document: dict[str, Any], chunk: Chunk) -> None:
    """A whole body gives what a stream gives."""
    assert body_of(orjson.dumps(document)) == chunk


WORDS = st.sampled_from(
    "choices delta message content tool_calls usage prompt_tokens completion_tokens completion_tokens_details index "  # noqa: SIM905
    "finish_reason error type response.completed response response.output_item.added item timings object output "
    "status failed logprobs token_ids code model".split()
)
VALUES = st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats(allow_nan=False) | WORDS | st.just("")
DOCUMENTS = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=6), max_leaves=25
)


@given(DOCUMENTS)
def test_nothing_raises_on_any_json(document: Any) -> None:
    """Whatever comes, the answer stays inside the closed sets."""
    for chunk in (chunk_of(orjson.dumps(document)), body_of(orjson.dumps(document))):
        assert set(chunk.reasons) <= set(REASONS)
        assert set(chunk.finish_reasons) <= set(FINISH_REASONS)
        assert chunk.error_kind in (None, *ERROR_KINDS)
        assert all(part.tokens >= 0 and 0 <= part.choice < 65_536 for part in chunk.parts)
        assert all(amount is None or amount >= 0 for amount in chunk.usage or ())
