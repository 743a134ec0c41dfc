"""Requests token counts from a stream (``ask_usage``), and removes the chunk that holds them again. Pure.

Source: OpenAI API reference, chat/completions ``stream_options.include_usage``: one more chunk before ``[DONE]``, with
``choices: []`` and the usage of the whole request.
"""

from __future__ import annotations

import re

import orjson

from producers.proxy.wire import Answer
from producers.requests.request_meta import ClientFields

HELD_BYTES_MAX = 64 * 1024
"""An event cut in two is buffered up to here until its end comes; a longer one is no usage and passes on."""
_REJECTED = frozenset({400, 422})
"""Statuses of a request whose fields are not accepted: OpenAI's and pydantic's servers."""
_NAMES = (b"stream_options", b"include_usage")
_END_OF_EVENT = re.compile(rb"(?:\r\n|\r(?!\n)|\n){2}")


def usage_option(body: bytes, wanted: ClientFields) -> bytes | None:
    """What to add to the body so that usage is requested; None where there is nothing to ask (no stream, or the client
    asks itself, or the body is no JSON object).

    ``wanted`` are the fields of the body. A key that comes twice counts the last time in JSON parsers of engines
    (Python, serde as vLLM and SGLang use them), so options of the client are repeated beside ours.
    """
    if not wanted.streamed or wanted.usage:
        return None
    options = orjson.loads(body).get("stream_options")
    if options is not None and not isinstance(options, dict):
        return None
    if not body.rstrip().endswith(b"}"):
        return None
    return b',"stream_options":' + orjson.dumps({**(options or {}), "include_usage": True})


def with_option(body: bytes, option: bytes) -> bytes:
    """The body with the option at its end, every other byte as it was."""
    return body.rstrip()[:-1] + option + b"}"


class UsageRequest:
    """What is done so that one request has token counts: the option added to it, the chunk hidden from its client, and
    the request sent again without, where the upstream rejects the option.

    An answer that may be a rejection is held until its body names the option, or is too long for one.
    """

    __slots__ = ("_held", "_held_bytes", "_option", "_withdrawn", "answer", "filter")

    def __init__(self, option: bytes | None = None) -> None:
        self._option = option
        self._withdrawn = False
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.answer: Answer | None = None  # while it is held
        self.filter: UsageFilter | None = None

    def body(self, original: bytes, *, supported: bool) -> bytes:
        """What to send. ``supported``: the upstream is not known to reject the option."""
        asks = self._option is not None and supported and not self._withdrawn
        self.filter = UsageFilter() if asks else None
        return with_option(original, self._option) if self._option is not None and asks else original

    def holds(self, answer: Answer) -> bool:
        """Whether this answer, whose head was read, is held for now; where it is no stream, nothing is hidden."""
        if self.filter is not None and not answer.is_stream() and answer.status in _REJECTED:
            self.answer = answer
        elif not (answer.is_stream() and answer.status == 200):
            self.filter = None
        return self.answer is not None

    def proves_rejection(self, answer: Answer) -> bool:
        """Whether this answer came because the option was left out."""
        return self._withdrawn and answer.status < 400

    def hold(self, pieces: list[bytes]) -> bool:
        """Take pieces of a held answer; False once it is longer than a rejection is."""
        self._held += pieces
        self._held_bytes += sum(map(len, pieces))
        return self._held_bytes <= HELD_BYTES_MAX

    def withdraw(self) -> bool:
        """The held answer is whole: whether it names the option, so that the request is worth sending without."""
        body = b"".join(self._held)
        self._withdrawn = any(name in body for name in _NAMES)
        if self._withdrawn:
            self.answer = None
            self._held.clear()
        return self._withdrawn

    def release(self) -> tuple[Answer, list[bytes]]:
        """The held answer, which rejects something else, and what was read of its body."""
        answer, self.answer, self.filter = self.answer, None, None
        assert answer is not None
        return answer, self._held


class UsageFilter:
    """Takes the usage chunk out of a stream of server-sent events that comes in pieces cut anywhere."""

    __slots__ = ("_held", "_line_feed")

    def __init__(self) -> None:
        self._held = b""
        self._line_feed: bytes | None = None  # what a line feed becomes that comes next: it ends the event before

    def feed(self, piece: bytes) -> bytes:
        """What of the bytes so far may go on: whole events, but for the usage."""
        if not self._held and self._line_feed is None and b'"usage"' not in piece and piece.endswith(b"\n\n"):
            return piece  # the commonest: whole events, none of which is it
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
