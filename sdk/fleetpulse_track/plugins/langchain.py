"""Calls of LangChain's models: a callback below ``langchain_core.callbacks.BaseCallbackHandler``.

    from fleetpulse_track.plugins.langchain import RequestHandler

    model = ChatOpenAI(..., callbacks=[RequestHandler(tenant="acme")])

Seen with langchain-core 1.7 and 1.8. A run of a chat model or a text model is a request: it begins with
``on_chat_model_start`` or ``on_llm_start``, a token with content is a chunk (``on_llm_new_token``, where the model
streams), and usage comes with the last message (``usage_metadata``). LangChain is imported only when the class is
looked up.

A stream that is left ends with ``on_llm_error`` where LangChain learns of it. It does not where an event loop ends
first, nor of a v3 event stream that is dropped: such a run was aborted when nothing can report it any more.
"""

from __future__ import annotations

import atexit
import contextlib
import weakref
from functools import cache
from typing import Any

from fleetpulse_track.handover import Client
from fleetpulse_track.requests import Request
from fleetpulse_track.streams import describe

RUNS_MAX = 4_096
"""Runs that have begun and not ended. Beyond, the oldest is reported as aborted."""


class Reporting:
    """The part of the handler that needs no LangChain. ``fields``: those of every request (``tenant``, ...)."""

    run_inline = True
    """In the caller's thread, so that tokens have their own times."""

    def __init__(self, *, client: Client | None = None, **fields: Any) -> None:
        super().__init__()
        self._client = client
        self._fields = fields
        self._runs: dict[Any, Request] = {}  # no lock: a finaliser may end a run in the middle of all this
        weakref.finalize(self, _left, self._runs).atexit = False  # open runs hold the handler
        _HANDLERS[id(self)] = self

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **named: Any) -> None:
        """A chat model was called."""
        self._begin(run_id, "chat", named)

    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: Any, **named: Any) -> None:
        """A text model was called."""
        self._begin(run_id, "completions", named)

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: Any, **named: Any) -> None:
        """A streamed chunk came."""
        request = self._runs.get(run_id)
        if request is not None:
            with contextlib.suppress(Exception):
                _chunk(request, token, getattr(chunk, "message", None))

    def on_llm_end(self, response: Any, *, run_id: Any, **named: Any) -> None:
        """The answer is whole."""
        request = self._ended(run_id)
        if request is not None:
            with contextlib.suppress(Exception):
                if _is_cached(response):
                    return
                _result(request, response)
            request.finish()

    def on_llm_error(self, error: BaseException, *, run_id: Any, **named: Any) -> None:
        """The call failed, or its stream was left."""
        request = self._ended(run_id)
        if request is not None:
            request.finish(error)

    def _begin(self, run_id: Any, api: str, named: dict[str, Any]) -> None:
        with contextlib.suppress(Exception):
            known = {"api": api, "model": _model(named), **self._fields}
            self._runs[run_id] = Request(client=self._client, **known)
            if len(self._runs) > RUNS_MAX and (oldest := self._ended(next(iter(self._runs)))) is not None:
                oldest.finish(GeneratorExit())

    def _ended(self, run_id: Any) -> Request | None:
        return self._runs.pop(run_id, None)


def _left(runs: dict[Any, Request]) -> None:
    while runs:
        with contextlib.suppress(Exception):  # another thread may begin or end one meanwhile
            runs.popitem()[1].finish(GeneratorExit())


_HANDLERS: weakref.WeakValueDictionary[int, Reporting] = weakref.WeakValueDictionary()


def _leave_all() -> None:
    for handler in _HANDLERS.valuerefs():  # a list, whatever daemon threads make meanwhile
        if (alive := handler()) is not None:
            _left(alive._runs)


atexit.register(_leave_all)  # after the clients' good-bye was, so that it runs before that: a finaliser's may run later


def _model(named: dict[str, Any]) -> str | None:
    parameters, metadata = named.get("invocation_params") or {}, named.get("metadata") or {}
    names = (parameters.get("model"), parameters.get("model_name"), metadata.get("ls_model_name"))
    return next((name for name in names if isinstance(name, str)), None)


def _chunk(request: Request, token: Any, message: Any) -> None:
    if token or getattr(message, "tool_call_chunks", None):
        request.token()
    elif (getattr(message, "additional_kwargs", None) or {}).get("reasoning_content"):
        request.token(reasoning=True)


def _is_cached(result: Any) -> bool:
    """Whether the answer is LangChain's own cache's, which no engine generated: langchain-core stamps its usage with a
    cost of 0 (``BaseChatModel._convert_cached_generations``)."""
    usage = getattr(getattr(result.generations[0][0], "message", None), "usage_metadata", None)
    return isinstance(usage, dict) and usage.get("total_cost") == 0


def _result(request: Request, result: Any) -> None:
    """An ``LLMResult``: its first message's usage and metadata, or what a text model says in ``llm_output``."""
    output = result.llm_output or {}
    message = getattr(result.generations[0][0], "message", None)
    metadata = getattr(message, "response_metadata", None) or {}
    usage = getattr(message, "usage_metadata", None)
    answer = {
        "id": metadata.get("id"),
        "model": metadata.get("model_name") or output.get("model_name"),
        "usage": _as_openai(usage) if usage else metadata.get("token_usage") or output.get("token_usage"),
        "incomplete_details": {"reason": metadata.get("finish_reason") or metadata.get("stop_reason")},
    }
    describe(request, answer)
    calls = getattr(message, "tool_calls", None)
    request.set(choices=len(result.generations[0]), tool_calls=None if calls is None else len(calls))


def _as_openai(usage: Any) -> dict[str, Any]:
    """LangChain's usage in the words of the responses API."""
    cached = (usage.get("input_token_details") or {}).get("cache_read")
    reasoning = (usage.get("output_token_details") or {}).get("reasoning")
    return {
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens_details": {"reasoning_tokens": reasoning},
    }


@cache
def _handler_class() -> type:
    from langchain_core.callbacks import BaseCallbackHandler  # type: ignore[import-not-found]

    return type("RequestHandler", (Reporting, BaseCallbackHandler), {"__module__": __name__})


def __getattr__(name: str) -> Any:
    """``RequestHandler``: the class, made when it is looked up."""
    if name == "RequestHandler":
        return _handler_class()
    raise AttributeError(name)
