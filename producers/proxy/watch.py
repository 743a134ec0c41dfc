"""Watch: feeds the answer of one request to its ``Tracker`` after the bytes were passed on.

No text is kept: the tracker keeps times, counts and names.
"""

from __future__ import annotations

from producers.proxy.decoding import Decoding, Plain, decoding_of
from producers.proxy.identity import Identity
from producers.proxy.wire import Answer
from producers.requests import reasons
from producers.requests.endings import Ending, How
from producers.requests.request_meta import ClientFields, RequestMeta
from producers.requests.sse import SseReader
from producers.requests.tracker import Row, Tracker

LABEL_CHARACTERS_MAX = 64
"""Of a model's name as a client writes it, in characters of up to four bytes; a longer one is ignored."""
CHOICES_MAX = 1_000_000
"""The event's bound; more are unknown."""


def request_meta(
    wanted: ClientFields,
    api: str,
    identity: Identity,
    tenant: str | None,
    slo_class: str | None,
    labels: dict[str, str | None],
) -> RequestMeta:
    """What is known of a request from its body and its head."""
    return RequestMeta(
        request_id=identity.request_id,
        api=api,
        model=_model_of(wanted.model),
        streamed=wanted.streamed,
        trace_id=identity.trace_id,
        tenant=tenant,
        slo_class=slo_class,
        choices=wanted.choices if wanted.choices is not None and wanted.choices <= CHOICES_MAX else None,
        labels=labels,
    )


def _model_of(name: str | None) -> str | None:
    return name if name is not None and len(name) <= LABEL_CHARACTERS_MAX and name.isprintable() else None


class Watch:
    """Follows one answer; ``end`` gives the row."""

    __slots__ = ("_body", "_bytes_max", "_decoded_max", "_decoding", "_left", "_sse", "tracker")

    def __init__(self, meta: RequestMeta, received_ns: int, bytes_max: int, decoded_max: int) -> None:
        self.tracker = Tracker(meta, received_ns)
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
            for _ in range(self._sse.oversize_events):
                self.tracker.note(reasons.OVERSIZE_EVENT)
        elif self._body and how is How.COMPLETE:
            self.tracker.body(at_ns, b"".join(self._body))
        self._body.clear()
        return self.tracker.end(at_ns, at_ms, Ending(how))
