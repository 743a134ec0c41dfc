"""HTTP/1.1 server of a process's own endpoints: a few routes, whole bodies, everything bounded.

Requests of a connection are answered one after the other; meanwhile nothing more is read from it. A connection above
``connections_max`` gets 503 and is closed. Idling, sending a request and reading an answer may take ``within_s`` each,
then the connection is cut. Heads and bodies are bounded, chunked bodies too. An offer of another protocol,
such as HTTP/2 by every request of Java's client, is ignored (RFC 9110, 7.8). What a browser posts for a page has an
``Origin`` and is refused: the name of a page can be made to point here. Why not a framework: decision 0016.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self, cast

import httptools

from runtime.http_heads import HEADERS_MAX, without_offer

_log = logging.getLogger(__name__)

HEAD_BYTES_MAX = 16_384
_BACKLOG = 128
_PHRASES = {413: "Content Too Large"}
"""Where RFC 9110 renamed what Python 3.11 still says."""


class Refused(Exception):
    """A request that gets this status instead of an answer. ``reason``: one word; None: the status's phrase."""

    def __init__(self, status: int, detail: str = "", reason: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason or phrase(status).lower().replace(" ", "_")


@dataclass(slots=True)
class Request:
    """One request. Names of ``headers`` are in lower case; ``path`` is without the query."""

    method: str = ""
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    peer: str = ""
    """IP address of who asks."""

    @property
    def content_type(self) -> str:
        """Without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Response:
    """``close``: the connection ends with it."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    close: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """``answer`` may raise ``Refused``. GET answers HEAD too. ``content_types``: those taken; empty: any."""

    method: str
    answer: Callable[[Request], Awaitable[Response]]
    content_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class App:
    """Routes by path, how refusals read (``refuse`` gets what is known of the request), bounds, and who counts."""

    routes: Mapping[str, Route]
    refuse: Callable[[Refused, Request], Response]
    connections_max: int
    within_s: float
    body_bytes_max: int = 0
    count: Callable[[int], None] = lambda _status: None

    def check(self, request: Request) -> Refused | None:
        """Why this head is refused; None: its body is wanted."""
        if "origin" in request.headers:
            return Refused(403, "web pages are not answered")
        if (route := self.routes.get(request.path)) is None:
            return Refused(404, " ".join(self.routes))
        if ("GET" if request.method == "HEAD" else request.method) != route.method:
            return Refused(405, f"the method is {route.method}")
        if route.content_types and request.content_type not in route.content_types:
            allowed = " or ".join(route.content_types)
            return Refused(415, f"content-type {request.content_type or 'missing'}: must be {allowed}")
        return None

    async def respond(self, request: Request, refused: Refused | None) -> Response:
        """The response of the route, or to what is refused. A failure of ours is logged and answered with 503."""
        if refused is None:
            try:
                return await self.routes[request.path].answer(request)
            except Refused as error:
                refused = error
            except Exception:
                _log.exception("HTTP request failed; answered with 503", extra={"path": request.path})
                refused = Refused(503, "it failed here; try again later")
        return self.refuse(refused, request)


def phrase(status: int) -> str:
    """The reason phrase."""
    return _PHRASES.get(status) or HTTPStatus(status).phrase


class Connection(asyncio.Protocol):
    """One connection. ``crowd``: all that are open."""

    def __init__(self, app: App, crowd: set[Connection]) -> None:
        self._app = app
        self._crowd = crowd
        self._parser: Any = httptools.HttpRequestParser(self)
        self._peer = ""
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[Request, Refused | None, bool]] = deque()
        self._answering: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._head_bytes = self._complete = 0
        self._in_head = True
        self.on_message_begin()

    async def finish(self) -> None:
        """Answer what has arrived, then close."""
        if self._answering is not None:
            await self._answering
        if self._transport is not None:
            self._transport.close()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._peer = str((transport.get_extra_info("peername") or ("",))[0])
        self._wind()
        if len(self._crowd) >= self._app.connections_max:
            refused = Refused(503, "try again later", "too_many_connections")
            self._say(self._request, self._app.refuse(refused, self._request), keep=False)
            return
        self._crowd.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._crowd.discard(self)
        self._writable.set()
        self._rest()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        complete = self._complete
        try:
            rest = memoryview(data)
            while rest:
                rest = self._feed(rest)
        except httptools.HttpParserError as error:
            self._queue(self._refused or Refused(400, str(error)), keep=False)
        else:  # the parser keeps a head that has no end yet
            self._head_bytes += len(data) if self._in_head and complete == self._complete else 0
            if self._head_bytes > HEAD_BYTES_MAX:
                self._queue(Refused(431, f"at most {HEAD_BYTES_MAX} bytes"), keep=False)

    def _feed(self, data: memoryview) -> memoryview:
        """Parse this. What is left of it, behind a head that offered another protocol: the parser takes it for that."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if not self._offers():
                return data[:0]  # CONNECT: what follows is no HTTP
            version = self._parser.get_http_version().encode()
            line = b"%b %b HTTP/%b\r\n" % (self._parser.get_method(), self._url, version)
            head, rest = without_offer(line, self._headers), data[upgrade.args[0] :]
            self._parser = httptools.HttpRequestParser(self)
            self._parser.feed_data(head)
            return rest
        return data[:0]

    def _offers(self) -> bool:
        """Whether the head that was read last offers another protocol."""
        return self._parser.should_upgrade() and self._request.method != "CONNECT"

    # What the parser calls

    def on_message_begin(self) -> None:
        self._request = Request(peer=self._peer)
        self._body = bytearray()
        self._headers: list[tuple[bytes, bytes]] = []
        self._url = b""
        self._refused: Refused | None = None

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))
        if len(self._headers) > HEADERS_MAX:
            self._refused = self._refused or Refused(431, f"at most {HEADERS_MAX} headers")
            raise ValueError("too many headers")
        self._request.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        self._in_head = False
        request = self._request
        request.method = self._parser.get_method().decode("latin-1")
        request.path = self._url.partition(b"?")[0].decode("latin-1")
        if self._offers():
            return  # it is read once more, without the offer
        self._refused = self._app.check(request)
        length = request.headers.get("content-length", "")
        self._bound(int(length) if length.isdecimal() else 0)
        if "expect" in request.headers and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._bound(len(self._body) + len(body))
        self._body += body if self._refused is None else b""

    def _bound(self, size: int) -> None:
        if size > self._app.body_bytes_max:
            self._refused = self._refused or Refused(413, f"more than {self._app.body_bytes_max} bytes")
            raise ValueError("the body is too large")

    def on_message_complete(self) -> None:
        if self._offers():
            return
        self._in_head, self._head_bytes = True, 0
        self._complete += 1
        self._request.body = bytes(self._body)
        self._queue(self._refused, keep=self._parser.should_keep_alive() and self._request.method != "CONNECT")

    # Answers

    def _queue(self, refused: Refused | None, *, keep: bool) -> None:
        self._waiting.append((self._request, refused, keep))
        if self._answering is None and self._transport is not None:
            self._transport.pause_reading()
            self._rest()
            self._answering = asyncio.get_running_loop().create_task(self._answer())

    async def _answer(self) -> None:
        assert self._transport is not None
        keep = True
        while self._waiting and keep and not self._transport.is_closing():
            request, refused, keep = self._waiting.popleft()
            response = await self._app.respond(request, refused)
            keep = keep and not response.close
            self._wind()
            self._say(request, response, keep=keep)
            await self._writable.wait()
        self._answering = None
        if keep and not self._transport.is_closing():
            self._transport.resume_reading()

    def _say(self, request: Request, response: Response, *, keep: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._app.count(response.status)
        headers = {"content-type": response.content_type, "content-length": len(response.body), **response.headers}
        headers |= {"allow": self._app.routes[request.path].method} if response.status == 405 else {}
        headers |= {} if keep else {"connection": "close"}
        head = f"HTTP/1.1 {response.status} {phrase(response.status)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        body = b"" if request.method == "HEAD" else response.body
        self._transport.write(head.encode("latin-1") + b"\r\n" + body)
        if not keep:
            self._transport.close()

    def _wind(self) -> None:
        """Begin to wait for the other side."""
        self._rest()
        self._timer = asyncio.get_running_loop().call_later(self._app.within_s, self._expire)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        if self._transport is not None:
            self._transport.abort()


@contextlib.asynccontextmanager
async def serving(listening: socket.socket, app: App) -> AsyncIterator[None]:
    """Serve on this socket while inside. Requests being answered are answered before this ends."""
    crowd = set[Connection]()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(app, crowd), sock=listening, backlog=_BACKLOG
    )
    try:
        yield
    finally:
        server.close()
        await asyncio.gather(*(connection.finish() for connection in list(crowd)), return_exceptions=True)


def _listening(host: str, port: int) -> socket.socket:
    """``::`` takes IPv4 too, where the system can."""
    if ":" not in host:
        return socket.create_server((host, port), backlog=_BACKLOG)
    both = socket.has_dualstack_ipv6()
    return socket.create_server((host, port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=both)


class HttpThread:
    """Serves in a thread and loop of its own until closed, so that a busy loop elsewhere delays no answer.

    Port 0 takes a free one; ``address`` is the bound one. Raises OSError or OverflowError when it cannot be had. Use as
    a context manager.
    """

    def __init__(self, name: str, host: str, port: int, app: App) -> None:
        self._socket = _listening(host, port)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self._loop, self._stop = asyncio.SelectorEventLoop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(app,), name=name, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.address[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop answering and give the port back."""
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self, app: App) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(app))

    async def _serve(self, app: App) -> None:
        async with serving(self._socket, app):
            await self._stop.wait()
