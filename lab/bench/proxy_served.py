"""The proxy as ``bench`` measures it, a process of its own: all but Kafka. Batches are encoded and dropped."""

from __future__ import annotations

import asyncio
import json
import sys

from fleetpulse.services.proxy import quiet_collector, run_on_fast_loop
from producers.batch import Batch
from producers.proxy.publishing import RowPublisher
from producers.proxy.server import ProxyServer
from runtime.edge_config import ProxyConfig, UpstreamConfig
from runtime.process import on_stop_signal


class Counting:
    """In the publisher's place."""

    def __init__(self) -> None:
        self.events = 0

    async def put(self, topic: str, key: bytes, batch: Batch) -> bool:
        """Count the events."""
        self.events += batch.count
        return True

    def shed(self, topic: str, events: int) -> None:
        """No event is that large here."""
        raise AssertionError(f"{events} events of {topic} did not fit")


async def serve(upstream: str, ask_usage: bool) -> None:
    """Serve until SIGTERM; the first line of standard output is the port, the last one how many events there were."""
    stop = on_stop_signal(asyncio.get_running_loop())
    sink = Counting()
    rows = RowPublisher(sink)
    config = ProxyConfig(port=0, upstreams=(UpstreamConfig(url=upstream),), ask_usage=ask_usage)
    server = ProxyServer(config, rows.take, host="bench", tenant_secret=b"bench")
    await server.start()
    quiet_collector()
    print(server.port, flush=True)
    running = asyncio.create_task(rows.run())
    await stop.wait()
    await server.stop()
    running.cancel()
    await rows.flush()
    print(json.dumps({"events": sink.events}), flush=True)


if __name__ == "__main__":
    run_on_fast_loop(serve(**json.loads(sys.argv[1])))
