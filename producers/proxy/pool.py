"""Pool: connections to one upstream, idle ones and new ones.

One spare connection is kept: a request that takes the last idle connection, or has to wait for a new one, starts the
next. Under load only the first request after a pause waits for its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from producers.proxy import errors, wire
from producers.proxy.exchange import Exchange
from producers.proxy.parties import Server
from producers.proxy.upstream_side import UpstreamSide
from producers.requests.endings import How
from runtime.addresses import ip_of
from runtime.proxy_config import UpstreamConfig

_OURS = frozenset({errno.EMFILE, errno.ENFILE})
"""Failures to connect that say nothing of the upstream: this process, or its machine, has no descriptor left."""

T = TypeVar("T")
_GOOD = re.compile(rb"HTTP/1\.[01] [1-4][0-9][0-9][ \r]")


class PoolServer(Server[Exchange], Protocol):
    """What a pool needs of ``server.ProxyServer``."""

    serving: bool


class Pool:
    """Connections to one upstream: those that are idle, and the making of new ones."""

    def __init__(self, server: PoolServer, config: UpstreamConfig) -> None:
        parts = urlsplit(config.url)
        secure = parts.scheme == "https"
        assert parts.hostname is not None
        self._server = server
        self.host = parts.hostname
        self._is_address = ip_of(parts.hostname) is not None  # nothing to resolve
        self.port = parts.port or (443 if secure else 80)
        self.authority = parts.netloc.encode()
        self.name = f"{parts.hostname}:{self.port}"
        self.prefix = parts.path.encode()
        self._ssl = ssl.create_default_context() if secure else None
        self._idle: deque[UpstreamSide] = deque()
        self._connecting: dict[Exchange, asyncio.Task[None]] = {}
        self._ahead: asyncio.Task[None] | None = None

    def target(self, requested: bytes) -> bytes:
        """The request target for this upstream, from the client's."""
        path = wire.origin_form(requested)
        return path if path == b"*" else self.prefix + path

    def ask(self, exchange: Exchange, *, fresh: bool = False) -> None:
        """Give the exchange a connection, at once where one is idle; ``fresh`` makes a new one in any case."""
        side = None if fresh else self._take_idle()
        if side is not None:
            assert exchange.upstream is not None
            self._server.choice.reused(exchange.upstream)
            side.begin(exchange)
            self._keep_one_ahead()
            return
        self._connecting[exchange] = asyncio.get_running_loop().create_task(self._connect(exchange))

    def forget(self, exchange: Exchange) -> None:
        """The exchange ended while it waited for its connection."""
        task = self._connecting.pop(exchange, None)
        if task is not None:
            task.cancel()

    def _take_idle(self) -> UpstreamSide | None:
        oldest_s = self._server.now_s() - self._server.limits.upstream_idle_s
        while self._idle:
            side = self._idle.pop()  # the one used last is the least likely to be closed by now
            if side.idle_since_s >= oldest_s and side.transport is not None and not side.transport.is_closing():
                return side
            side.close()
        return None

    async def _connect(self, exchange: Exchange) -> None:
        server, upstream = self._server, exchange.upstream
        assert upstream is not None
        try:
            side = await self._new()
        except (OSError, ValueError) as error:
            self._connecting.pop(exchange, None)
            if _is_ours(error):
                server.choice.gave_up(upstream)
                exchange.where = None  # its row names no engine
                exchange.fail(errors.NO_DESCRIPTORS, How.REFUSED)
                return
            server.health.failed(upstream, error)
            if not exchange.ended:
                exchange.not_connected()
            return
        except asyncio.CancelledError:
            server.choice.gave_up(upstream)
            raise
        self._connecting.pop(exchange, None)
        server.health.connected(upstream)
        if exchange.ended:
            side.close()
        else:
            side.begin(exchange)
            self._keep_one_ahead()

    async def _new(self) -> UpstreamSide:
        """A new connection, within ``connect_s``."""
        return await self._reached(self._connect_to)

    async def _connect_to(self, address: str) -> UpstreamSide:
        _, side = await asyncio.get_running_loop().create_connection(
            lambda: UpstreamSide(self._server, self),
            address,
            self.port,
            ssl=self._ssl,
            server_hostname=self.host if self._ssl else None,
        )
        return side

    async def _open_stream(self, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            address,
            self.port,
            ssl=self._ssl,
            server_hostname=self.host if self._ssl else None,
            limit=self._server.limits.head_bytes_max,
        )

    async def _reached(self, connect: Callable[[str], Awaitable[T]]) -> T:
        """What ``connect`` makes of the first address of the host that it reaches, within ``connect_s``: each has an
        equal part of what is left of that. Raises OSError, and ValueError where the name is none."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + self._server.limits.connect_s
        async with asyncio.timeout_at(ends_s):
            addresses = [self.host] if self._is_address else await self._resolved()
            for left in range(len(addresses), 1, -1):
                with contextlib.suppress(OSError):  # TimeoutError is one
                    async with asyncio.timeout((ends_s - loop.time()) / left):
                        return await connect(addresses[-left])
            return await connect(addresses[-1])

    async def _resolved(self) -> list[str]:
        """IP addresses of the host, one at least."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except socket.gaierror:
            _need_descriptor()
            raise
        return [_text(each[4]) for each in found]

    async def probe(self) -> str | None:
        """Ask for ``probe_path``, within ``connect_s``. None when it was answered, else why not. Raises OSError where
        this process could not ask."""
        limits = self._server.limits
        head = b"GET %b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n"
        try:
            async with asyncio.timeout(limits.connect_s):
                reader, writer = await self._reached(self._open_stream)
                with contextlib.closing(writer):
                    writer.write(head % (self.prefix + limits.probe_path.encode(), self.authority))
                    line = await reader.readuntil(b"\r\n")
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            if _is_ours(error):
                raise
            return f"{type(error).__name__}: {error}"
        return None if _GOOD.match(line) else f"answered {line[:64]!r}"

    def _keep_one_ahead(self) -> None:
        # With room for one alone, the connection in use would find none when it comes back.
        spare = self._server.limits.idle_connections_max > 1
        if spare and self._server.serving and not self._idle and self._ahead is None:
            self._ahead = asyncio.get_running_loop().create_task(self._make_ahead())

    async def _make_ahead(self) -> None:
        try:
            side = await self._new()
        except (OSError, ValueError):
            return  # what that says of the upstream, the next request finds out
        finally:
            self._ahead = None
        side.reused = True  # it may be closed by the time it is used, as a kept one may
        self.keep(side, last=True)  # if it were closed because another came back meanwhile, it would be made again

    def keep(self, side: UpstreamSide, *, last: bool = False) -> None:
        """Keep a connection for the next exchange; ``last``: to be used after all that are kept."""
        if len(self._idle) >= self._server.limits.idle_connections_max:
            side.close()
            return
        side.idle_since_s = self._server.now_s()
        (self._idle.appendleft if last else self._idle.append)(side)

    def lost(self, side: UpstreamSide) -> None:
        """A connection has ended."""
        if side.exchange is None and side in self._idle:
            self._idle.remove(side)

    def sweep(self, now_s: float) -> None:
        """Close what was idle for too long."""
        while self._idle and now_s - self._idle[0].idle_since_s > self._server.limits.upstream_idle_s:
            self._idle.popleft().close()

    def close(self) -> None:
        """Close every idle connection, and make no more."""
        if self._ahead is not None:
            self._ahead.cancel()
        while self._idle:
            self._idle.popleft().close()


def _is_ours(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _OURS


def _need_descriptor() -> None:
    """Raises OSError where none is left: a resolver that finds none says that it cannot tell, or knows no such name."""
    os.close(os.open(os.devnull, os.O_RDONLY))


def _text(address: tuple[Any, ...]) -> str:
    """A socket's address without its port; a link-local one has its interface."""
    scope_id = address[3] if len(address) == 4 else 0
    return f"{address[0]}%{scope_id}" if scope_id else str(address[0])
