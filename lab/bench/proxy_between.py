"""What stands between client and engine in the bench of the proxy, each as a process of its own.

The yardstick is a relay that passes bytes on and looks at nothing, on the same event loop: what it adds, this machine
adds to any process in between. The proxy is whole but for Kafka: batches are encoded and dropped.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import cast
from urllib.parse import urlsplit

from fleetpulse.services.proxy import quiet_collector, run_on_fast_loop
from producers.batch import Batch
from producers.proxy.publishing import RowPublisher
from producers.proxy.server import ProxyServer
from runtime.process import on_stop_signal
from runtime.proxy_config import ProxyConfig, UpstreamConfig


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
        if self._transport is not None:
            self._transport.close()


async def serve_relay(upstream: str) -> None:
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


class Counting:
    """In the publisher's place."""

    def __init__(self) -> None:
        self.events = 0

    def put_at_once(self, batch: Batch) -> bool:
        """Count the events."""
        self.events += batch.count
        return True

    def shed(self, topic: str, events: int) -> None:
        """No event is that large here."""
        raise AssertionError(f"{events} events of {topic} did not fit")


async def serve_proxy(upstream: str) -> None:
    """Serve until SIGTERM; the first line of standard output is the port, the last one how many events there were."""
    stop = on_stop_signal(asyncio.get_running_loop())
    sink = Counting()
    rows = RowPublisher(sink)
    config = ProxyConfig(port=0, grace_s=0, upstreams=(UpstreamConfig(url=upstream),))
    server = ProxyServer(config, rows.take, host="bench", tenant_secret=b"bench")
    await server.start()
    quiet_collector()
    print(server.port, flush=True)
    running = asyncio.create_task(rows.run())
    await stop.wait()
    await server.stop()
    running.cancel()
    rows.flush()
    print(json.dumps({"events": sink.events}), flush=True)


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    run_on_fast_loop({"relay": serve_relay, "proxy": serve_proxy}[options.pop("which")](**options))
