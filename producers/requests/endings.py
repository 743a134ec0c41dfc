"""How a request ended: status and error kind from transport, HTTP status, error and finish reason.

The first rule that applies decides: a transport that never brought an answer, then the HTTP status, then an error
inside the answer, then the finish reason, then a transport that broke. Closed sets: ``schemas.events.event_types``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

FINISH_REASON_OF: Mapping[str, str] = MappingProxyType(
    {
        "stop": "stop",
        "eos": "stop",
        "eos_token": "stop",
        "stop_sequence": "stop",
        "end_turn": "stop",
        "length": "length",
        "max_tokens": "length",
        "max_output_tokens": "length",
        "model_context_window_exceeded": "length",
        "tool_calls": "tool_calls",
        "tool_call": "tool_calls",
        "function_call": "tool_calls",
        "tool_use": "tool_calls",
        "content_filter": "content_filter",
        "refusal": "content_filter",
        "safety": "content_filter",
        "abort": "abort",
        "cancelled": "abort",
        "error": "error",
    }
)
_GRAVITY = ("error", "abort", "content_filter", "length", "other", "tool_calls", "stop")


class How(StrEnum):
    """What the transport saw of the end."""

    COMPLETE = "complete"
    """The answer was received whole."""
    CLIENT_GONE = "client_gone"
    """The client went away before that."""
    ENGINE_LOST = "engine_lost"
    """The connection broke before the end of the answer."""
    UNREACHABLE = "unreachable"
    """No connection to the engine could be made."""
    TIMEOUT = "timeout"
    """A time limit on this side ended it."""
    REFUSED = "refused"
    """Never passed on: a queue or a limit on this side was full."""
    BAD_REQUEST = "bad_request"
    """Never passed on: what the client sent was at fault."""
    FAILED = "failed"
    """A fault on this side."""


class Verdict(NamedTuple):
    """``status`` and ``error_kind`` of the event."""

    status: str
    error_kind: str | None


@dataclass(frozen=True, slots=True)
class Ending:
    """``error_kind`` overrides what the table would say of a failure, for those who know more."""

    how: How = How.COMPLETE
    error_kind: str | None = None


WHOLE = Ending()
OK = Verdict("ok", None)
ABORTED = Verdict("aborted", None)
_BY_HOW: Mapping[How, Verdict] = MappingProxyType(
    {
        How.CLIENT_GONE: ABORTED,
        How.ENGINE_LOST: Verdict("error", "engine_lost"),
        How.UNREACHABLE: Verdict("error", "network"),
        How.TIMEOUT: Verdict("timeout", "timeout"),
        How.REFUSED: Verdict("rejected", "overload"),
        How.BAD_REQUEST: Verdict("error", "client"),
        How.FAILED: Verdict("error", "other"),
    }
)
_AFTER_THE_ANSWER = frozenset({How.COMPLETE, How.CLIENT_GONE, How.ENGINE_LOST})
"""Ends that say less than an error that was answered before them."""
_GENERATION_FAILED = frozenset({"server", "oom", "engine_lost"})
_BY_KIND: Mapping[str, Verdict] = MappingProxyType(
    {"overload": Verdict("rejected", "overload"), "timeout": Verdict("timeout", "timeout")}
)
_BY_HTTP: Mapping[int, Verdict] = MappingProxyType(
    {
        408: Verdict("timeout", "timeout"),
        429: Verdict("rejected", "overload"),
        499: ABORTED,
        502: Verdict("error", "engine_lost"),
        503: Verdict("rejected", "overload"),
        504: Verdict("timeout", "timeout"),
        529: Verdict("rejected", "overload"),
    }
)
_BY_HTTP_CLASS: Mapping[int, Verdict] = MappingProxyType({4: Verdict("error", "client"), 5: Verdict("error", "server")})
_REDIRECTED = Verdict("error", "other")
"""It was not answered here, and is no fault of its client's where an engine's address is wrong."""
_BY_FINISH: Mapping[str, Verdict] = MappingProxyType({"abort": ABORTED, "error": Verdict("error", "server")})
_KIND_WORDS: tuple[tuple[str, str], ...] = (  # found in the type, code or message of an error, in this order
    ("out of memory", "oom"),
    ("outofmemory", "oom"),
    ("rate_limit", "overload"),
    ("overload", "overload"),
    ("too many requests", "overload"),
    ("queue is full", "overload"),
    ("capacity", "overload"),
    ("timeout", "timeout"),
    ("timed out", "timeout"),
    ("enginedead", "engine_lost"),
    ("engine dead", "engine_lost"),
    ("invalid_request", "client"),
    ("badrequest", "client"),
    ("validation", "client"),
    ("notfound", "client"),
    ("not_found", "client"),
    ("authentication", "client"),
    ("permission", "client"),
    ("server", "server"),
    ("generation", "server"),
    ("internal", "server"),
)


_OOM = re.compile(r"(?<![a-z])oom(?=$|[^a-z]|error|kill)")
"""The abbreviation as a word: no room, no bloom."""


def verdict(ending: Ending, http_status: int | None, error_kind: str | None, finish_reason: str | None) -> Verdict:
    """Status and error kind of the event. ``error_kind`` is that of an error inside the answer, None without one."""
    found = _BY_HOW.get(ending.how, OK)
    if ending.how in _AFTER_THE_ANSWER:
        answered = _answered(http_status, error_kind, finish_reason)
        found = found if answered == OK else answered
    if ending.error_kind is not None and found.status not in ("ok", "aborted"):
        return Verdict(found.status, ending.error_kind)
    return found


def stop_of(status: str, error_kind: str | None) -> str | None:
    """The finish reason where the engine gave none."""
    if status == "aborted":
        return "abort"
    return "error" if status == "error" and error_kind in _GENERATION_FAILED else None


def _answered(http_status: int | None, error_kind: str | None, finish_reason: str | None) -> Verdict:
    code = http_status or 200
    if code // 100 == 3:
        return _REDIRECTED
    by_code = _BY_HTTP.get(code) or _BY_HTTP_CLASS.get(code // 100)
    if by_code is not None:
        # The body of a 500 may know why, such as out of memory; what the client is to blame for stays with it.
        knows_more = by_code.error_kind == "server" and error_kind not in (None, "other")
        return Verdict("error", error_kind) if knows_more else by_code
    if error_kind is not None:
        return _BY_KIND.get(error_kind) or Verdict("error", error_kind)
    return OK if finish_reason is None else _BY_FINISH.get(finish_reason, OK)


def finish_reason_of(reported: str) -> str:
    """The engine's finish reason as one of ``FINISH_REASONS``."""
    return FINISH_REASON_OF.get(reported.lower(), "other")


def gravest(finish_reasons: list[str]) -> str | None:
    """The one that stands for several choices: what went wrong before what went well."""
    return min(finish_reasons, key=_GRAVITY.index) if finish_reasons else None


def kind_of_error(reported: object, kind: object) -> str:
    """The error kind of an error object or text in an answer. The text is searched for known words, never kept."""
    code: object = None
    texts = [kind, reported]
    if isinstance(reported, dict):
        code = reported.get("code")
        texts = [reported.get("type"), code, reported.get("message"), kind]
    if type(code) is int and (by_code := _BY_HTTP.get(code)) is not None and by_code.error_kind is not None:
        return by_code.error_kind
    for text in texts:
        words = text.lower() if isinstance(text, str) else ""
        found = "oom" if _OOM.search(words) else next((name for word, name in _KIND_WORDS if word in words), None)
        if found is not None and found != "server":
            return found
    if type(code) is int and (by_class := _BY_HTTP_CLASS.get(code // 100)) is not None:
        return by_class.error_kind or "other"
    return "server" if any(isinstance(text, str) and text for text in texts) else "other"
