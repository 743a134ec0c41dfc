"""Requests token counts from a stream (``ask_usage``), and hides from its client what it did not request. Pure.

Sources: OpenAI API reference, chat/completions ``stream_options.include_usage``: one more chunk before ``[DONE]``, with
``choices: []`` and the usage of the whole request. vLLM and SGLang, ``stream_options.continuous_usage_stats``: every
chunk has the usage so far, so that a stream which is given up has its counts, and a chunk of several tokens their
number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

import orjson

from producers.proxy.wire import Answer
from producers.requests.request_meta import ClientFields
from schemas.codec.values import is_deep

HELD_BYTES_MAX = 64 * 1024
"""An event cut in two is buffered up to here until its end comes; a longer one is no usage and passes on."""
_REJECTED = frozenset({400, 422})
"""Statuses of a request whose fields are not accepted: OpenAI's and pydantic's servers."""
_NAMES = (b"stream_options", b"include_usage", b"continuous_usage_stats")
_AT_FAULT = re.compile(rb"""["']loc["']: ?[\[(]["']body["'], ?([^\])]*)|"param": ?"([^"]+)\"""")
"""Where pydantic's servers say which field they reject, in JSON or as Python writes it, and OpenAI's. Both may repeat
all of the request beside it."""
_USAGE = b',"usage":'
_COUNTS = re.compile(rb"\{[^{}\[\]]*(?:\{[^{}\[\]]*\}[^{}\[\]]*)*\}")
"""An object of numbers, and of objects of numbers."""
_FINISHED = b'"finish_reason":"'
_END_OF_STREAM = frozenset({b"", b"data: [DONE]", b"data:[DONE]"})
_END_OF_EVENT = re.compile(rb"(?:\r\n|\r(?!\n)|\n){2}")


class Level(IntEnum):
    """What is requested of an upstream; each rejection takes one step down."""

    NOTHING = 0
    FINAL = 1
    RUNNING = 2


_OPTIONS = {
    Level.FINAL: {"include_usage": True},
    Level.RUNNING: {"include_usage": True, "continuous_usage_stats": True},
}


class UsageRequest:
    """What is done so that one request has token counts: the option added to it, what it brings hidden from its client,
    and the request sent again with less where the upstream rejects the option.

    ``options`` are the client's own ``stream_options``; None: nothing is to be added (no stream, running usage already
    requested, options nested deep, or a body that is no JSON object). An answer that may be a rejection is held until
    its body names the option, or is too long for one. ``shown``: nothing is hidden from the client.
    """

    __slots__ = (
        "_doubtful", "_held", "_held_bytes", "_level", "_options", "_shown", "_twice", "_withdrawn", "added",
        "answer", "filter",
    )  # fmt: skip

    def __init__(self, options: Mapping[str, object] | None = None, *, shown: bool = False) -> None:
        self._options = options
        self._shown = shown
        self.added = False  # something, to the body that was sent
        self._twice = False  # the client's body has the key already
        self._doubtful = False  # and a rejection may have been of that
        self._level = Level.RUNNING
        self._withdrawn = False
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.answer: Answer | None = None  # while it is held
        self.filter: UsageFilter | None = None

    def body(self, original: bytes, highest: Level) -> bytes:
        """What to send: every byte before the last brace as it was. ``highest``: that the upstream is known to take.

        A key that comes twice counts the last time in JSON parsers of engines (Python, serde as vLLM and SGLang use
        them), so the client's options are repeated beside ours. A parser that refuses it (serde's structs, TGI) says
        nothing of the options.
        """
        self._level = min(self._level, highest)
        self.added, self.filter, options = False, None, self._options
        if options is None or self._level is Level.NOTHING:
            return original
        final = options.get("include_usage") is True
        if final and self._level is Level.FINAL:
            return original
        added = orjson.dumps({**options, **_OPTIONS[self._level]})
        self._twice = b'"stream_options"' in original
        self.added, self.filter = True, None if self._shown else UsageFilter(keep_final=final)
        return original.rstrip()[:-1] + b',"stream_options":' + added + b"}"

    def holds(self, answer: Answer) -> bool:
        """Whether this answer, whose head was read, is held for now; where it is no stream, nothing is hidden."""
        if self.added and not answer.is_stream() and answer.status in _REJECTED:
            self.answer = answer
        elif not (answer.is_stream() and answer.status == 200):
            self.filter = None
        return self.answer is not None

    def proven(self, answer: Answer) -> Level | None:
        """The highest level that the upstream takes, where this answer came because more was left out."""
        return self._level if self._withdrawn and not self._doubtful and answer.status < 400 else None

    def hold(self, pieces: list[bytes]) -> bool:
        """Take pieces of a held answer; False once it is longer than a rejection is."""
        self._held += pieces
        self._held_bytes += sum(map(len, pieces))
        return self._held_bytes <= HELD_BYTES_MAX

    def withdraw(self) -> bool:
        """The held answer is whole: whether it names the option, so that the request is worth sending with less."""
        body = b"".join(self._held)
        named = [loc or param for loc, param in _AT_FAULT.findall(body)]
        body = b" ".join(named) if named else body
        if not any(name in body for name in _NAMES):
            return False
        self._doubtful |= self._twice and not any(name in body for name in _NAMES[1:])
        self._withdrawn, self._level = True, Level(self._level - 1)
        self.answer, self._held, self._held_bytes = None, [], 0
        return True

    def release(self) -> tuple[Answer, list[bytes]]:
        """The held answer, which rejects something else, and what was read of its body."""
        answer, self.answer, self.filter = self.answer, None, None
        assert answer is not None
        return answer, self._held


def options_to_extend(body: bytes, wanted: ClientFields) -> Mapping[str, object] | None:
    """The ``options`` of a ``UsageRequest`` for this body, whose fields are ``wanted``; none that are nested deep."""
    if not wanted.streamed or not body.rstrip().endswith(b"}"):
        return None
    options = orjson.loads(body).get("stream_options")
    if options is None:
        return {}
    if not isinstance(options, dict) or options.get("continuous_usage_stats") is True or is_deep(options):
        return None
    return options


class UsageFilter:
    """Takes usage out of a stream of server-sent events that comes in pieces cut anywhere: the chunk that holds nothing
    else (unless ``keep_final``), and the count so far of any other chunk.

    With ``keep_final`` a chunk that finishes a choice is held until the next event: where it is the last of the stream,
    its count is the request's, as engines write it that have no chunk of usage alone (LMDeploy), and stays.
    """

    __slots__ = ("_finished", "_held", "_keep_final", "_line_feed")

    def __init__(self, *, keep_final: bool = False) -> None:
        self._keep_final = keep_final
        self._held = b""
        self._finished = b""  # a chunk that may be the last one
        self._line_feed: bytes | None = None  # what a line feed becomes that comes next: it ends the event before

    def feed(self, piece: bytes) -> bytes:
        """What of the bytes so far may go on: whole events, without what is hidden of them."""
        if not self._held and not self._finished and self._line_feed is None and piece.endswith(b"\n\n"):
            if b'"usage"' not in piece:
                return piece  # whole events
            if piece.find(b"\n\n") == len(piece) - 2 and b"\r" not in piece:
                return self._shown(piece)  # one event
        data = self._held + piece if self._held else piece
        out, start = [], 0
        if self._line_feed is not None and data:
            if data.startswith(b"\n"):
                out, start = [self._line_feed], 1
                if self._finished and not self._line_feed:
                    self._finished += b"\n"  # it waits with its event
            self._line_feed = None
        for end in _END_OF_EVENT.finditer(data, start):
            event = data[start : end.end()]
            shown = self._shown(event)
            out.append(shown)
            start = end.end()
            if start == len(data) and data.endswith(b"\r"):
                self._line_feed = b"\n" if shown and self._finished is not event else b""
        self._held = data[start:]
        if len(self._held) > HELD_BYTES_MAX:  # it is not the end of the stream: what waits was not the last chunk
            out += [without_running_usage(self._finished), self._held]
            self._finished = self._held = b""
        return b"".join(out)

    def finish(self) -> bytes:
        """What is left at the end of the stream."""
        held, self._held = self._held, b""
        return self._shown(held)

    def _shown(self, event: bytes) -> bytes:
        if self._finished and not event.startswith(b":"):
            finished, self._finished = self._finished, b""
            last = event.strip() in _END_OF_STREAM
            return (finished if last else without_running_usage(finished)) + self._shown(event)
        if b'"usage"' not in event:
            return event
        if is_usage(event):
            return event if self._keep_final else b""
        shown = without_running_usage(event)
        if self._keep_final and shown is not event and _FINISHED in event:
            self._finished = event
            return b""
        return shown


def is_usage(event: bytes) -> bool:
    """Whether an event is the chunk that holds usage and no choices."""
    if b'"usage"' not in event or b'"choices"' not in event or b'"delta":' in event or b'"text":' in event:
        return False
    lines = re.split(rb"\r\n|\n|\r", event)
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    try:
        chunk = orjson.loads(data)
    except ValueError:
        return False
    return isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)


def without_running_usage(event: bytes) -> bytes:
    """A chunk with choices, without its count so far. Every other byte stays; so does an event of another layout than
    the engines' that count (no space behind colons; text cannot look so, since its quotes are escaped)."""
    start = event.rfind(_USAGE)
    found = _COUNTS.match(event, start + len(_USAGE)) if start >= 0 else None
    return event if found is None else event[:start] + event[found.end() :]
