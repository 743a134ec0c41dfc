"""Watch: feeds the answer of one request to its ``Tracker`` after the bytes were passed on.

No text is kept: the tracker keeps times, counts and names.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

from producers.proxy.tenants import Identity
from producers.proxy.wire import Answer
from producers.requests import reasons
from producers.requests.client_names import shown
from producers.requests.endings import Ending, How
from producers.requests.request_meta import ClientFields, RequestMeta, is_label
from producers.requests.sse import SseReader
from producers.requests.tracker import Row, Tracker

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
    """What is known of a request from its body and its head. A model's name that is no label is kept beside it."""
    model = wanted.model if wanted.model is not None and is_label(wanted.model) else None
    if model is None and wanted.model is not None:
        labels = labels | {"model_requested": shown(wanted.model)}
    return RequestMeta(
        request_id=identity.request_id,
        api=api,
        model=model,
        streamed=wanted.streamed,
        trace_id=identity.trace_id,
        tenant=tenant,
        slo_class=slo_class,
        choices=wanted.choices if wanted.choices is not None and wanted.choices <= CHOICES_MAX else None,
        prompts=wanted.prompts,
        labels=labels,
    )


class Watch:
    """Follows one answer; ``end`` gives the row."""

    __slots__ = (
        "_body", "_bytes_max", "_decoded_max", "_decoding", "_left", "_sse", "_steps", "claimed", "step_bytes",
        "tracker",
    )  # fmt: skip

    def __init__(self, meta: RequestMeta, received_ns: int, bytes_max: int, decoded_max: int) -> None:
        self.tracker = Tracker(meta, received_ns)
        self.claimed = False  # the id of the answer
        self._decoding: Decoding = Plain()
        self._steps: Iterator[bytes] = iter(())  # of the piece that is being read
        self.step_bytes = 0  # that the last step read; 0: nothing is left of that piece
        self._decoded_max = decoded_max
        self._sse: SseReader | None = None
        self._body: list[bytes] = []
        self._bytes_max = self._left = bytes_max

    def answer(self, at_ns: int, answer: Answer) -> None:
        """The head of the answer."""
        self.tracker.status(at_ns, answer.status)
        text = not answer.values.get(b"content-type", b"").lower().startswith(_NO_TEXT)
        self._decoding = (
            decoding_of(answer.values.get(b"content-encoding"), self._decoded_max) if text else Unread(text=False)
        )
        if answer.is_stream():
            self._sse = SseReader(self._bytes_max)

    def piece(self, at_ns: int, piece: bytes) -> None:
        """A piece of its body, as far as the first step goes: while ``step_bytes``, another ``step`` may follow."""
        self._steps = self._decoding.steps(piece)
        self.step(at_ns)

    def step(self, at_ns: int) -> None:
        """Read on in that piece."""
        data = next(self._steps, b"")
        self.step_bytes = len(data)
        if not data:
            return
        if self._sse is not None:
            for event in self._sse.feed(data):
                self.tracker.data(at_ns, event)
        elif self._left >= 0:
            self._left -= len(data)
            self._body.append(data)
            if self._left < 0:
                self._body.clear()
                self.tracker.note(reasons.OVERSIZE_BODY)

    def close(self, at_ns: int, how: How) -> None:
        """Read what is read at the end alone; once."""
        sse, self._sse = self._sse, None
        body, self._body = self._body, []
        if sse is not None:
            last = sse.close()
            for _ in range(sse.oversize_events):
                self.tracker.note(reasons.OVERSIZE_EVENT)
            for event in last:
                self.tracker.data(at_ns, event)
        elif body and how is How.COMPLETE and not self._decoding.broken:
            self.tracker.body(at_ns, b"".join(body))

    def end(self, at_ns: int, at_ms: int, how: How, status: int | None) -> Row | None:
        """The row, the first time. ``status``: what the proxy answered itself."""
        self.close(at_ns, how)
        if status is not None:
            self.tracker.status(at_ns, status)
        if self._decoding.broken:
            self.tracker.note(reasons.UNDECODED)
        return self.tracker.end(at_ns, at_ms, Ending(how))


_NO_TEXT = (b"audio/", b"image/", b"video/", b"application/octet-stream")
ENCODINGS = frozenset({b"gzip", b"x-gzip", b"deflate", b"identity"})
"""That are read here, as ``Content-Encoding`` names them."""
_WINDOW_BITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
_STEP_BYTES = 256 * 1024


class Decoding(Protocol):
    """Bytes of an answer as they came to bytes as they mean."""

    broken: bool
    """What came cannot be read, or is more than is looked at: nothing more comes out."""

    def steps(self, piece: bytes) -> Iterator[bytes]:
        """What the piece adds, ``_STEP_BYTES`` at most of what was compressed at a time; nothing where that is nothing
        yet, or nothing any more. To be gone through before the next piece."""
        ...

    def feed(self, piece: bytes) -> bytes:
        """The same at once."""
        return b"".join(self.steps(piece))


class Plain(Decoding):
    """Bytes that are not compressed."""

    __slots__ = ("broken",)

    def __init__(self) -> None:
        self.broken = False

    def steps(self, piece: bytes) -> Iterator[bytes]:
        return iter((piece,))


class Unread(Decoding):
    """Sounds, images, or ``text`` in an encoding that is not supported here (br, zstd): it passes on, its usage stays
    unknown."""

    __slots__ = ("_text", "broken")

    def __init__(self, *, text: bool = True) -> None:
        self._text = text
        self.broken = False

    def steps(self, piece: bytes) -> Iterator[bytes]:
        self.broken |= self._text and bool(piece)
        return iter(())


class Zlib(Decoding):
    """gzip or deflate, at most ``bytes_max`` bytes of it unpacked."""

    __slots__ = ("_inflate", "_left", "broken")

    def __init__(self, window_bits: int, bytes_max: int) -> None:
        self._inflate = zlib.decompressobj(window_bits)
        self._left = bytes_max
        self.broken = False

    def steps(self, piece: bytes) -> Iterator[bytes]:
        while piece and self._left > 0 and not self.broken:
            try:
                data = self._inflate.decompress(piece, min(self._left, _STEP_BYTES))
            except zlib.error:
                break
            self._left -= len(data)
            piece = self._inflate.unconsumed_tail
            if data:
                yield data
        self.broken |= bool(piece)


def decoding_of(content_encoding: bytes | None, bytes_max: int) -> Decoding:
    """How to read a body of this ``Content-Encoding`` (None: as it is)."""
    name = (content_encoding or b"identity").strip().lower()
    if name == b"identity":
        return Plain()
    if name in _WINDOW_BITS:
        return Zlib(_WINDOW_BITS[name], bytes_max)
    return Unread()
