"""The yardstick of the proxy's bench: a relay that passes bytes on and looks at nothing, on the same event loop.

What it adds and costs is what this machine's network and scheduler add and cost to any process in between.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import cast
from urllib.parse import urlsplit

from fleetpulse.services.proxy import run_on_fast_loop
from runtime.process import on_stop_signal


class Side(asyncio.Protocol):
    """One of two connections that belong together; what comes before the other stands is kept."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self.other: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what waited."""
        self._transport = cast(asyncio.Transport, transport)
        for data in self._early:
            self._transport.write(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        """Pass on."""
        if self.other is not None:
            self.other.send(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Both go together."""
        if self.other is not None:
            self.other.close()

    def send(self, data: bytes) -> None:
        """Write, or keep until there is a connection."""
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Close once."""
        if self._transport is not None:
            self._transport.close()


async def serve(upstream: str) -> None:
    """Relay until SIGTERM; the first line of standard output is the port."""
    loop = asyncio.get_running_loop()
    stop, address = on_stop_signal(loop), urlsplit(upstream)
    connecting: set[asyncio.Task[object]] = set()

    def accept() -> Side:
        near, far = Side(), Side()
        near.other, far.other = far, near
        task = loop.create_task(loop.create_connection(lambda: far, str(address.hostname), int(address.port or 0)))
        connecting.add(cast("asyncio.Task[object]", task))
        task.add_done_callback(connecting.discard)
        return near

    server = await loop.create_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()
    server.close()


if __name__ == "__main__":
    run_on_fast_loop(serve(**json.loads(sys.argv[1])))
