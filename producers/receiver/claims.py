"""Socket on which proxies of this host claim their requests, and are given what others report of them.

A stream: a claimed id a line in, a report as a JSON object a line out; an empty line is the last of a proxy that ends
in order. One that ends otherwise may not have reported its requests: its claims are forgotten. The socket stands beside
the agent's own, for the same owner and group, and beside it an empty file as long as a proxy is connected: an agent
that starts and finds one waits for it. Without the socket requests that a proxy and a plug-in both report are counted
twice, and nothing else fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any, cast

import orjson

from producers.identity.host_file import CLAIM_BYTES_MAX
from producers.receiver.listening import listen
from producers.receiver.once import Once
from producers.requests.counted_once import ID_LENGTH_MAX
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

PROXIES_MAX = 128
"""Connections at one time, one for each worker of a proxy; one more is closed at once."""
WAITING_BYTES_MAX = 1024 * 1024
"""Reports that a proxy has not read; beyond it they are dropped."""


@contextlib.asynccontextmanager
async def serving_claims(path: Path, group: str | None, once: Once) -> AsyncIterator[Collection[object]]:
    """Until the end of the block; open connections. A socket that cannot be made is logged, and done without."""
    open_now: set[_Proxy] = set()
    note = path.with_suffix(".connected")
    if note.exists():
        once.await_proxies(time.monotonic())
    try:
        listening = listen(path, group, socket.SOCK_STREAM)
    except ConfigError as error:
        _log.warning("no socket for claims: requests of a proxy and a plug-in count twice", extra={"error": str(error)})
        yield open_now
        return
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: _Proxy(once, open_now, note), sock=listening)
    try:
        yield open_now
    finally:
        server.close()
        for proxy in list(open_now):
            proxy.close()
        _unlink(path)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


class _Proxy(asyncio.Protocol):
    """The connection of one proxy. A protocol, not streams: a task that wakes for every claim costs most of a claim."""

    def __init__(self, once: Once, open_now: set[_Proxy], note: Path) -> None:
        self._once = once
        self._open_now = open_now
        self._note = note
        self._transport: asyncio.Transport | None = None
        self._begun = b""
        self._reports: list[bytes] = []
        self._in_order = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It may claim from now on, unless too many others do."""
        if len(self._open_now) >= PROXIES_MAX:
            transport.close()
            return
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no class of asyncio's
        self._open_now.add(self)
        self._once.proxies += 1
        with contextlib.suppress(OSError):
            self._note.touch()

    def data_received(self, data: bytes) -> None:
        """Some claims, the last of them perhaps not whole."""
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            if self._in_order:
                return
            self._in_order = not line
            if 0 < len(line) <= ID_LENGTH_MAX:  # a longer one meets no report
                self._once.claim(line.decode("latin-1"), self.give)
        if self._in_order or max(map(len, (*lines, self._begun))) > CLAIM_BYTES_MAX:
            self.close()

    def give(self, request_id: str, row: dict[str, Any]) -> None:
        """Hand over a report; those of one slice go together."""
        if self._transport is None or self._transport.is_closing():
            return
        line = orjson.dumps({**row, "request_id": request_id}, option=orjson.OPT_APPEND_NEWLINE, default=str)
        if len(line) > CLAIM_BYTES_MAX:
            return  # the proxy would hang up, and its claims be forgotten
        self._reports.append(line)
        if len(self._reports) == 1:
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        reports, self._reports = self._reports, []
        transport = self._transport
        if reports and transport is not None and transport.get_write_buffer_size() < WAITING_BYTES_MAX:
            transport.write(b"".join(reports))

    def close(self) -> None:
        """Send what waits, and close."""
        self._send()
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        """One that did not end in order may not have reported its requests."""
        if self not in self._open_now:
            return  # one too many
        self._open_now.remove(self)
        self._once.proxies -= 1
        self._transport = None
        if not self._in_order:
            self._once.forsake(self.give)
        elif not self._open_now:
            _unlink(self._note)
