"""UpstreamSide: one connection to an engine; sends a request, reads its answer, is kept for the next.

A connection carries one exchange at a time. It is kept only after an answer that ended as announced, with nothing
behind it; anything else closes it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Protocol, cast

import httptools

from producers.proxy import errors, wire
from producers.proxy.exchange import Exchange
from producers.proxy.parties import Server, UpstreamPool
from producers.proxy.wire import Answer, Framing, Headers
from producers.requests.endings import How

_END_OF_HEAD = b"\r\n\r\n"
_TRAILERS_MAX = 64
_ACKED_AT = 120


class KeepingPool(UpstreamPool[Exchange], Protocol):
    """What a connection needs of ``pool.Pool``, which keeps it between exchanges."""

    prefix: bytes

    def keep(self, side: UpstreamSide, *, last: bool = False) -> None: ...

    def lost(self, side: UpstreamSide) -> None: ...


def acknowledged(transport: asyncio.Transport | None) -> int | None:
    """How many bytes the other side's kernel has confirmed on this connection; None where that cannot be known.

    With a connection that the other side has closed (its last segment confirms all that it took) this tells whether it
    ever had a request. ``tcpi_bytes_acked`` of ``struct tcp_info``, linux/tcp.h.
    """
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None:
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED_AT + 8)
    except OSError:
        return None
    return int.from_bytes(info[_ACKED_AT:], sys.byteorder) if len(info) == _ACKED_AT + 8 else None


class UpstreamSide(asyncio.Protocol):
    """One connection to an upstream."""

    __slots__ = (
        "_acked", "_answer", "_buffer", "_done", "_excess", "_head_done", "_head_sent", "_heads", "_keep", "_left",
        "_parser", "_pieces", "_quiet_bytes", "_trailers", "_untouched", "exchange", "idle_since_s", "pool", "reused",
        "server", "transport",
    )  # fmt: skip

    def __init__(self, server: Server[Exchange], pool: KeepingPool) -> None:
        self.server = server
        self.pool = pool
        self.transport: asyncio.Transport | None = None
        self.exchange: Exchange | None = None
        self.reused = False
        self.idle_since_s = 0.0
        self._acked: int | None = None  # of all that was ever sent, when this exchange began
        self._reset()

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._answer = Answer()
        self._buffer = b""
        self._pieces: list[bytes] = []
        self._trailers: Headers = []
        self._heads = 0  # heads read, interim ones included
        self._left = -1  # bytes of a body of known length to come
        self._quiet_bytes = 0  # since something of note came
        self._head_done = self._head_sent = self._done = self._excess = self._keep = False
        self._untouched = True

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.transport.set_write_buffer_limits(high=self.server.limits.write_buffer_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        transport, self.transport = self.transport, None
        self.pool.lost(self)
        exchange = self.exchange
        if exchange is None:
            return
        self.exchange = None
        if self._head_sent and self._answer.until_close and exc is None and exchange.framing is not Framing.NONE:
            exchange.side = None
            exchange.answer_ends([])
        else:
            unseen = exc is None and self._acked is not None and self._acked == acknowledged(transport)
            exchange.upstream_lost(untouched=self.reused and self._untouched, unseen=unseen)

    def pause_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.client.hold_reading()

    def resume_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.client.may_read()

    def begin(self, exchange: Exchange) -> None:
        """Carry this exchange; it sends its request at once."""
        self.exchange = exchange
        self._acked = acknowledged(self.transport) if self.reused else None
        exchange.connected(self)

    def write(self, data: bytes) -> None:
        """Send bytes of the request."""
        if self.transport is not None:
            self.transport.write(data)

    def hold_reading(self) -> None:
        """The client is slow: let the engine's bytes wait in the kernel."""
        if self.transport is not None and self.transport.is_reading():
            self.transport.pause_reading()

    def may_read(self) -> None:
        """The client takes bytes again."""
        if self.transport is not None and not self.transport.is_reading():
            self.transport.resume_reading()

    def drop(self) -> None:
        """The exchange is over: keep the connection where that is safe, else close it."""
        exchange, self.exchange = self.exchange, None
        transport = self.transport
        if transport is None:
            return
        request_sent = exchange is not None and exchange.complete and transport.get_write_buffer_size() == 0
        if self._done and self._keep and not self._excess and request_sent:
            self.may_read()
            self._reset()
            self.reused = True
            self.pool.keep(self)
        else:
            transport.abort()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    # What the parser finds

    def on_message_begin(self) -> None:
        self._excess |= self._done

    def on_status(self, reason: bytes) -> None:
        self._answer.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._done:
            return
        if not self._head_done:
            self._answer.add(name, value)
        elif len(self._trailers) < _TRAILERS_MAX:
            self._trailers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._done:
            return
        self._heads += 1
        answer = self._answer
        answer.status = self._parser.get_status_code()
        answer.version = self._parser.get_http_version()
        if 100 <= answer.status < 200:
            return
        self._head_done = True
        self._keep = self._parser.should_keep_alive()
        assert self.exchange is not None
        bodiless = answer.status in wire.BODILESS
        self._done = bodiless or self.exchange.head.method == b"HEAD"
        length = None if answer.chunked else answer.values.get(b"content-length")
        if bodiless and (answer.chunked or int(length or 0)):
            self._keep = False  # not every engine leaves out the body that it announced
        if not self._done and length is not None:
            self._left = int(length)

    def on_body(self, piece: bytes) -> None:
        if not self._done:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        if self._head_done:
            self._done = True
        else:
            self._answer = Answer()  # it was an interim answer; the real one follows

    # What arrives

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            self.close()  # bytes without a request
            return
        if self._untouched:
            self._untouched = False
            exchange.first_byte()
        at_ns = self.server.tick(exchange)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._done:
                exchange.fail(errors.UPSTREAM_MALFORMED, How.ENGINE_LOST)
                return
            self._excess = True
        if self._head_sent:
            self._pass_on(exchange, data, at_ns)
        else:
            self._begin_answer(exchange, data, at_ns)

    def _begin_answer(self, exchange: Exchange, data: bytes, at_ns: int) -> None:
        buffer = self._buffer + data if self._buffer else data
        if not self._head_done:
            self._buffer = buffer
            if len(buffer) > self.server.limits.head_bytes_max:
                exchange.fail(errors.UPSTREAM_MALFORMED, How.ENGINE_LOST)
            return
        self._buffer = b""
        if not self._answer.readable:
            exchange.fail(errors.UPSTREAM_MALFORMED, How.ENGINE_LOST)
            return
        at = 0
        for _ in range(self._heads):
            at = buffer.find(_END_OF_HEAD, at) + len(_END_OF_HEAD)
        self._head_sent = True
        self._answer.stay_at(self.pool.authority, self.pool.prefix)
        exchange.answer(self._answer)
        if exchange.framing is Framing.NONE:
            self._excess |= at < len(buffer)
        self._pass_on(exchange, buffer[at:], at_ns)

    def _pass_on(self, exchange: Exchange, data: bytes, at_ns: int) -> None:
        pieces = self._pieces
        if pieces:
            self._pieces = []
            self._quiet_bytes = 0
        elif self._is_flood(len(data)):
            exchange.fail(errors.UPSTREAM_MALFORMED, How.ENGINE_LOST)
            return
        held = exchange.holds_answer
        if exchange.framing is Framing.VERBATIM:
            if not self._verbatim(exchange, data):
                return
        elif exchange.framing is not Framing.NONE:
            exchange.pieces(pieces)
        if pieces and exchange.watched and not held and not exchange.holds_answer:
            self.server.look_at(exchange, at_ns, pieces)
        if self._done:
            exchange.answer_ends(self._trailers)

    def _verbatim(self, exchange: Exchange, data: bytes) -> bool:
        """Hand the bytes on as they are, never beyond the end of the answer. False: the answer's end is unknown."""
        if self._left >= 0:
            self._excess |= len(data) > self._left
            data = data[: self._left]
            self._left -= len(data)
        elif self._excess:
            exchange.fail(errors.UPSTREAM_MALFORMED, How.ENGINE_LOST)
            return False
        exchange.client.write(data)
        return True

    def _is_flood(self, more: int) -> bool:
        """Bytes without end that are no body: chunk extensions, trailers."""
        self._quiet_bytes += more
        return self._quiet_bytes > self.server.limits.head_bytes_max
