"""Parser of OpenAI-shaped stream events and whole bodies into a ``Chunk``. Never raises on any JSON.

Sources: OpenAI API reference (chat, completions, embeddings, responses and its streaming events); vLLM
``entrypoints/openai/protocol.py`` (``reasoning_content``, later ``reasoning``; ``token_ids``; continuous usage counts
one choice); SGLang ``entrypoints/openai/protocol.py``; llama.cpp ``tools/server`` (``timings``); Groq (times in
``usage``); Text Generation Inference (errors as text with ``error_type``); Mistral (``content`` as a list).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson

from producers.requests import reasons
from producers.requests.anthropic_shapes import EVENTS, message_chunk, type_of
from producers.requests.chunk import CONTENT, DONE, REASONING, Chunk, Part, Usage
from producers.requests.counted_once import ID_LENGTH_MAX, SDK, comes_back, common_id
from producers.requests.endings import finish_reason_of, kind_of_error
from producers.requests.llamacpp_shapes import is_native, native_chunk
from producers.requests.usage import drafts_of, engine_times_of, newer, usage_of, usage_of_timings

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
_CONTENT_FIELDS = ("content", "tool_calls", "function_call", "refusal", "audio")


def chunk_of(data: bytes) -> Chunk:
    """The data of one event of a stream."""
    if data.strip() == b"[DONE]":
        return DONE
    return _read(data, whole=False)


def body_of(body: bytes) -> Chunk:
    """A whole body: of a request that was not streamed, or of an error."""
    return _read(body, whole=True)


def _read(data: bytes, *, whole: bool) -> Chunk:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return Chunk(reasons=(reasons.BROKEN_JSON,))
    if not isinstance(document, dict):
        return Chunk(reasons=(reasons.NO_OBJECT,))
    return read_document(document, whole=whole)


def read_document(document: Mapping[str, Any], *, whole: bool) -> Chunk:
    """The chunk of a parsed event or body."""
    if document.get("object") == "response":
        return response_parts(document)
    error = document.get("error")
    if error or document.get("object") == "error":
        return Chunk(error_kind=kind_of_error(error if error else document, document.get("error_type")))
    choices = document.get("choices")
    if isinstance(choices, list):
        return _of_choices(document, [choice for choice in choices if isinstance(choice, dict)], whole)
    kind = document.get("type")
    if isinstance(kind, str) and (kind == "error" or kind.startswith("response.")):
        return response_chunk(kind, document)
    if isinstance(kind, str) and kind in EVENTS:
        return message_chunk(kind, document)
    if is_native(document):
        return native_chunk(document, whole=whole)
    return _of_rest(document, whole)


def _of_rest(document: Mapping[str, Any], whole: bool) -> Chunk:
    """Embeddings, rerankings, images, transcripts and whatever else says what it used; a usage alone is fine too."""
    reported = document.get("usage")
    usage, problems = usage_of(reported)
    if (
        usage is None
        and isinstance(reported, dict)
        and type(total := reported.get("total_tokens")) is int
        and total >= 0
    ):
        usage = Usage(total)  # of a reranking, which makes none
    results = any(isinstance(document.get(name), list | str) for name in _RESULTS)
    counted = type(document.get("input_tokens")) is int  # the answer of messages/count_tokens, which ran nothing
    if usage is None and not (problems or results or counted):
        problems = (reasons.UNKNOWN_SHAPE,)
    return Chunk(usage=usage, model=text_of(document.get("model")), done=whole, reasons=problems)


_RESULTS = ("data", "results", "text", "detail")
"""And ``detail``: why FastAPI refused a request."""


def _of_choices(document: Mapping[str, Any], choices: list[dict[str, Any]], whole: bool) -> Chunk:
    usage, problems = usage_of(document.get("usage") or _groq_usage(document))
    if len(choices) == 1 and (timed := usage_of_timings(document)) is not None:
        usage = timed if usage is None else newer(timed, usage)
    if (drafts := drafts_of(document)) is not None:
        usage = (usage or Usage())._replace(speculative=drafts)
    parts: list[Part] = []
    finish: list[str] = []
    finished: list[int] = []
    calls: list[tuple[int, int]] = []
    for choice in choices:
        if (part := _part(choice)) is not None:
            parts.append(part)
            calls += _tool_calls(choice)
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            finish.append(finish_reason_of(reason))
            finished.append(_index(choice))
    return Chunk(
        parts=tuple(parts),
        finish_reasons=tuple(finish),
        finished=tuple(finished) if any(finished) else (),
        tool_calls=tuple(calls),
        usage=usage,
        # A count that comes with content counts that choice so far; one that comes alone counts the request.
        usage_of=_index(choices[0]) if usage is not None and len(choices) == 1 and not whole else None,
        engine_times=engine_times_of(document),
        model=text_of(document.get("model")),
        done=whole,
        choices=len(choices) if whole else None,
        answer_id=generated_id(document) if whole else None,
        reasons=problems,
    )


def generated_id(document: Mapping[str, Any]) -> str | None:
    """The id that the engine gave to a chat or completion, of which this is a chunk or all; None where it names none,
    or one that comes back: a number (Ollama, LMDeploy)."""
    answer_id = _answer_id(document) if "choices" in document else None
    return None if answer_id is None or comes_back(common_id(answer_id, SDK)) else answer_id


def _groq_usage(document: Mapping[str, Any]) -> object:
    outer = document.get("x_groq")
    return outer.get("usage") if isinstance(outer, dict) else None


def _part(choice: Mapping[str, Any]) -> Part | None:
    """What the choice brought; None when it is a role, a finish reason or empty."""
    delta = choice.get("delta") or choice.get("message")
    if isinstance(delta, dict):
        kind = kind_of_delta(delta)
        if kind is None:
            return None
    elif choice.get("text"):
        kind = CONTENT
    else:
        return None
    return Part(_index(choice), kind, _tokens(choice))


def kind_of_delta(delta: Mapping[str, Any]) -> int | None:
    """Content, reasoning alone, or neither."""
    for name in _CONTENT_FIELDS:
        if (content := delta.get(name)) and not _is_thinking(content):
            return CONTENT
    if delta.get("content"):
        return REASONING
    for name in _REASONING_FIELDS:
        if delta.get(name):
            return REASONING
    return None


def _is_thinking(content: object) -> bool:
    """Whether it is a list of thoughts alone (Mistral)."""
    if not isinstance(content, list):
        return False
    return all(isinstance(each, dict) and each.get("type") == "thinking" for each in content)


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if type(index) is int and 0 <= index < 65_536 else 0


def _tokens(choice: Mapping[str, Any]) -> int:
    """Tokens of this piece where the engine lists them; 0 where it does not."""
    ids = choice.get("token_ids")
    if isinstance(ids, list) and ids:
        return len(ids)
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return 0
    listed = logprobs.get("content") or logprobs.get("tokens")
    return len(listed) if isinstance(listed, list) else 0


def _tool_calls(choice: Mapping[str, Any]) -> list[tuple[int, int]]:
    delta = choice.get("delta") or choice.get("message")
    if not isinstance(delta, dict):
        return []
    choice_index = _index(choice)
    calls = delta.get("tool_calls")
    if isinstance(calls, list) and calls:
        return [(choice_index, _call_index(call, place)) for place, call in enumerate(calls) if isinstance(call, dict)]
    return [(choice_index, 0)] if delta.get("function_call") else []


def _call_index(call: Mapping[str, Any], place: int) -> int:
    index = call.get("index")
    return index if type(index) is int else place


def text_of(value: object) -> str | None:
    """A non-empty text, else None."""
    return value if isinstance(value, str) and value else None


_DELTAS: Mapping[str, int] = MappingProxyType(
    {
        "response.output_text.delta": CONTENT,
        "response.refusal.delta": CONTENT,
        "response.function_call_arguments.delta": CONTENT,
        "response.custom_tool_call_input.delta": CONTENT,
        "response.mcp_call_arguments.delta": CONTENT,
        "response.code_interpreter_call_code.delta": CONTENT,
        "response.audio.delta": CONTENT,
        "response.audio.transcript.delta": CONTENT,
        "response.reasoning_text.delta": REASONING,
        "response.reasoning_summary_text.delta": REASONING,
        "response.reasoning.delta": REASONING,
    }
)
_LAST = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_DEFERRED = frozenset({"queued", "in_progress"})
"""Statuses of a response that is made in the background, as its request is answered."""
_ANSWER_ID = re.compile(rf"[!-~]{{1,{ID_LENGTH_MAX}}}")
"""``resp_`` and what an engine makes up, or whatever the request's body named (vLLM's ``request_id``)."""
_CALLS = frozenset({"function_call", "custom_tool_call", "mcp_call"})
_INCOMPLETE: Mapping[str, str] = MappingProxyType({"max_output_tokens": "length", "content_filter": "content_filter"})


def response_chunk(kind: str, document: Mapping[str, Any]) -> Chunk:
    """One streaming event. Events that only announce or repeat are empty chunks."""
    if kind in _DELTAS:
        return Chunk(parts=(Part(0, _DELTAS[kind], _listed(document)),)) if document.get("delta") else Chunk()
    if kind == "error":
        return Chunk(error_kind=kind_of_error(document, None))
    if kind == "response.output_item.added":
        item, place = document.get("item"), document.get("output_index")
        if isinstance(item, dict) and type_of(item) in _CALLS:
            return Chunk(tool_calls=((0, place if type(place) is int else 0),))
    response = document.get("response")
    if kind in _LAST:
        if not isinstance(response, dict):
            return Chunk(done=True, reasons=(reasons.UNKNOWN_SHAPE,))
        return response_parts(response)
    return Chunk(answer_id=_answer_id(response)) if isinstance(response, dict) else Chunk()


def _listed(document: Mapping[str, Any]) -> int:
    logprobs = document.get("logprobs")
    return len(logprobs) if isinstance(logprobs, list) else 0


def response_parts(response: Mapping[str, Any]) -> Chunk:
    """The whole object, as it ends a stream or stands alone. It has no parts: its text came before, or all at once."""
    usage, problems = usage_of(response.get("usage"))
    output = response.get("output")
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    calls = tuple((0, place) for place, item in enumerate(items) if type_of(item) in _CALLS)
    error, status = response.get("error"), response.get("status")
    if isinstance(status, str) and status in _DEFERRED:
        model = text_of(response.get("model"))
        return Chunk(model=model, done=True, answer_id=_answer_id(response), reasons=(reasons.BACKGROUND,))
    failed = kind_of_error(error, None) if error or status == "failed" else None
    model = response.get("model")
    return Chunk(
        finish_reasons=() if failed else (_finish_reason(status, response.get("incomplete_details"), bool(calls)),),
        tool_calls=calls,
        usage=usage,
        engine_times=engine_times_of(response),
        error_kind=failed,
        model=model if isinstance(model, str) and model else None,
        done=True,
        choices=1,
        answer_id=_answer_id(response),
        reasons=problems,
    )


def _answer_id(response: Mapping[str, Any]) -> str | None:
    answer_id = response.get("id")
    return answer_id if isinstance(answer_id, str) and _ANSWER_ID.fullmatch(answer_id) else None


def _finish_reason(status: object, details: object, calls: bool) -> str:
    if status == "cancelled":
        return "abort"
    if isinstance(details, dict):
        reason = details.get("reason")
        return _INCOMPLETE.get(reason, "other") if isinstance(reason, str) else "other"
    if status not in (None, "completed"):
        return "other"
    return finish_reason_of("tool_calls" if calls else "stop")
