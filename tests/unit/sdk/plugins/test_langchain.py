"""The callback for LangChain, in the order and shapes in which langchain-core 1.7 calls it; it is not installed."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fleetpulse_track as track
from fleetpulse_track.handover import HEADER
from fleetpulse_track.plugins import langchain
from tests.unit.producers.receiver import sent
from tests.unit.sdk.plugins.stand_ins import said, stand_in


def message(**changed: Any) -> SimpleNamespace:
    """An ``AIMessage`` of ChatOpenAI."""
    usage = {"input_tokens": 9, "output_tokens": 5, "input_token_details": {"cache_read": 8}}
    metadata = {"finish_reason": "length", "model_name": "m-1", "id": "chatcmpl-1"}
    return SimpleNamespace(**{"usage_metadata": usage, "response_metadata": metadata, "tool_calls": []} | changed)


def result(answer: Any, **output: Any) -> SimpleNamespace:
    """An ``LLMResult``."""
    return SimpleNamespace(generations=[[SimpleNamespace(message=answer)]], llm_output=output or None)


def piece(text: str, **fields: Any) -> tuple[str, SimpleNamespace]:
    """A streamed chunk."""
    content = {"tool_call_chunks": [], "additional_kwargs": {}} | fields
    return text, SimpleNamespace(message=SimpleNamespace(**content))


def test_a_run_of_a_chat_model_is_a_request(reported: sent.Recorded) -> None:
    """Role and usage chunks have no content; tokens, cached tokens, id and reason come with the message."""
    handler = langchain.Reporting(tenant="t")

    handler.on_chat_model_start({}, [], run_id=1, invocation_params={"model": "m"}, metadata={})
    for text, chunk in (
        piece(""),
        piece("", additional_kwargs={"reasoning_content": "hm"}),
        piece("he"),
        piece("", tool_call_chunks=[{}]),
    ):
        handler.on_llm_new_token(text, chunk=chunk, run_id=1)
    handler.on_llm_end(result(message(tool_calls=[{}])), run_id=1)

    assert said(reported) == [
        {
            "status": "ok",
            "api": "chat",
            "model": "m",
            "tenant": "t",
            "request_id": "chatcmpl-1",
            "finish_reason": "length",
            "choices": 1,
            "tool_calls": 1,
            "input_tokens": 9,
            "cached_tokens": 8,
            "output_tokens": 5,
            "tokens_from": "engine",
        }
    ]
    assert [HEADER.unpack_from(data)[5] for data in reported.sent] == [3]


def test_a_text_model_says_its_usage_beside_the_answer(reported: sent.Recorded) -> None:
    """In OpenAI's words."""
    handler = langchain.Reporting()

    handler.on_llm_start({}, ["a"], run_id=1, metadata={"ls_model_name": "m"})
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    handler.on_llm_end(result(None, token_usage=usage, model_name="m-2"), run_id=1)

    (fields,) = said(reported)
    named = ("api", "model", "input_tokens", "output_tokens", "choices")
    assert [fields[name] for name in named] == ["completions", "m", 3, 2, 1]


@pytest.mark.parametrize(
    ("error", "status", "error_kind"),
    [
        (GeneratorExit(), "aborted", None),
        (TimeoutError(), "timeout", "timeout"),
        (type("RateLimitError", (Exception,), {"status_code": 429})(), "rejected", "overload"),
    ],
    ids=["left", "slow", "limited"],
)
def test_a_run_that_failed(reported: sent.Recorded, error: BaseException, status: str, error_kind: str | None) -> None:
    """By its exception; a stream that was left too."""
    handler = langchain.Reporting()

    handler.on_chat_model_start({}, [], run_id=1)
    handler.on_llm_error(error, run_id=1)

    assert [(each["status"], each.get("error_kind")) for each in said(reported)] == [(status, error_kind)]


def test_runs_at_the_same_time_are_told_apart(reported: sent.Recorded) -> None:
    """By their ids; an end of no run, or a second one, reports nothing."""
    handler = langchain.Reporting()

    for run_id in (1, 2):
        handler.on_chat_model_start({}, [], run_id=run_id, invocation_params={"model": f"m-{run_id}"})
    handler.on_llm_new_token("a", run_id=1)
    handler.on_llm_new_token("a", run_id=3)
    for run_id in (2, 2, 3):
        handler.on_llm_end(result(None), run_id=run_id)
    handler.on_llm_error(KeyError(), run_id=3)
    handler.on_llm_end(result(None), run_id=1)

    assert [each["model"] for each in said(reported)] == ["m-2", "m-1"]


def test_a_run_that_nothing_can_report_any_more_was_aborted(reported: sent.Recorded) -> None:
    """LangChain's run holds its handlers: once none is held, nobody ends what is open."""
    handler = langchain.Reporting()
    for run_id in (1, 2):
        handler.on_chat_model_start({}, [], run_id=run_id, invocation_params={"model": f"m-{run_id}"})
    handler.on_llm_end(result(message()), run_id=1)

    del handler
    gc.collect()

    assert [(each["model"], each["status"]) for each in said(reported)] == [("m-1", "ok"), ("m-2", "aborted")]


def said_at_exit(program: str, folder: Path) -> str:
    """Kind and JSON of each datagram that is sent by a program with a ``handler``, in order."""
    begun = """
from fleetpulse_track import handover
from fleetpulse_track.plugins import langchain

class Printed(handover.Client):
    def _sent(self, datagram):
        print(datagram[4], datagram[72:].decode())
        return True

handler = langchain.Reporting(client=Printed("/nowhere"))
handler.on_chat_model_start({}, [], run_id=1)
"""
    whole = program.replace("BEGUN", begun)
    ran = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True, cwd=folder)
    assert ran.stderr == ""
    return ran.stdout


def test_a_run_that_is_open_at_exit_was_aborted(tmp_path: Path) -> None:
    """As when an event loop ends before the stream that was left in it: sent before the client's good-bye."""
    assert said_at_exit("BEGUN", tmp_path) == '1 {"status":"aborted","api":"chat"}\n2 \n'


def test_good_bye_is_last_whatever_else_has_finalisers(tmp_path: Path) -> None:
    """One that was made before the SDK was imported, and a request that has ended before."""
    program = """
import weakref
made = {1}
weakref.finalize(made, int)
BEGUN
handler.on_llm_start({}, [], run_id=2)
handler.on_llm_error(TimeoutError(), run_id=2)
"""
    kinds = [line.split()[0] for line in said_at_exit(program, tmp_path).splitlines()]
    assert kinds == ["1", "1", "2"]


def test_runs_that_others_end_while_they_are_left_raise_nothing() -> None:
    """Of a daemon thread, at exit."""

    class Raced(dict[Any, Any]):
        def __iter__(self) -> Any:
            self.clear()
            raise RuntimeError("dictionary changed size during iteration")

        def popitem(self) -> Any:
            self.clear()
            raise KeyError

    langchain._left(Raced({1: None}))


def test_runs_that_never_end_are_bounded(reported: sent.Recorded) -> None:
    """The oldest was left."""
    handler = langchain.Reporting()
    for run_id in range(langchain.RUNS_MAX + 1):
        handler.on_chat_model_start({}, [], run_id=run_id)

    assert len(handler._runs) == langchain.RUNS_MAX
    assert [each["status"] for each in said(reported)] == ["aborted"]


@pytest.mark.parametrize(
    "odd", [None, 5, "x", {}, result(5), SimpleNamespace(generations=[], llm_output=None)], ids=str
)
def test_answers_of_another_shape_harm_nothing(reported: sent.Recorded, odd: Any) -> None:
    """Nothing is raised into LangChain; the request is reported once."""
    handler = langchain.Reporting()
    handler.on_chat_model_start(odd, odd, run_id=1, invocation_params=odd, metadata=None)
    handler.on_llm_new_token(odd, chunk=odd, run_id=1)
    handler.on_llm_end(odd, run_id=1)

    assert len(reported.sent) <= 1


def test_the_handler_is_below_langchains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made only when it is looked up, and run in the caller's thread."""
    below = stand_in("langchain_core.callbacks", "BaseCallbackHandler", monkeypatch)
    langchain._handler_class.cache_clear()

    assert issubclass(langchain.RequestHandler, below)
    assert langchain.RequestHandler(tenant="t").run_inline
    with pytest.raises(AttributeError):
        _ = langchain.Nothing
    langchain._handler_class.cache_clear()


def test_an_answer_from_langchains_cache_is_no_request(reported: sent.Recorded) -> None:
    """No engine generated anything: langchain-core stamps a cached message's usage with a cost of 0."""
    handler = langchain.Reporting()
    usage = {"input_tokens": 9, "output_tokens": 5}
    for run_id, cost in ((1, {"total_cost": 0}), (2, {"total_cost": 0.5}), (3, {})):
        handler.on_chat_model_start({}, [], run_id=run_id, invocation_params={"model": f"m-{run_id}"})
        kept = message(usage_metadata=usage | cost, response_metadata={})
        handler.on_llm_end(result(kept), run_id=run_id)

    assert [each["model"] for each in said(reported)] == ["m-2", "m-3"]
    assert not handler._runs


def test_a_finaliser_in_the_middle_of_a_beginning_waits_for_nothing(
    reported: sent.Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector may end a stream that was left while the next request is made, in the same thread."""
    handler = langchain.Reporting()
    handler.on_chat_model_start({}, [], run_id=1)

    def made(**fields: Any) -> track.Request:
        handler.on_llm_error(GeneratorExit(), run_id=1)
        return track.Request(**fields)

    monkeypatch.setattr(langchain, "Request", made)
    beginning = threading.Thread(target=handler.on_chat_model_start, args=({}, []), kwargs={"run_id": 2}, daemon=True)
    beginning.start()
    beginning.join(10)

    assert not beginning.is_alive()
    assert (list(handler._runs), len(reported.sent)) == ([2], 1)
