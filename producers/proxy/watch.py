"""What is noted of one request beside its way: pieces of its answer, fed to the tracking core after they went on.

Text is read in passing and never kept: the core keeps times, counts and names.
"""

from __future__ import annotations

from typing import Any

import orjson

from producers.proxy.decoding import Decoding, Plain, decoding_of
from producers.proxy.identity import Identity
from producers.proxy.wire import Answer
from producers.requests import reasons
from producers.requests.endings import Ending, How
from producers.requests.sse import SseReader
from producers.requests.tracker import Asked, Row, Tracker

LABEL_CHARACTERS_MAX = 64
"""Of a model's name as a client writes it, in characters of up to four bytes; a longer one is not believed."""


def asked_of(
    request: Any, api: str, identity: Identity, tenant: str | None, slo_class: str | None, labels: dict[str, str | None]
) -> Asked:
    """What is known of a request from its body (None where that is no JSON) and its head."""
    told = request if isinstance(request, dict) else {}
    choices = told.get("n")
    return Asked(
        request_id=identity.request_id,
        api=api,
        model=_model_of(told.get("model")),
        streamed=told.get("stream") is True,
        trace_id=identity.trace_id,
        tenant=tenant,
        slo_class=slo_class,
        choices=choices if type(choices) is int and 0 < choices <= 65_536 else None,
        labels=labels,
    )


def _model_of(name: object) -> str | None:
    if isinstance(name, str) and 0 < len(name) <= LABEL_CHARACTERS_MAX and name.isprintable():
        return name
    return None


def read_json(body: bytes) -> Any:
    """The body as JSON; None where it is none."""
    try:
        return orjson.loads(body) if body else None
    except ValueError:
        return None


class Watch:
    """Follows one answer; ``end`` gives the row."""

    __slots__ = ("_body", "_bytes_max", "_decoded_max", "_decoding", "_left", "_sse", "tracker")

    def __init__(self, asked: Asked, received_ns: int, bytes_max: int, decoded_max: int) -> None:
        self.tracker = Tracker(asked, received_ns)
        self._decoding: Decoding = Plain()
        self._decoded_max = decoded_max
        self._sse: SseReader | None = None
        self._body: list[bytes] = []
        self._left = bytes_max

    def answer(self, at_ns: int, answer: Answer) -> None:
        """The head of the answer."""
        self.tracker.status(at_ns, answer.status)
        self._decoding = decoding_of(answer.values.get(b"content-encoding"), self._decoded_max)
        if answer.is_stream():
            self._sse = SseReader()

    def piece(self, at_ns: int, piece: bytes) -> None:
        """A piece of its body."""
        data = self._decoding.feed(piece)
        if self._sse is not None:
            for event in self._sse.feed(data):
                self.tracker.data(at_ns, event)
        elif data and self._left >= 0:
            self._left -= len(data)
            self._body.append(data)
            if self._left < 0:
                self._body.clear()
                self.tracker.note(reasons.OVERSIZE_BODY)

    def end(self, at_ns: int, at_ms: int, how: How, status: int | None) -> Row | None:
        """The row, the first time. ``status``: what the proxy answered itself."""
        if status is not None:
            self.tracker.status(at_ns, status)
        if self._sse is not None:
            for event in self._sse.close():
                self.tracker.data(at_ns, event)
        elif self._body and how is How.COMPLETE:
            self.tracker.body(at_ns, b"".join(self._body))
        self._body.clear()
        return self.tracker.end(at_ns, at_ms, Ending(how))
