"""The handlers for LlamaIndex, by the events and spans of llama-index-core 0.14; it is not installed."""

from __future__ import annotations

import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import fleetpulse_track as track
from fleetpulse_track.handover import HEADER
from fleetpulse_track.plugins import llamaindex
from tests.unit.producers.receiver import sent
from tests.unit.sdk.openai_shapes import CHAT, FIELDS_OF_CHAT, thing
from tests.unit.sdk.plugins.stand_ins import said


def event(kind: str, span_id: str | None = "s", **fields: Any) -> SimpleNamespace:
    """An event as the dispatcher hands it over."""
    return SimpleNamespace(class_name=lambda: kind, span_id=span_id, **fields)


def begin(span_id: str = "s", **settings: Any) -> SimpleNamespace:
    return event("LLMChatStartEvent", span_id, model_dict=settings)


def answer(delta: str | None = None, raw: Any = None, **counts: int) -> SimpleNamespace:
    """A ``ChatResponse``."""
    return SimpleNamespace(delta=delta, raw=raw, additional_kwargs=counts)


@pytest.fixture
def reporting() -> llamaindex.Reporting:
    return llamaindex.Reporting(None, {"tenant": "t"})


def test_a_whole_answer_of_openai_is_read(reported: sent.Recorded, reporting: llamaindex.Reporting) -> None:
    """From what the integration hands on as ``raw``."""
    raw = {"id": "chatcmpl-1", "model": "m-1", "choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 9}}

    reporting.handle(begin(model="m"))
    reporting.handle(event("LLMChatEndEvent", response=answer(raw=raw)))

    assert said(reported) == [
        {
            "status": "ok",
            "api": "chat",
            "model": "m",
            "tenant": "t",
            "request_id": "chatcmpl-1",
            "choices": 1,
            "tool_calls": 0,
            "finish_reason": "stop",
            "input_tokens": 9,
            "tokens_from": "engine",
        }
    ]


def test_a_stream_of_openai_is_read_chunk_by_chunk(reported: sent.Recorded, reporting: llamaindex.Reporting) -> None:
    """Reasoning, tool calls and usage too."""
    reporting.handle(begin())
    chunks = [answer(raw=thing(chunk), delta="") for chunk in CHAT]
    for chunk in chunks:
        reporting.handle(event("LLMChatInProgressEvent", response=chunk))
    reporting.handle(event("LLMChatEndEvent", response=chunks[-1]))

    assert said(reported) == [FIELDS_OF_CHAT | {"api": "chat", "tenant": "t"}]
    assert HEADER.unpack_from(reported.sent[0])[5] == 5


def test_a_stream_of_another_model_counts_its_texts(reported: sent.Recorded, reporting: llamaindex.Reporting) -> None:
    """And reads usage where the integration puts it."""
    reporting.handle(event("LLMCompletionStartEvent", model_dict={"model_name": "m"}))
    for delta in ("", "a", "b"):
        reporting.handle(event("LLMCompletionInProgressEvent", response=answer(delta)))
    reporting.handle(event("LLMCompletionEndEvent", response=answer("b", prompt_tokens=3, completion_tokens=2)))

    counted = {"input_tokens": 3, "output_tokens": 2, "tokens_from": "engine"}
    assert said(reported) == [{"status": "ok", "api": "completions", "model": "m", "tenant": "t", **counted}]
    assert HEADER.unpack_from(reported.sent[0])[5] == 2


def test_calls_that_fail(reported: sent.Recorded, reporting: llamaindex.Reporting) -> None:
    """While they run, by their span; later, by the event of their stream; once."""
    for span_id in ("a", "b"):
        reporting.entered(span_id, None)
        reporting.handle(begin(span_id))
    reporting.failed("a", TimeoutError())
    reporting.left("b")
    for _ in range(2):
        reporting.handle(event("ExceptionEvent", "b", exception=GeneratorExit()))

    assert [each["status"] for each in said(reported)] == ["timeout", "aborted"]


def test_a_call_inside_another_is_a_part_of_it(reported: sent.Recorded, reporting: llamaindex.Reporting) -> None:
    """However deep; one after it is its own."""
    reporting.entered("outer", "agent")
    reporting.handle(begin("outer", model="outer"))
    reporting.entered("between", "outer")
    reporting.entered("inner", "between")
    reporting.handle(begin("inner", model="inner"))
    reporting.handle(event("LLMChatEndEvent", "inner", response=answer()))
    for span_id in ("inner", "between", "outer"):
        reporting.left(span_id)
    reporting.handle(begin("after", model="after"))
    for span_id in ("outer", "after"):
        reporting.handle(event("LLMChatEndEvent", span_id, response=answer()))

    assert [each["model"] for each in said(reported)] == ["outer", "after"]


def test_calls_and_spans_that_never_end_are_bounded(reported: sent.Recorded, reporting: llamaindex.Reporting) -> None:
    """The oldest was left."""
    for number in range(llamaindex.SPANS_MAX + 1):
        reporting.entered(str(number), None)
    for number in range(llamaindex.RUNS_MAX + 1):
        reporting.handle(begin(str(number)))

    assert (len(reporting._parents), len(reporting._runs)) == (llamaindex.SPANS_MAX, llamaindex.RUNS_MAX)
    assert [each["status"] for each in said(reported)] == ["aborted"]


@pytest.mark.parametrize(
    "odd",
    [None, 5, event("LLMChatStartEvent"), event("LLMChatEndEvent"), begin(None)],
    ids=["nothing", "a number", "a start", "an end", "without a span"],
)
def test_events_of_another_shape_harm_nothing(
    reported: sent.Recorded, reporting: llamaindex.Reporting, odd: Any
) -> None:
    """Nothing is raised into LlamaIndex."""
    reporting.handle(odd)

    assert reported.sent == []


def test_handlers_are_given_to_the_root_dispatcher(reported: sent.Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both kinds, below LlamaIndex's own classes."""
    handlers: list[Any] = []
    dispatcher = SimpleNamespace(add_event_handler=handlers.append, add_span_handler=handlers.append)
    below = {"event_handlers": type("BaseEventHandler", (), {}), "span_handlers": type("BaseSpanHandler", (), {})}
    _stand_in("llama_index", monkeypatch)
    _stand_in("llama_index.core", monkeypatch)
    _stand_in("llama_index.core.instrumentation", monkeypatch, get_dispatcher=lambda: dispatcher)
    for name, kind in below.items():
        _stand_in(f"llama_index.core.instrumentation.{name}", monkeypatch, **{kind.__name__: kind})

    llamaindex.install(tenant="t")
    events, spans = handlers
    spans.new_span("s", None, parent_span_id=None)
    events.handle(begin("s", model="m"))
    spans.prepare_to_drop_span("s", None, err=KeyError())
    spans.new_span("s2", None)
    events.handle(begin("s2", model="m2"))
    spans.prepare_to_exit_span("s2", None)
    events.handle(event("LLMChatEndEvent", "s2", response=answer()))

    assert (isinstance(events, below["event_handlers"]), isinstance(spans, below["span_handlers"])) == (True, True)
    assert [(each["model"], each["status"]) for each in said(reported)] == [("m", "error"), ("m2", "ok")]


def _stand_in(name: str, monkeypatch: pytest.MonkeyPatch, **contents: Any) -> None:
    module = ModuleType(name)
    module.__path__ = []
    for key, value in contents.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


def test_a_finaliser_in_the_middle_of_a_beginning_waits_for_nothing(
    reported: sent.Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector may drop a span while the next request is made, in the same thread."""
    reporting = llamaindex.Reporting()

    def made(**fields: Any) -> track.Request:
        reporting.entered("a", None)
        reporting.failed("a", None)
        reporting.left("a")
        return track.Request(**fields)

    monkeypatch.setattr(llamaindex, "Request", made)
    beginning = threading.Thread(target=reporting._begin, args=("b", "chat", {}), daemon=True)
    beginning.start()
    beginning.join(10)

    assert not beginning.is_alive()
    assert (list(reporting._runs), list(reporting._parents)) == (["b"], [])


def test_a_stream_that_was_left_is_aborted_after_an_hour(
    reported: sent.Recorded, reporting: llamaindex.Reporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LlamaIndex says nothing of it: the next call that begins looks."""
    for span_id in ("left", "going on"):
        reporting.handle(begin(span_id=span_id))
    monkeypatch.setattr(llamaindex, "AGE_MAX_NS", reporting._runs["left"].begin_ns)
    reporting._runs["left"].begin_ns = 0

    reporting.handle(begin(span_id="next"))

    assert [each["status"] for each in said(reported)] == ["aborted"]
    assert list(reporting._runs) == ["going on", "next"]
