"""Requests of a LiteLLM gateway or library: a callback below ``litellm.integrations.custom_logger.CustomLogger``.

LiteLLM 1.6 to 1.8x hands every success and failure to the callback with a ``standard_logging_object`` (documented as
StandardLoggingPayload): times in seconds since the epoch, tokens, status, key and team of the caller. LiteLLM is
imported only when the class or the instance is looked up. Its ``completionStartTime`` is that of the first chunk,
be it an empty role chunk: ``ttft_us`` from here may be early by the time between that and the first content.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from fleetpulse_track import report
from fleetpulse_track.endings import ending

SEEN_MAX = 1_024
"""Calls remembered, for those that LiteLLM reports by both its synchronous and its asynchronous callback."""
_HOUR_S = 3_600.0
_PORTS = {"http": 80, "https": 443}
_APIS = {
    "completion": "chat",
    "acompletion": "chat",
    "text_completion": "completions",
    "atext_completion": "completions",
    "embedding": "embeddings",
    "aembedding": "embeddings",
    "responses": "responses",
    "aresponses": "responses",
}
_TENANTS = ("user_api_key_team_id", "user_api_key_alias", "user_api_key_hash")
"""The first of these that is known is the tenant; keys come hashed from LiteLLM."""
_FINISH = {word: word for word in ("stop", "length", "tool_calls", "content_filter")} | {"function_call": "tool_calls"}


def fields_of(details: dict[str, Any], answer: Any) -> dict[str, Any]:
    """What LiteLLM says of a call, in our fields. ``details``: the callback's ``kwargs``."""
    payload = details.get("standard_logging_object") or {}
    metadata = payload.get("metadata") or {}
    usage = getattr(answer, "usage", None)
    return {
        **_ended(payload, details.get("exception")),
        "model": payload.get("model_group") or payload.get("model") or details.get("model"),
        "tenant": next((str(metadata[name]) for name in _TENANTS if metadata.get(name)), None),
        "user": payload.get("end_user") or None,
        "api": _APIS.get(str(payload.get("call_type")), "other"),
        "address": _address(payload.get("api_base")),
        "request_id": _request_id(payload, details.get("litellm_call_id")),
        "finish_reason": _finish_reason(answer),
        "choices": _choices(answer),
        "e2e_us": _microseconds(payload.get("startTime"), payload.get("endTime")),
        "ttft_us": _ttft_us(payload, details),
        "input_tokens": _tokens(payload, "prompt_tokens"),
        "output_tokens": _tokens(payload, "completion_tokens"),
        "cached_tokens": _whole(_inside(usage, "prompt_tokens_details", "cached_tokens")),
        "reasoning_tokens": _whole(_inside(usage, "completion_tokens_details", "reasoning_tokens")),
        "tokens_from": "engine" if payload.get("completion_tokens") else None,
    }


def _request_id(payload: dict[str, Any], call_id: Any) -> Any:
    """The answer's id. Where there is none LiteLLM names the call instead, which all its attempts share: each of them
    is a request, told apart by its end."""
    request_id = payload.get("id") or call_id
    ended_s = payload.get("endTime")
    return f"{call_id}-{ended_s}" if isinstance(call_id, str) and request_id == call_id and ended_s else request_id


def _address(base: Any) -> str | None:
    """Host and port of a deployment's URL, by which the agent finds the engine; None for what is no such URL."""
    try:
        url = urlsplit(base)
        port = url.port or _PORTS.get(url.scheme)
    except (ValueError, TypeError, AttributeError):
        return None
    if not isinstance(base, str) or not url.hostname or port is None:
        return None
    return f"[{url.hostname}]:{port}" if ":" in url.hostname else f"{url.hostname}:{port}"


def _ended(payload: dict[str, Any], error: Any) -> dict[str, Any]:
    if payload.get("status") != "failure":
        return {"status": "ok"}
    if isinstance(error, BaseException):
        return ending(error)
    code = (payload.get("error_information") or {}).get("error_code")
    failure = Exception()
    if str(code).isdigit():
        failure.status_code = int(str(code))  # type: ignore[attr-defined]
    return ending(failure)


def _ttft_us(payload: dict[str, Any], details: dict[str, Any]) -> int | None:
    streamed = payload.get("stream") or details.get("stream") or (details.get("optional_params") or {}).get("stream")
    return _microseconds(payload.get("startTime"), payload.get("completionStartTime")) if streamed else None


def _microseconds(begin_s: Any, end_s: Any) -> int | None:
    if not isinstance(begin_s, (int, float)) or not isinstance(end_s, (int, float)):
        return None
    return round((end_s - begin_s) * 1_000_000) if begin_s and 0 <= end_s - begin_s <= _HOUR_S else None


def _tokens(payload: dict[str, Any], name: str) -> int | None:
    """LiteLLM writes 0 for what a call that failed did not report."""
    count = _whole(payload.get(name))
    return None if count == 0 and payload.get("status") == "failure" else count


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _inside(usage: Any, details: str, name: str) -> Any:
    return getattr(getattr(usage, details, None), name, None)


def _finish_reason(answer: Any) -> str | None:
    choices = getattr(answer, "choices", None)
    reason = getattr(choices[0], "finish_reason", None) if choices else None
    return None if reason is None else _FINISH.get(str(reason), "other")


def _choices(answer: Any) -> int | None:
    """How many, where they are several."""
    choices = getattr(answer, "choices", None)
    return len(choices) if isinstance(choices, list) and len(choices) > 1 else None


class Reporting:
    """The part of the callback that needs no LiteLLM."""

    def __init__(self, *more: Any, **named: Any) -> None:
        super().__init__(*more, **named)
        self._seen: OrderedDict[tuple[Any, ...], None] = OrderedDict()

    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """A call went well."""
        self._report(kwargs, response_obj)

    def log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """A call failed."""
        self._report(kwargs, response_obj)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """An awaited call went well."""
        self._report(kwargs, response_obj)

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """An awaited call failed."""
        self._report(kwargs, response_obj)

    def _report(self, details: Any, answer: Any) -> None:
        """Report one call, once. Whatever LiteLLM hands over, nothing is raised into it."""
        with contextlib.suppress(Exception):
            payload = details.get("standard_logging_object") or {}
            if payload.get("cache_hit") is True:
                return  # no engine generated anything: the tokens are those of the answer that was kept
            fields = fields_of(details, answer)
            ended_s = payload.get("endTime")
            if not self._is_new((details.get("litellm_call_id") or fields["request_id"], fields["status"], ended_s)):
                return
            at_ms = int(ended_s * 1_000) if isinstance(ended_s, (int, float)) and ended_s > 0 else None
            report(at_ms=at_ms, reported_by="gateway", **fields)

    def _is_new(self, call: tuple[Any, ...]) -> bool:
        """False for a call that was reported before; one without an id is always new."""
        if call[0] is not None and call in self._seen:
            return False
        self._seen[call] = None
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        return True


@cache
def _logger_class() -> type:
    from litellm.integrations.custom_logger import CustomLogger  # type: ignore[import-not-found]

    return type("RequestLogger", (Reporting, CustomLogger), {"__module__": __name__})


@cache
def _logger() -> Any:
    return _logger_class()()


def __getattr__(name: str) -> Any:
    """``RequestLogger``, the class; ``request_logger``, an instance to name in LiteLLM's configuration."""
    if name == "RequestLogger":
        return _logger_class()
    if name == "request_logger":
        return _logger()
    raise AttributeError(name)
