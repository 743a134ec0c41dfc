"""Parser of Anthropic-shaped stream events and whole messages into a ``Chunk``. Never raises on any JSON.

A stream: ``message_start`` (model, prompt tokens), then for each block ``content_block_start``, ``_delta``, ``_stop``,
then ``message_delta`` (stop reason, output tokens so far) and ``message_stop``. Tokens read from or written to the
cache are not among ``input_tokens``; in an event they are.
Source: Anthropic API reference, Messages and Streaming Messages; vLLM ``entrypoints/anthropic``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from producers.requests import reasons
from producers.requests.chunk import CONTENT, REASONING, Chunk, Part, Usage
from producers.requests.endings import finish_reason_of, kind_of_error

EVENTS = frozenset(
    {"message", "message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta",
     "content_block_stop", "ping"}
)  # fmt: skip
"""Values of ``type``, whole messages included."""
_DELTAS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "text_delta": ("text", CONTENT),
        "input_json_delta": ("partial_json", CONTENT),
        "citations_delta": ("citation", CONTENT),
        "thinking_delta": ("thinking", REASONING),
    }
)
"""Of each type of delta the field that holds its content, and its kind."""
_TOOLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def message_chunk(kind: str, document: Mapping[str, Any]) -> Chunk:
    """One event of a stream, or a whole message."""
    if kind == "message":
        return _whole(document)
    if kind == "message_start":
        message = document.get("message")
        return _of_start(message) if isinstance(message, dict) else Chunk(reasons=(reasons.UNKNOWN_SHAPE,))
    if kind == "content_block_start":
        return _begun(document)
    if kind == "content_block_delta":
        return _added(document.get("delta"))
    if kind == "message_delta":
        delta = document.get("delta")
        return _about(document, delta.get("stop_reason") if isinstance(delta, dict) else None)
    return Chunk(done=kind == "message_stop")


def type_of(item: Mapping[str, Any]) -> str:
    """What kind of block, delta or output it is; empty where that is no text."""
    kind = item.get("type")
    return kind if isinstance(kind, str) else ""


def _added(delta: object) -> Chunk:
    """A delta that is empty is no token: servers open a block with one."""
    if not isinstance(delta, dict):
        return Chunk()
    field, kind = _DELTAS.get(type_of(delta), ("", CONTENT))
    return Chunk(parts=(Part(0, kind, 0),)) if delta.get(field) else Chunk()


def _begun(document: Mapping[str, Any]) -> Chunk:
    block, place = document.get("content_block"), document.get("index")
    if isinstance(block, dict) and type_of(block) in _TOOLS:
        return Chunk(tool_calls=((0, place if type(place) is int else 0),))
    return Chunk()


def _of_start(message: Mapping[str, Any]) -> Chunk:
    """Nothing is generated yet: a count of output, which servers write as 0 or 1, is no more than a placeholder."""
    found = _about(message, None)
    return found if found.usage is None else found._replace(usage=found.usage._replace(output=None))


def _about(message: Mapping[str, Any], stop: object) -> Chunk:
    usage, problems = usage_of_message(message.get("usage"))
    model = message.get("model")
    return Chunk(
        finish_reasons=(finish_reason_of(stop),) if isinstance(stop, str) and stop else (),
        usage=usage,
        model=model if isinstance(model, str) and model else None,
        reasons=problems,
    )


def _whole(message: Mapping[str, Any]) -> Chunk:
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    calls = tuple((0, place) for place, block in enumerate(blocks) if type_of(block) in _TOOLS)
    error = message.get("error")
    return _about(message, message.get("stop_reason"))._replace(
        tool_calls=calls, done=True, choices=1, error_kind=kind_of_error(error, None) if error else None
    )


def usage_of_message(reported: object) -> tuple[Usage | None, tuple[str, ...]]:
    """The usage, None where none was reported; and reasons of what could not be read."""
    if reported is None:
        return None, ()
    if not isinstance(reported, dict):
        return None, (reasons.USAGE_UNREADABLE,)
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    given = [reported.get(name) for name in names]
    plain, read, written, output = (each if type(each) is int and each >= 0 else None for each in given)
    usage = Usage(None if plain is None else plain + (read or 0) + (written or 0), read, output)
    bad = any(each is not None and not (type(each) is int and each >= 0) for each in given)
    return (None if usage == Usage() else usage), (reasons.USAGE_UNREADABLE,) if bad else ()
