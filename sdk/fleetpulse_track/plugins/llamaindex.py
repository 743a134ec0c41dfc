"""Calls of LlamaIndex's models, by its instrumentation: an event handler and a span handler of the root dispatcher.

    from fleetpulse_track.plugins import llamaindex

    llamaindex.install(tenant="acme")

Seen with llama-index-core 0.14. A call of ``chat``, ``complete`` or their streaming and awaited kinds is a request: its
events carry the id of its span. A call inside another one (a chat model that completes) is a part of that one, but for
a custom model whose ``astream_chat`` goes through its ``stream_chat``: by then the outer span has ended, and both are
reported. Usage is read from the answer's ``raw`` where it is OpenAI's, else from ``additional_kwargs``. LlamaIndex is
imported only by ``install``.
"""

from __future__ import annotations

import contextlib
from typing import Any

from fleetpulse_track.handover import Client
from fleetpulse_track.requests import Request
from fleetpulse_track.streams import describe, identify, observe

RUNS_MAX = 4_096
"""Calls that have begun and not ended. Beyond, the oldest is reported as aborted."""
AGE_MAX_NS = 3_600_000_000_000
"""Older calls are streams that were left, of which LlamaIndex says nothing: aborted, too."""
SPANS_MAX = 16_384
_BEGIN = {"LLMChatStartEvent": "chat", "LLMCompletionStartEvent": "completions"}
_CHUNK = ("LLMChatInProgressEvent", "LLMCompletionInProgressEvent")
_END = ("LLMChatEndEvent", "LLMCompletionEndEvent")


class Reporting:
    """The part that needs no LlamaIndex. ``fields``: those of every request (``tenant``, ...)."""

    def __init__(self, client: Client | None = None, fields: dict[str, Any] | None = None) -> None:
        self._client = client
        self._fields = fields or {}
        self._runs: dict[str, Request] = {}  # no lock: a finaliser may end a call in the middle of all this
        self._parents: dict[str, str | None] = {}

    def handle(self, event: Any) -> None:
        """One event of any kind; nothing is raised."""
        with contextlib.suppress(Exception):
            kind, span_id = event.class_name(), event.span_id
            if kind in _BEGIN:
                self._begin(span_id, _BEGIN[kind], event.model_dict)
            elif kind in _CHUNK and span_id in self._runs:
                _chunk(self._runs[span_id], event.response)
            elif kind in _END:
                self._end(span_id, event.response)
            elif kind == "ExceptionEvent":
                self.failed(span_id, event.exception)

    def entered(self, span_id: str, parent_id: str | None) -> None:
        """A span began."""
        self._parents[span_id] = parent_id
        if len(self._parents) > SPANS_MAX:
            with contextlib.suppress(RuntimeError):  # another thread was at it
                self.left(next(iter(self._parents)))

    def left(self, span_id: str) -> None:
        """A span ended; the stream that it returned may go on."""
        self._parents.pop(span_id, None)

    def failed(self, span_id: str | None, error: BaseException | None) -> None:
        """A call raised, or its stream did."""
        request = self._ended(span_id)
        if request is not None:
            request.finish(error or Exception())

    def _begin(self, span_id: str | None, api: str, settings: dict[str, Any]) -> None:
        if span_id is None or self._inside_another(span_id):
            return
        model = settings.get("model") or settings.get("model_name")
        known = {"api": api, "model": model if isinstance(model, str) else None, **self._fields}
        self._runs[span_id] = begun = Request(client=self._client, **known)
        oldest_id = next(iter(self._runs))
        oldest = self._runs.get(oldest_id, begun)
        is_left = len(self._runs) > RUNS_MAX or begun.begin_ns - oldest.begin_ns >= AGE_MAX_NS
        if is_left and self._ended(oldest_id) is not None:
            oldest.finish(GeneratorExit())

    def _inside_another(self, span_id: str) -> bool:
        outer = self._parents.get(span_id)
        while outer is not None:
            if outer in self._runs:
                return True
            outer = self._parents.get(outer)
        return False

    def _end(self, span_id: str, response: Any) -> None:
        request = self._ended(span_id)
        if request is None:
            return
        with contextlib.suppress(Exception):
            raw = getattr(response, "raw", None)
            if _get(raw, "usage") is None and (counts := getattr(response, "additional_kwargs", None)):
                describe(request, {"usage": counts})
            if getattr(response, "delta", None) is None:  # a whole answer: the last of a stream was seen before
                describe(request, raw)
        request.finish()

    def _ended(self, span_id: str | None) -> Request | None:
        return self._runs.pop(span_id or "", None)


def _chunk(request: Request, response: Any) -> None:
    """A chunk of a stream: OpenAI's own where the integration hands it on, else its text."""
    if _get(response.raw, "choices") is not None:
        observe(request, response.raw)
        identify(request, response.raw)
    elif response.delta:
        request.token()


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def install(*, client: Client | None = None, **fields: Any) -> Reporting:
    """Report every call of a model in this process from now on."""
    from llama_index.core.instrumentation import get_dispatcher  # type: ignore[import-not-found]
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler  # type: ignore[import-not-found]
    from llama_index.core.instrumentation.span_handlers import BaseSpanHandler  # type: ignore[import-not-found]

    reporting = Reporting(client, fields)

    class Events(BaseEventHandler):  # type: ignore[misc]
        def handle(self, event: Any, **named: Any) -> None:
            reporting.handle(event)

    class Spans(BaseSpanHandler):  # type: ignore[misc]
        def new_span(self, id_: str, *more: Any, parent_span_id: Any = None, **named: Any) -> None:
            reporting.entered(id_, parent_span_id)

        def prepare_to_exit_span(self, id_: str, *more: Any, **named: Any) -> None:
            reporting.left(id_)

        def prepare_to_drop_span(self, id_: str, *more: Any, err: Any = None, **named: Any) -> None:
            reporting.left(id_)
            reporting.failed(id_, err)

    dispatcher = get_dispatcher()
    dispatcher.add_event_handler(Events())
    dispatcher.add_span_handler(Spans())
    return reporting
