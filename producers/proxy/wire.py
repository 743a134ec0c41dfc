"""Framing rules of HTTP/1.1 between a client and an engine: what a head must be, and the head that is sent instead.

llhttp reads both sides strictly (lengths twice, a length beside chunks, stray line ends, blanks before a colon are
all refused by it). What it lets through and two servers could read differently is refused here. Heads are
rewritten from what was parsed, so that the next server cannot read them in another way.

Source: RFC 9110 (sections 7.6.1, 10.1.1), RFC 9112 (sections 3.2, 6, 11.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from runtime.http_heads import HEADERS_MAX, without_offer

METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
BODILESS = frozenset({204, 304})

Headers = list[tuple[bytes, bytes]]
"""Names as they were written, in order."""

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
_REQUEST_ONLY_HERE = _HOP_BY_HOP | {b"host", b"expect", b"content-length"}
_CONTROL = bytes(range(0x21)) + b"\x7f"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not passed on: status and OpenAI's error type and code, with a sentence for the caller.

    ``limit``: which was reached, where several share one code. ``retry_after_s``: with 429 and 503, when to try again.
    """

    status: int
    kind: str
    code: str
    message: str
    limit: str | None = None
    retry_after_s: int = 1

    @property
    def reason(self) -> str:
        """What it is counted under."""
        return self.limit or self.code


@dataclass(slots=True)
class Head:
    """A request's line and headers, filled while it is read. ``values``: by lower-case name, repeated ones joined."""

    target: bytes = b""
    method: bytes = b""
    version: str = "1.1"
    keep_alive: bool = True
    headers: Headers = field(default_factory=list)
    values: dict[bytes, bytes] = field(default_factory=dict)
    twice: set[bytes] = field(default_factory=set)
    """Names, in lower case, of headers that came more than once."""

    def add(self, name: bytes, value: bytes) -> None:
        """Take one header. Of too many one more than may be is kept: ``too_many``."""
        if self.too_many:
            return
        self.headers.append((name, value))
        lower = name.lower()
        if lower in self.values:
            self.twice.add(lower)
        _join(self.values, lower, value)

    @property
    def too_many(self) -> bool:
        """Whether more than ``HEADERS_MAX`` headers came."""
        return len(self.headers) > HEADERS_MAX

    @property
    def path(self) -> bytes:
        """The target's path: without scheme and host, query and fragment."""
        return origin_form(self.target).partition(b"#")[0].partition(b"?")[0]

    @property
    def has_body(self) -> bool:
        """Whether a body follows, of a length or in chunks."""
        return b"transfer-encoding" in self.values or self.values.get(b"content-length", b"0").strip(b"0") != b""

    @property
    def length(self) -> int | None:
        """The body's announced length; None in chunks, 0 where there is none."""
        if b"transfer-encoding" in self.values:
            return None
        return int(self.values.get(b"content-length", b"0"))

    @property
    def wants_continue(self) -> bool:
        """Whether the client waits for a word before it sends its body (HTTP/1.0 clients never do)."""
        return self.version != "1.0" and self.values.get(b"expect", b"").lower() == b"100-continue"


_ONCE = frozenset({b"host", b"content-length", b"transfer-encoding"})


_TOLD_APART = frozenset({b"x-request-id", b"traceparent"})
"""By these a request is told from others: several reports with the same are of one."""


def _join(values: dict[bytes, bytes], name: bytes, value: bytes) -> None:
    before = values.get(name)
    values[name] = value if before is None else before + b", " + value


CREDENTIALS = frozenset({b"authorization", b"api-key", b"x-api-key"})


def refusal_of(head: Head, upgrade: bool, once: frozenset[bytes] = CREDENTIALS) -> Refusal | None:
    """Why this head is not passed on; None when it is. ``upgrade``: it asks for another protocol. ``once``: headers
    that say whose request it is, of which this side and the engine might read different ones; nor may a client have
    them taken out on the way to the engine (``Connection`` names what is meant for one hop)."""
    if head.version not in ("1.0", "1.1"):
        return _bad(400, "http_version", "only HTTP/1.0 and HTTP/1.1 are spoken here")
    if head.method not in METHODS:
        return _bad(501, "method_not_supported", "this method is not passed on")
    if (upgrade and not may_stay(head)) or head.values.get(b"upgrade", b"").lower() == b"websocket":
        return _bad(501, "upgrade_refused", "no other protocol is spoken here")
    if head.twice & once:
        return _bad(400, "credentials", "headers that name the sender may stand once only")
    named = named_in(head.values.get(b"connection", b""))
    if named & once:
        return _bad(400, "credentials", "Connection may name no header that names the sender")
    if named & _TOLD_APART:
        return _bad(400, "connection", "Connection may name neither X-Request-ID nor traceparent")
    if head.twice & _ONCE or (b"host" not in head.values and head.version == "1.1"):
        return _bad(400, "host", "exactly one Host header is needed")
    if head.values.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        return _bad(400, "transfer_encoding", "bodies come in chunks or with a length, not encoded otherwise")
    if b"transfer-encoding" in head.values and head.version == "1.0":
        return _bad(400, "transfer_encoding", "HTTP/1.0 knows no chunks")
    if not _good_target(head):
        return _bad(400, "target", "the target must be a path")
    if head.values.get(b"expect", b"100-continue").lower() != b"100-continue":
        return _bad(417, "expectation", "only 100-continue can be expected")
    return None


def request_line(head: Head) -> bytes:
    """The first line of the head as it must have come. The parser is lenient there: it takes several blanks for one,
    and other protocols for HTTP."""
    return head.method + b" " + head.target + b" HTTP/" + head.version.encode() + b"\r\n"


def may_stay(head: Head) -> bool:
    """Whether a request that offers another protocol is as good without it: HTTP/2 in the clear, which clients such
    as Java's offer with every request (RFC 9110, 7.8: a server may ignore it)."""
    return head.values.get(b"upgrade", b"").lower() == b"h2c"


def without_upgrade(head: Head) -> bytes:
    """The head as its client would write it without the offer, to be read once more."""
    return without_offer(request_line(head), head.headers)


def _bad(status: int, code: str, message: str) -> Refusal:
    return Refusal(status, "invalid_request_error", code, message)


def _good_target(head: Head) -> bool:
    if head.target == b"*":
        return head.method == b"OPTIONS"
    if not head.target.isascii() or head.target.translate(None, _CONTROL) != head.target:
        return False
    return head.target.startswith(b"/") or _origin(head.target) is not None


def _origin(target: bytes) -> bytes | None:
    """The path of an absolute target; None when it is none."""
    scheme, mark, rest = target.partition(b"://")
    if not mark or scheme.lower() not in (b"http", b"https"):
        return None
    host, slash, path = rest.partition(b"/")
    return slash + path if slash and host else (b"/" if host and b"?" not in host else None)


def origin_form(target: bytes) -> bytes:
    """The target as a path: an absolute one without scheme and host."""
    return target if target[:1] in (b"/", b"*") else _origin(target) or b"/"


def request_head(
    head: Head, target: bytes, authority: bytes, length: int | None, extra: Headers, without: frozenset[bytes]
) -> bytes:
    """The head sent to the upstream. ``length`` of the body: None sends it in chunks; 0 of a request that had no
    body is left out. ``extra`` headers come last; names in ``without`` (lower case) are left out."""
    lines = [head.method + b" " + target + b" HTTP/1.1", b"Host: " + authority]
    lines += _passed_on(head.headers, _REQUEST_ONLY_HERE | without | named_in(head.values.get(b"connection", b"")))
    if length is None:
        lines.append(b"Transfer-Encoding: chunked")
    elif length or b"content-length" in head.values or head.has_body:
        lines.append(b"Content-Length: %d" % length)
    lines += [name + b": " + value for name, value in extra]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def accept_encoding(head: Head, known: frozenset[bytes]) -> Headers:
    """The client's ``Accept-Encoding`` with no more than the ``known`` encodings; nothing where it sent none."""
    offered = head.values.get(b"accept-encoding")
    if offered is None:
        return []
    kept = [each.strip() for each in offered.split(b",") if each.partition(b";")[0].strip().lower() in known]
    return [(b"Accept-Encoding", b", ".join(kept) or b"identity")]


def _passed_on(headers: Headers, without: frozenset[bytes]) -> list[bytes]:
    return [name + b": " + value for name, value in headers if name.lower() not in without]


def named_in(connection: bytes) -> frozenset[bytes]:
    """The headers that ``Connection`` names as meant for this hop only, in lower case."""
    return frozenset(name.strip().lower() for name in connection.split(b","))


class Framing(Enum):
    """How an answer's body goes to the client."""

    VERBATIM = "the upstream's bytes as they are, chunk lines included"
    CHUNKED = "its pieces in chunks of our own"
    UNTIL_CLOSE = "its pieces, then the connection is closed"
    NONE = "no body"


@dataclass(slots=True)
class Answer:
    """An upstream's status line and headers, filled while they are read."""

    status: int = 0
    reason: bytes = b""
    version: str = "1.1"
    headers: Headers = field(default_factory=list)
    values: dict[bytes, bytes] = field(default_factory=dict)

    def add(self, name: bytes, value: bytes) -> None:
        """Take one header."""
        self.headers.append((name, value))
        _join(self.values, name.lower(), value)

    def stay_at(self, authority: bytes, prefix: bytes) -> None:
        """Let a redirect to the upstream's own address lead its client to this proxy: ``own_location``."""
        if b"location" in self.values:
            self.headers = [
                (name, own_location(value, authority, prefix) if name.lower() == b"location" else value)
                for name, value in self.headers
            ]

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return b"transfer-encoding" in self.values

    @property
    def until_close(self) -> bool:
        """Whether only the end of the connection ends the body."""
        return not self.chunked and b"content-length" not in self.values

    @property
    def readable(self) -> bool:
        """False for a transfer encoding other than chunked."""
        return self.values.get(b"transfer-encoding", b"chunked").lower() == b"chunked"

    def is_stream(self) -> bool:
        """Whether the body is server-sent events."""
        return self.values.get(b"content-type", b"").lower().startswith(b"text/event-stream")


def own_location(location: bytes, authority: bytes, prefix: bytes) -> bytes:
    """A redirect to the upstream's own address as one to this proxy: its path alone, without the upstream's prefix.
    Any other as it is, one that a client would read as another host among them."""
    scheme, mark, rest = location.partition(b"://")
    host, path = rest[: len(authority)], rest[len(authority) :]
    if not mark or scheme.lower() not in (b"http", b"https") or host.lower() != authority.lower():
        return location
    path = path.removeprefix(prefix) if path.startswith(prefix + b"/") else b""
    return path if path[:1] == b"/" and path[1:2] not in (b"/", b"\\") else location


def framing_of(answer: Answer, method: bytes, client_version: str, rewritten: bool) -> Framing:
    """How the body goes on. ``rewritten``: bytes may be taken out of it on the way."""
    if method == b"HEAD" or answer.status in BODILESS:
        return Framing.NONE
    if not answer.until_close and not rewritten and not (answer.chunked and client_version == "1.0"):
        return Framing.VERBATIM
    return Framing.UNTIL_CLOSE if client_version == "1.0" else Framing.CHUNKED


def answer_head(answer: Answer, framing: Framing, keep_alive: bool, client_version: str, extra: Headers) -> bytes:
    """The head sent to the client."""
    without = _HOP_BY_HOP | named_in(answer.values.get(b"connection", b""))
    if framing in (Framing.CHUNKED, Framing.UNTIL_CLOSE):
        without |= {b"content-length"}
    lines = [b"HTTP/1.1 %d " % answer.status + answer.reason]
    lines += _passed_on(answer.headers, without)
    if framing is Framing.CHUNKED or (framing is not Framing.UNTIL_CLOSE and answer.chunked):
        lines.append(b"Transfer-Encoding: chunked")
    lines += [name + b": " + value for name, value in extra]
    lines += connection_lines(keep_alive, client_version)
    return b"\r\n".join(lines) + b"\r\n\r\n"


def connection_lines(keep_alive: bool, client_version: str) -> list[bytes]:
    """The Connection header: HTTP/1.1 keeps the connection by default, HTTP/1.0 closes it."""
    if not keep_alive:
        return [b"Connection: close"]
    return [b"Connection: keep-alive"] if client_version == "1.0" else []


def chunk(piece: bytes) -> bytes:
    """One chunk that holds the piece (never empty: that would end the body)."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def last_chunk(trailers: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """The end of a chunked body, with its trailers."""
    return b"0\r\n" + b"".join(name + b": " + value + b"\r\n" for name, value in trailers) + b"\r\n"
