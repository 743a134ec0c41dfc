"""ClientSide: one client connection; reads requests one after the other and answers in the same order.

While an answer is under way the connection is still read, up to ``ahead_bytes_max``, so that a disconnect is noticed at
once. A client that closes its half of the connection counts as disconnected.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from typing import Protocol, cast

import httptools

from producers.proxy import errors, wire
from producers.proxy.deadlines import Arrival, Overdue, Phase, overdue
from producers.proxy.exchange import Exchange
from producers.proxy.parties import Server
from producers.proxy.routes import Routes, read_path, without_slash
from producers.proxy.tenants import contradicts
from producers.proxy.wire import Framing, Head, Refusal
from producers.requests.endings import How

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_RESET = struct.pack("ii", 1, 0)
"""``struct linger``, socket(7): a close drops what is unsent, and the other side reads an error."""
_REQUESTS_MAX = 100
"""Under way on one connection: the first, and those that wait for its answer."""


class _TooManyAhead(Exception):
    """Stops the parser in the middle of what was read."""


class ClientServer(Server[Exchange], Protocol):
    """What a client's connection needs of ``server.ProxyServer``."""

    clients: set[ClientSide]
    stopping: bool
    routes: Routes
    once: frozenset[bytes]
    """Headers, in lower case, that may stand once only."""

    def admit(self, client: ClientSide) -> Refusal | None: ...

    def client_left(self, client: ClientSide) -> None: ...


class ClientSide(asyncio.Protocol):
    """One connection of a client."""

    __slots__ = (
        "_ahead_bytes", "_arrival", "_continue_sent", "_fed", "_head", "_parser", "_phase", "_queue", "_quiet_bytes",
        "_reading", "_since_s", "_stuck_s", "_unsent_bytes", "address", "keep_alive", "server", "transport",
    )  # fmt: skip

    def __init__(self, server: ClientServer) -> None:
        self.server = server
        self.transport: asyncio.Transport | None = None
        self.address: str | None = None  # that its quotas go by
        self.keep_alive = True
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._head: Head | None = None  # being read
        self._fed = b""  # to the parser, since the head being read began
        self._quiet_bytes = 0  # since a head or a piece of a body was read
        self._reading: Exchange | None = None  # whose body is being read
        self._queue: deque[Exchange] = deque()
        self._phase = Phase.IDLE
        self._since_s = server.now_s()
        self._stuck_s: float | None = None
        self._unsent_bytes = 0
        self._ahead_bytes = 0
        self._arrival = Arrival()
        self._continue_sent = False

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.transport.set_write_buffer_limits(high=self.server.limits.write_buffer_bytes)
        refusal = self.server.admit(self)
        if refusal is not None:
            self.server.stats.refused(refusal)
            self.transport.write(errors.error_answer(refusal, keep_alive=False))
            self._linger()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.server.client_left(self)
        while self._queue:
            self._queue.popleft().client_gone()

    def eof_received(self) -> None:
        if self._queue and self.transport is not None:
            self._abort(self.transport)

    def pause_writing(self) -> None:
        self._stuck_s = self.server.now_s()
        if self._queue and (side := self._queue[0].side) is not None:
            side.hold_reading()

    def resume_writing(self) -> None:
        self._stuck_s = None
        if not self._queue:
            return
        first = self._queue[0]
        if first.side is not None:
            first.heard_s = self.server.now_s()
            first.side.may_read()
        elif not first.started:
            self._advance()

    def write(self, data: bytes) -> None:
        """Send bytes of an answer."""
        if self.transport is not None:
            self.transport.write(data)

    def hold_reading(self) -> None:
        """Let the client's bytes wait in the kernel."""
        if self.transport is not None and self.transport.is_reading():
            self.transport.pause_reading()

    def may_read(self) -> None:
        """Read on."""
        if self.transport is not None and not self.transport.is_closing() and not self.transport.is_reading():
            self.transport.resume_reading()

    def cut_off(self) -> None:
        """End an answer in its middle, so that the client cannot take it for whole."""
        self.keep_alive = False
        if self.transport is not None:
            self._abort(self.transport)

    def _abort(self, transport: asyncio.Transport) -> None:
        if self._queue and self._queue[0].framing is Framing.UNTIL_CLOSE:  # else a close would be its regular end
            sock = transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()

    # What the parser finds

    def on_message_begin(self) -> None:
        self._head = Head()

    def on_url(self, part: bytes) -> None:
        assert self._head is not None
        self._head.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:  # else a trailer
            self._head.add(name, value)

    def on_headers_complete(self) -> None:
        head, parser = self._head, self._parser
        assert head is not None
        assert parser is not None
        self._head, self._quiet_bytes = None, 0
        head.method, head.version = parser.get_method(), parser.get_http_version()
        head.keep_alive = parser.should_keep_alive()
        path = read_path(head.path)
        routed = None if path is None else self.server.routes.of(head.method, path)
        exchange = Exchange(self.server, self, head, routed and routed.api, self.server.now_s())
        exchange.refusal = (
            (errors.TOO_MANY_HEADERS if head.too_many else None)
            or wire.refusal_of(head, parser.should_upgrade(), self.server.once)
            or (None if wire.request_line(head) in self._fed else errors.MALFORMED)
            or self._too_long(head)
            or (errors.CONTRADICTION if contradicts(head.values) else None)
            or (errors.AMBIGUOUS_PATH if path is None else errors.NOT_ROUTED if routed is None else None)
        )
        if path is not None and exchange.api is not None:
            head.target = without_slash(head.target, path)
        self._reading = exchange
        self._queue.append(exchange)
        if len(self._queue) > _REQUESTS_MAX:
            exchange.refusal = exchange.refusal or errors.TOO_MANY_AHEAD
            raise _TooManyAhead

    def _too_long(self, head: Head) -> Refusal | None:
        size = len(head.target) + sum(len(name) + len(value) + 4 for name, value in head.headers)
        if size > self.server.limits.head_bytes_max:
            return errors.HEAD_TOO_LARGE
        return errors.BODY_TOO_LARGE if (head.length or 0) > self.server.limits.body_bytes_max else None

    def on_body(self, piece: bytes) -> None:
        self._quiet_bytes = 0
        self._arrival.bytes += len(piece)
        if self._reading is not None:
            self._reading.body(piece)

    def on_message_complete(self) -> None:
        if self._reading is not None:
            self._reading.complete = True
            self._reading = None
            self._quiet_bytes = 0

    # What arrives

    def data_received(self, data: bytes) -> None:
        if self._phase is Phase.LINGER or self._phase is Phase.CLOSING:
            return
        busy = bool(self._queue) and (self._queue[0].complete or not self._queue[0].started)
        self._parse(data)
        if busy:
            self._ahead_bytes += len(data)
            if self._ahead_bytes > self.server.limits.ahead_bytes_max:
                self.hold_reading()
            return
        self._advance()

    def _parse(self, data: bytes) -> None:
        if self._parser is None:
            return
        self._quiet_bytes += len(data)
        self._fed = data if self._head is None else self._fed + data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._not_upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._broken(errors.MALFORMED)
        if self._head is None:
            self._fed = b""
        if self._quiet_bytes > self.server.limits.head_bytes_max:
            if self._head is not None:
                self._broken(errors.HEAD_TOO_LARGE)
            elif self._reading is not None:
                self._broken(errors.MALFORMED)  # chunk extensions or trailers without end

    def _not_upgraded(self, rest: bytes) -> None:
        """The parser took what follows for another protocol: read the request again without the offer, or end."""
        head = self._queue[-1].head
        if self._queue[-1].refusal is not None:
            head.keep_alive = False
            self._parser = None
            return
        self._queue.pop()
        self._parser = httptools.HttpRequestParser(self)
        self._parse(wire.without_upgrade(head))
        self._parse(rest)

    def _broken(self, refusal: Refusal) -> None:
        """What follows cannot be read: answer the requests before it, then send the error and close."""
        reading = self._reading
        if reading is None:
            reading = Exchange(self.server, self, self._head or Head(), None, self.server.now_s())
            self._queue.append(reading)
        reading.refusal = reading.refusal or refusal
        self._head = self._reading = None
        self._parser = None  # nothing more is read

    def _advance(self) -> None:
        """Let the first request go on; note what the connection waits for."""
        now_s = self.server.now_s()
        if not self._queue:
            phase = Phase.HEAD if self._head is not None else Phase.IDLE
            if phase is not self._phase:
                self._phase, self._since_s = phase, now_s
            return
        first = self._queue[0]
        if not first.started and self._stuck_s is not None:
            self._phase = Phase.ANSWER  # the one before it is on its way still
            return
        if not first.started:
            first.heard_s = now_s
            self.keep_alive = first.head.keep_alive and not self.server.stopping
            self._continue_sent = False
            self._arrival = Arrival()
            if not first.complete:
                self._ahead_bytes = 0
                self.may_read()
        self._phase = Phase.ANSWER if first.complete else Phase.BODY
        self._since_s = now_s
        first.advance()
        if not first.ended and not first.complete:
            self._while_incomplete(first)

    def _while_incomplete(self, first: Exchange) -> None:
        if first.head.wants_continue and not self._continue_sent and not first.answered:
            self._continue_sent = True
            self.write(_CONTINUE)
        if first.waiting_bytes > self.server.limits.write_buffer_bytes:
            self.hold_reading()

    def exchange_ended(self, exchange: Exchange) -> None:
        """The answer to the first request was sent, or never will be: go on with the next, or close."""
        if not self._queue or self._queue[0] is not exchange:
            return
        self._queue.popleft()
        if not self.keep_alive or self.server.stopping:
            if exchange.complete:
                self.close()
            else:
                self._linger()
            return
        self._phase, self._since_s = Phase.IDLE, self.server.now_s()
        if not self._queue:
            self._ahead_bytes = 0
            self.may_read()
        if self._queue or self._head is not None:
            asyncio.get_running_loop().call_soon(self._advance)

    def _linger(self) -> None:
        """The client may be sending still: a connection closed now could take our answer with it."""
        self._phase, self._since_s = Phase.LINGER, self.server.now_s()
        self._forget_queue()
        self.may_read()
        if self.transport is not None:
            self.transport.write_eof()

    def close(self) -> None:
        """Close when what was written is sent."""
        self._phase, self._since_s = Phase.CLOSING, self.server.now_s()
        self._forget_queue()
        if self.transport is not None:
            self.transport.close()

    def _forget_queue(self) -> None:
        """Requests that came behind the last one that is answered here: they are not answered."""
        while self._queue:
            self._queue.popleft().drop_request()

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return not self._queue

    # Time

    def sweep(self, now_s: float) -> None:
        """End what has passed its limit of time."""
        transport = self.transport
        if transport is None:
            return
        unsent = transport.get_write_buffer_size()
        if unsent < self._unsent_bytes:
            self._stuck_s = now_s if self._stuck_s is not None else None
            if self._phase is Phase.CLOSING:
                self._since_s = now_s
        self._unsent_bytes = unsent
        first = self._queue[0] if self._queue else None
        phase = self._phase
        if phase is Phase.BODY and not transport.is_reading():
            phase = Phase.ANSWER  # it is the upstream that does not take what was read
        passed = overdue(
            phase,
            now_s,
            since_s=self._since_s,
            began_s=first.began_s if first else now_s,
            heard_s=first.heard_s if first else now_s,
            stuck_s=self._stuck_s,
            whole=first is not None and _waits_for_whole(first),
            limits=self.server.limits,
        )
        if passed is None and phase is Phase.BODY and self._arrival.is_slow(self.server.limits):
            passed = Overdue.RATE
        if passed is not None:
            self._overdue(passed, transport, first)

    def _overdue(self, passed: Overdue, transport: asyncio.Transport, first: Exchange | None) -> None:
        if passed is Overdue.LINGER:
            self.close()
        elif passed in (Overdue.IDLE, Overdue.WRITE):
            self._abort(transport)
        elif passed is Overdue.HEADER:
            self.keep_alive = False
            self._broken(errors.SLOW)
            self._advance()
        elif first is not None and passed in (Overdue.BODY, Overdue.RATE):
            self.keep_alive = False
            first.fail(errors.SLOW if passed is Overdue.BODY else errors.TOO_SLOW, How.TIMEOUT)
        elif first is not None:
            first.fail(errors.UPSTREAM_SLOW, How.TIMEOUT)


def _waits_for_whole(exchange: Exchange) -> bool:
    """Whether the first byte of an answer is awaited that comes when all of it is made. The state of a response in the
    background comes at once."""
    watch = exchange.watch
    return exchange.waits and exchange.api is not None and watch is not None and not watch.tracker.streamed
