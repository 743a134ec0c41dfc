"""Socket on which proxies of this host claim their requests, and are given what others report of them.

A stream: a claimed id a line in, a report as a JSON object a line out; an empty line is the last of a proxy that ends
in order. One that ends otherwise may not have reported its requests: its claims are forgotten. The socket stands beside
the agent's own, for the same owner and group. Without it requests that a proxy and a plug-in both report are counted
twice, and nothing else fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson

from producers.identity.host_file import CLAIM_BYTES_MAX
from producers.receiver.listening import listen
from producers.receiver.once import Once
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

WAITING_BYTES_MAX = 4 * 1024 * 1024
"""Reports that a proxy has not read; beyond it they are dropped."""


@contextlib.asynccontextmanager
async def serving_claims(path: Path, group: str | None, once: Once) -> AsyncIterator[None]:
    """Until the end of the block. A socket that cannot be made is logged, and done without."""
    open_now: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.add(writer)
        try:
            await _read(reader, writer, once)
        finally:
            open_now.discard(writer)
            writer.close()

    try:
        server = await asyncio.start_unix_server(
            serve, sock=listen(path, group, socket.SOCK_STREAM), limit=CLAIM_BYTES_MAX
        )
    except ConfigError as error:
        _log.warning("no socket for claims: requests of a proxy and a plug-in count twice", extra={"error": str(error)})
        yield
        return
    try:
        yield
    finally:
        server.close()
        for writer in list(open_now):
            writer.close()
        _unlink(path)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, once: Once) -> None:
    def give(request_id: str, row: dict[str, Any]) -> None:
        transport = writer.transport
        if not transport.is_closing() and transport.get_write_buffer_size() < WAITING_BYTES_MAX:
            writer.write(orjson.dumps({**row, "request_id": request_id}, option=orjson.OPT_APPEND_NEWLINE, default=str))

    line = b""
    try:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while (line := await reader.readuntil(b"\n")) != b"\n":
                once.claim(line[:-1].decode("latin-1"), give)
    finally:
        if line != b"\n":
            once.forsake(give)
