"""The Responses API: its streaming events and its whole object, as a ``Chunk``.

Source: OpenAI API reference, "Responses" and "Streaming events"; vLLM and SGLang send the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from producers.requests import reasons
from producers.requests.chunk import CONTENT, REASONING, Chunk, Part
from producers.requests.endings import finish_reason_of, kind_of_error
from producers.requests.usage import usage_of

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
        if isinstance(item, dict) and item.get("type") in _CALLS:
            return Chunk(tool_calls=((0, place if type(place) is int else 0),))
    if kind in _LAST:
        response = document.get("response")
        if not isinstance(response, dict):
            return Chunk(done=True, reasons=(reasons.UNKNOWN_SHAPE,))
        return response_parts(response)
    return Chunk()


def _listed(document: Mapping[str, Any]) -> int:
    logprobs = document.get("logprobs")
    return len(logprobs) if isinstance(logprobs, list) else 0


def response_parts(response: Mapping[str, Any]) -> Chunk:
    """The whole object, as it ends a stream or stands alone. It has no parts: its text came before, or all at once."""
    usage, problems = usage_of(response.get("usage"))
    output = response.get("output")
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    calls = tuple((0, place) for place, item in enumerate(items) if item.get("type") in _CALLS)
    error, status = response.get("error"), response.get("status")
    failed = kind_of_error(error, None) if error or status == "failed" else None
    model = response.get("model")
    return Chunk(
        finish_reasons=() if failed else (_finish_reason(status, response.get("incomplete_details"), bool(calls)),),
        tool_calls=calls,
        usage=usage,
        error_kind=failed,
        model=model if isinstance(model, str) and model else None,
        done=True,
        choices=1,
        reasons=problems,
    )


def _finish_reason(status: object, details: object, calls: bool) -> str:
    if status == "cancelled":
        return "abort"
    if isinstance(details, dict):
        reason = details.get("reason")
        return _INCOMPLETE.get(reason, "other") if isinstance(reason, str) else "other"
    if status not in (None, "completed"):
        return "other"
    return finish_reason_of("tool_calls" if calls else "stop")
