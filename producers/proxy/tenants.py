"""Who a request is of: its id, trace and tenant, the latter from an API key, a header or a claim. Pure.

An API key is never kept: its tenant is the first 64 bits of HMAC-SHA256 under a secret of the deployment. Without the
secret keys cannot be tried out against a list of tenants, however weak they are. A claim of a JWT is read *without
checking the signature*: configure it only where something before or behind the proxy checks it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from producers.proxy.wire import Headers
from runtime.trace_context import TraceContext, parse

TENANT_BYTES_MAX = 256
"""Longer values are no names: they become unknown, never cut, lest two tenants become one."""
TOKEN_BYTES_MAX = 16 * 1024
_HASH_HEX = 16

TenantOf = Callable[[Mapping[bytes, bytes]], str | None]
"""Headers by lower-case name to the tenant; None: unknown."""


def tenant_reader(source: str, secret: bytes) -> TenantOf:
    """The reader for ``proxy.tenant_from``: ``api_key``, ``header:NAME``, ``unverified_jwt:CLAIM`` or ``none``."""
    kind, _, name = source.partition(":")
    if kind == "api_key":
        return lambda headers: of_key(api_key(headers), secret)
    if kind == "header":
        lower = name.lower().encode()
        return lambda headers: _as_name(headers.get(lower))
    if kind == "unverified_jwt":
        return lambda headers: claim_of(api_key(headers), name)
    assert kind == "none", f"no source of tenants: {source}"
    return lambda headers: None


def api_key(headers: Mapping[bytes, bytes]) -> bytes | None:
    """The bearer token, else ``api-key`` or ``x-api-key``; None without one."""
    return next(iter(_keys(headers)), None)


def _keys(headers: Mapping[bytes, bytes]) -> list[bytes]:
    scheme, *token = headers.get(b"authorization", b"").split(None, 1)[:2] or (b"",)
    bearer = token[0].strip() if token and scheme.lower() == b"bearer" else b""
    return [key for key in (bearer, headers.get(b"api-key"), headers.get(b"x-api-key")) if key]


def contradicts(headers: Mapping[bytes, bytes]) -> bool:
    """Whether several keys are there and differ: the engine might go by another than the tenant is named by."""
    return len(set(_keys(headers))) > 1


def tenant_headers(source: str) -> frozenset[bytes]:
    """The headers, in lower case, that ``proxy.tenant_from`` reads beside those of keys."""
    kind, _, name = source.partition(":")
    return frozenset({name.lower().encode()} if kind == "header" else ())


def of_key(key: bytes | None, secret: bytes) -> str | None:
    """``key-`` and 16 hex digits; the same for the same key and secret."""
    if key is None:
        return None
    return "key-" + hmac.digest(secret, key, "sha256").hex()[:_HASH_HEX]


def claim_of(token: bytes | None, claim: str) -> str | None:
    """A text or number claim of a JWT, **not verified**; None where there is none or the token is no JWT."""
    if token is None or len(token) > TOKEN_BYTES_MAX or token.count(b".") != 2:
        return None
    payload = token.split(b".")[1]
    try:
        claims = orjson.loads(base64.b64decode(payload + b"=" * (-len(payload) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        return None
    value = claims.get(claim) if isinstance(claims, dict) else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return _as_name(str(value).encode("utf-8", "replace"))


def _as_name(value: bytes | None) -> str | None:
    if not value or len(value) > TENANT_BYTES_MAX:
        return None
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


REQUEST_ID = b"X-Request-ID"
TRACEPARENT = b"traceparent"
_SOUND_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_SOUND_TRACE = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


@dataclass(frozen=True, slots=True)
class Identity:
    """``added`` are the headers that the client did not send, or that replace what it sent: an id that is none, since
    the engine would report under it, and the ``traceparent`` of a request that has a ``span`` of its own, since what
    comes after follows that."""

    request_id: str
    trace_id: str | None
    added: Headers
    span: TraceContext | None = None
    parent: TraceContext | None = None
    without: frozenset[bytes] = frozenset()
    """Headers of the client, in lower case, that ``added`` has instead."""

    @property
    def echo(self) -> Headers:
        """The request's id as a header of the response."""
        return [(REQUEST_ID, self.request_id.encode())]


def identity_of(values: Mapping[bytes, bytes], chance: bytes, *, sampled: bool, followed: bool = False) -> Identity:
    """The identity of a request with these headers (lower case). ``chance``: 40 fresh random bytes.

    An id that is too long, holds what no id holds or came more than once is replaced by one of ours, for the engine
    too. A trace id that cannot be read is unknown and passed on. ``sampled``: whether a trace begun here asks to be
    recorded. ``followed``: whether requests of sampled traces have a span of their own.
    """
    added: Headers = []
    own = chance[:16].hex().encode()
    sent = values.get(b"x-request-id")
    without = frozenset[bytes]()
    if sent is not None and _SOUND_ID.fullmatch(sent):
        request_id = sent.decode()
    else:
        request_id = own.decode()
        added.append((REQUEST_ID, own))
        without = frozenset(() if sent is None else {b"x-request-id"})
    trace_sent = values.get(b"traceparent")
    own_span = chance[32:40].hex()
    if trace_sent is not None:
        found = _SOUND_TRACE.fullmatch(trace_sent.strip())
        trace_id = found and found[1].decode()
        parent = parse(trace_sent.strip()) if followed else None
        if parent is None:
            return Identity(request_id, trace_id, added, without=without)
        added.append((TRACEPARENT, f"00-{trace_id}-{own_span}-{trace_sent.strip()[53:55].decode()}".encode()))
        span = TraceContext(parent.trace_id, int(own_span, 16))
        return Identity(request_id, trace_id, added, span, parent, without | {b"traceparent"})
    trace_id = chance[16:32].hex()
    added.append((TRACEPARENT, f"00-{trace_id}-{own_span}-{int(sampled):02d}".encode()))
    root = TraceContext(int(trace_id, 16), int(own_span, 16)) if followed and sampled else None
    return Identity(request_id, trace_id, added, root, without=without)
