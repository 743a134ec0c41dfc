"""Errors that the proxy itself answers, in OpenAI's shape, so that client libraries raise their usual exceptions."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

import orjson

from producers.proxy.wire import Headers, Refusal, connection_lines
from runtime.http_heads import HEADERS_MAX


def _overloaded(message: str, limit: str) -> Refusal:
    return Refusal(503, "server_error", "overloaded", f"{message}; try again soon", limit)


HEAD_TOO_LARGE = Refusal(431, "invalid_request_error", "headers_too_large", "the request's headers are too large")
TOO_MANY_HEADERS = replace(HEAD_TOO_LARGE, message=f"more than {HEADERS_MAX} headers", limit="headers_max")
BODY_TOO_LARGE = Refusal(413, "invalid_request_error", "body_too_large", "the request's body is too large")
MALFORMED = Refusal(400, "invalid_request_error", "malformed_request", "the request is not well-formed HTTP/1.1")
AMBIGUOUS_PATH = Refusal(
    400, "invalid_request_error", "ambiguous_path", "the path must be written plainly: no dot or empty segments, no ';'"
)
CONTRADICTION = Refusal(400, "invalid_request_error", "credentials", "the request brings several keys that differ")
NOT_ROUTED = Refusal(
    404, "invalid_request_error", "not_routed", "this proxy does not pass this path on; its operator may list it"
)
SLOW = Refusal(408, "invalid_request_error", "request_timeout", "the request did not arrive in time")
TOO_SLOW = replace(SLOW, message="the request's body arrived too slowly", limit="body_bytes_per_s_min")
TOO_MANY_OPEN = _overloaded("too many requests are under way", "open_requests_max")
TOO_MANY_BODIES = _overloaded("too many large requests are under way", "bodies_bytes_max")
TENANT_BUSY = Refusal(
    429, "rate_limit_error", "too_many_requests", "too many of your requests are under way", "tenant_open_requests_max"
)
ADDRESS_BUSY = replace(TENANT_BUSY, limit="address_open_requests_max")
TENANT_RATE = replace(TENANT_BUSY, message="your requests come too fast", limit="tenant_requests_per_s")
ADDRESS_RATE = replace(TENANT_RATE, limit="address_requests_per_s")
ADDRESS_CONNECTIONS = replace(
    TENANT_BUSY, message="too many of your connections are open", limit="address_connections_max"
)
TOO_MANY_AHEAD = replace(TENANT_BUSY, message="too many requests wait on this connection", limit="requests_ahead_max")
TOO_MANY_CONNECTIONS = _overloaded("too many connections are open", "connections_max")
NO_DESCRIPTORS = _overloaded("this proxy has no file descriptor left", "descriptors")
STOPPING = Refusal(503, "server_error", "stopping", "this proxy is shutting down; try again at another")
UPSTREAM_DOWN = Refusal(502, "server_error", "upstream_unavailable", "the engine cannot be reached")
UPSTREAM_BROKE = Refusal(502, "server_error", "upstream_failed", "the engine ended the connection without an answer")
UPSTREAM_MALFORMED = Refusal(502, "server_error", "upstream_malformed", "the engine's answer is not well-formed")
UPSTREAM_SLOW = Refusal(504, "server_error", "upstream_timeout", "the engine did not answer in time")

_TRY_AGAIN = frozenset({429, 503})


def error_body(refusal: Refusal) -> bytes:
    """``{"error": {...}}`` as OpenAI writes it."""
    error = {"message": refusal.message, "type": refusal.kind, "param": None, "code": refusal.code}
    return orjson.dumps({"error": error})


def error_answer(
    refusal: Refusal, *, keep_alive: bool, version: str = "1.1", extra: Headers | None = None, bare: bool = False
) -> bytes:
    """The whole answer. ``bare``: without its body, as HEAD wants it."""
    body = error_body(refusal)
    lines = [
        b"HTTP/1.1 %d %b" % (refusal.status, HTTPStatus(refusal.status).phrase.encode()),
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        *(name + b": " + value for name, value in extra or ()),
    ]
    if refusal.status in _TRY_AGAIN:
        lines.append(b"Retry-After: %d" % refusal.retry_after_s)
    lines += connection_lines(keep_alive, version)
    return b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if bare else body)
