"""How a request ended, by the shape of the exception, whoever raised it. The same words as the agent's own."""

from __future__ import annotations

from typing import Any

_OK = {"status": "ok"}
_ABORTED = {"status": "aborted"}
_OVERLOAD = {"status": "rejected", "error_kind": "overload"}
_TIMEOUT = {"status": "timeout", "error_kind": "timeout"}
_GONE = (GeneratorExit, KeyboardInterrupt, SystemExit)

_BY_CODE = {
    408: _TIMEOUT,
    429: _OVERLOAD,
    499: _ABORTED,
    502: {"status": "error", "error_kind": "engine_lost"},
    503: _OVERLOAD,
    504: _TIMEOUT,
    529: _OVERLOAD,
}
_BY_NAME = (  # a word in the name of the exception's class or of one that it derives from
    ("Cancelled", _ABORTED),
    ("Timeout", _TIMEOUT),
    ("Connect", {"status": "error", "error_kind": "network"}),
    ("Network", {"status": "error", "error_kind": "network"}),
    ("BrokenPipe", {"status": "error", "error_kind": "network"}),
    ("RemoteProtocol", {"status": "error", "error_kind": "engine_lost"}),
    ("MemoryError", {"status": "error", "error_kind": "oom"}),
    ("OutOfMemory", {"status": "error", "error_kind": "oom"}),
    ("EngineDead", {"status": "error", "error_kind": "engine_lost"}),
)


def ending(error: BaseException | None) -> dict[str, Any]:
    """``status`` of a request that ended so (None: well), and what else is known: why, HTTP status, its id."""
    if error is None:
        return _OK
    if isinstance(error, _GONE):
        return _ABORTED
    code = getattr(error, "status_code", None)  # of openai.APIStatusError and its likes
    if type(code) is int and 400 <= code <= 599:
        request_id = getattr(error, "request_id", None)  # of the header X-Request-ID
        named = {"request_id": request_id} if isinstance(request_id, str) and request_id else {}
        return by_code(code) | {"http_status": code} | named
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    found = next((fields for word, fields in _BY_NAME if word in names), None)
    return found or {"status": "error", "error_kind": "other"}


def by_code(code: int) -> dict[str, Any]:
    """``status`` and ``error_kind`` that an HTTP status from 400 stands for."""
    return _BY_CODE.get(code) or {"status": "error", "error_kind": "client" if code < 500 else "server"}
