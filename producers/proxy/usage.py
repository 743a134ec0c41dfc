"""Requests token counts from a stream (``ask_usage``), and removes the chunk that holds them again. Pure.

Source: OpenAI API reference, chat/completions ``stream_options.include_usage``: one more chunk before ``[DONE]``, with
``choices: []`` and the usage of the whole request.
"""

from __future__ import annotations

import re

import orjson

from producers.requests.request_meta import ClientFields

HELD_BYTES_MAX = 64 * 1024
"""An event cut in two is buffered up to here until its end comes; a longer one is no usage and passes on."""
_END_OF_EVENT = re.compile(rb"(?:\r\n|\r(?!\n)|\n){2}")


def with_usage_requested(body: bytes, wanted: ClientFields) -> bytes | None:
    """The body with ``stream_options.include_usage`` added at its end, every other byte as it was; None where there
    is nothing to ask (no stream, or the client asks itself, or the body is no JSON object).

    ``wanted`` are the fields of the body. A key that comes twice counts the last time in JSON parsers of engines
    (Python, serde as vLLM and SGLang use them), so options of the client are repeated beside ours.
    """
    if not wanted.streamed or wanted.usage:
        return None
    options = orjson.loads(body).get("stream_options")
    if options is not None and not isinstance(options, dict):
        return None
    end = body.rstrip()
    if not end.endswith(b"}"):
        return None
    changed = orjson.dumps({**(options or {}), "include_usage": True})
    return end[:-1] + b',"stream_options":' + changed + b"}"


class UsageFilter:
    """Takes the usage chunk out of a stream of server-sent events that comes in pieces cut anywhere."""

    __slots__ = ("_held", "_line_feed")

    def __init__(self) -> None:
        self._held = b""
        self._line_feed: bytes | None = None  # what a line feed becomes that comes next: it ends the event before

    def feed(self, piece: bytes) -> bytes:
        """What of the bytes so far may go on: whole events, but for the usage."""
        data = self._held + piece if self._held else piece
        out, start = [], 0
        if self._line_feed is not None and data:
            if data.startswith(b"\n"):
                out, start = [self._line_feed], 1
            self._line_feed = None
        for end in _END_OF_EVENT.finditer(data, start):
            kept = not is_usage(data[start : end.start()])
            if kept:
                out.append(data[start : end.end()])
            start = end.end()
            if start == len(data) and data.endswith(b"\r"):
                self._line_feed = b"\n" if kept else b""
        self._held = data[start:]
        if len(self._held) > HELD_BYTES_MAX:
            out.append(self._held)
            self._held = b""
        return b"".join(out)

    def finish(self) -> bytes:
        """What is left at the end of the stream."""
        held, self._held = self._held, b""
        return b"" if is_usage(held) else held


def is_usage(event: bytes) -> bool:
    """Whether an event is the chunk that holds usage and no choices."""
    if b'"usage"' not in event or b'"choices"' not in event:
        return False
    lines = re.split(rb"\r\n|\n|\r", event)
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    try:
        chunk = orjson.loads(data)
    except ValueError:
        return False
    return isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
