"""Many open streams through ``fleetpulse proxy`` as in production: processor time, memory, whether bytes change.

``python -m lab.bench.proxy_streams '{"streams": 4000, "workers": 2}'``: engine, client and proxy are processes of their
own. Every stream is open before the first ends; each token is written by itself, ``gap_s`` after the one before. The
proxy is whole, with its spool, but for Kafka. Wall-clock rates say as much of engine and client, which share the
machine's cores, as of the proxy: what is compared is processor time per chunk.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import uvloop

from lab.bench.proxy_engine import END, HEAD, Stream, length_of
from lab.bench.proxy_load import REQUEST, seen_of
from lab.bench.stand import metric, page
from runtime.process import raise_descriptors
from schemas.errors import UnavailableError

TICK_S = 0.01
WITHIN_S = 300.0
CONNECT_AT_ONCE = 64
_LAST = b"\r\n" + END
"""Behind another chunk; a head may end in a nought too."""


class Answering(asyncio.Protocol):
    """The engine's side of one connection, which carries one stream."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._read = b""
        self._transport: asyncio.Transport | None = None
        self._stream = Stream(0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop writing."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Begin the stream once the request is whole."""
        self._read += data
        head, mark, body = self._read.partition(b"\r\n\r\n")
        if mark and len(body) >= length_of(head) and self._transport is not None:
            self._stream = Stream(time.monotonic_ns())
            self._transport.write(HEAD)
            self._engine.begun(self)

    def write(self, tokens: int) -> bool:
        """One token more, or the end; whether there is more to come."""
        if self._transport is None:
            return False
        self._transport.write(self._stream.next(tokens))
        return self._stream.sent <= tokens


class Engine:
    """All streams; tokens come once ``streams`` of them have begun."""

    def __init__(self, streams: int, tokens: int, gap_s: float) -> None:
        self._streams = streams
        self._tokens = tokens
        self._slots: list[list[Answering]] = [[] for _ in range(max(1, round(gap_s / TICK_S)))]
        self._count = 0
        self._all = asyncio.Event()

    def begun(self, stream: Answering) -> None:
        """Put it where fewest are written at one time."""
        self._slots[self._count % len(self._slots)].append(stream)
        self._count += 1
        if self._count == self._streams:
            self._all.set()

    async def serve(self) -> None:
        """Until killed; the port is the first line of standard output."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Answering(self), "127.0.0.1", 0, backlog=4_096)
        print(server.sockets[0].getsockname()[1], flush=True)
        await self._all.wait()
        due_s, turn = loop.time(), 0
        while True:
            slot = turn % len(self._slots)
            self._slots[slot] = [stream for stream in self._slots[slot] if stream.write(self._tokens)]
            turn, due_s = turn + 1, due_s + TICK_S
            await asyncio.sleep(max(0.0, due_s - loop.time()))


class Asking(asyncio.Protocol):
    """The client's side of one connection."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, bytes]] = []
        self.begun_ns = time.monotonic_ns()
        self._tail = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask at once."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        """Keep what comes; it is worked out when all have ended."""
        self.reads.append((time.monotonic_ns(), data))
        self._tail = (self._tail + data)[-len(_LAST) :]
        if self._tail == _LAST and self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The stream has ended, whole or not."""
        if not self.ended.done():
            self.ended.set_result(None)


async def ask(port: int, streams: int) -> None:
    """Open all streams; standard output says when they are open, and at the end what was seen, as lines of JSON."""
    loop, asking = asyncio.get_running_loop(), list[Asking]()
    for at in range(0, streams, CONNECT_AT_ONCE):
        made = (loop.create_connection(Asking, "127.0.0.1", port) for _ in range(min(CONNECT_AT_ONCE, streams - at)))
        asking += [protocol for _, protocol in await asyncio.gather(*made)]
    while not all(one.reads or one.ended.done() for one in asking):  # noqa: ASYNC110  # of thousands, once
        await asyncio.sleep(0.05)
    print(json.dumps({"open": sum(not one.ended.done() for one in asking)}), flush=True)
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*(one.ended for one in asking))
    seen = [seen_of(one.begun_ns, one.reads, first=True) for one in asking]
    print(json.dumps({"whole": sum(one.whole for one in seen), "chunks": sum(len(one.transit_ns) for one in seen)}))


@contextlib.contextmanager
def proxy(upstream: str, workers: int, folder: Path, streams: int) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """The proxy as a process, the port of its clients and that of its health."""
    room = {"OPEN_REQUESTS_MAX": 2 * streams, "CONNECTIONS_MAX": 2 * streams, "GRACE_S": 0}
    settings = {f"FLEETPULSE_PROXY__{name}": str(value) for name, value in room.items()}
    settings |= {"FLEETPULSE_DATA_DIR": str(folder), "FLEETPULSE_KAFKA__BOOTSTRAP": "127.0.0.1:9"}
    words = ["--upstream", upstream, "--port", "0", "--health-port", "0", "--workers", str(workers)]
    process = subprocess.Popen(
        [sys.executable, "-m", "fleetpulse", "proxy", *words],
        env={**os.environ, **settings, "FLEETPULSE_SOCKET": str(folder / "agent.sock")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        lines: dict[str, dict[str, Any]] = {}
        up = 0
        for line in process.stderr:
            facts = json.loads(line)
            lines[facts["event"]] = facts
            up += facts["event"] == "proxy is up"
            if up == workers:
                break
        else:
            raise UnavailableError("the proxy of the bench ended early")
        yield process, lines["proxy is up"]["port"], lines["health endpoints are up"]["port"]
    finally:
        for child in psutil.Process(process.pid).children():
            child.kill()
        process.kill()
        process.wait()
        process.stderr.close()


def spent(process: subprocess.Popen[str]) -> tuple[list[float], float]:
    """Seconds of processor time of the proxy's processes, the first its parent's, and MiB of memory of all."""
    whole = psutil.Process(process.pid)
    everyone = [whole, *whole.children()]
    times = [one.cpu_times() for one in everyone]
    return [each.user + each.system for each in times], sum(one.memory_info().rss for one in everyone) / 2**20


def measure(streams: int = 4_000, workers: int = 1, tokens: int = 30, gap_s: float = 1.0) -> dict[str, Any]:
    """Numbers of one run. ``cpu_s_per_million_chunks`` is of all processes of the proxy; ``cpu_s`` of each."""
    ours = [sys.executable, "-m", "lab.bench.proxy_streams"]
    pipe: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    with contextlib.ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        pace = {"engine": True, "streams": streams, "tokens": tokens, "gap_s": gap_s}
        engine = running.enter_context(subprocess.Popen([*ours, json.dumps(pace)], **pipe))
        running.callback(engine.kill)
        assert engine.stdout is not None
        upstream = f"http://127.0.0.1:{int(engine.stdout.readline())}"
        process, port, health = running.enter_context(proxy(upstream, workers, folder, streams))
        idle_mib = spent(process)[1]
        load = {"ask": port, "streams": streams}
        client = running.enter_context(subprocess.Popen([*ours, json.dumps(load)], **pipe))
        running.callback(client.kill)
        assert client.stdout is not None
        opened = json.loads(client.stdout.readline())
        before, began_s = spent(process)[0], time.monotonic()
        time.sleep(tokens * gap_s / 2)
        half_mib = spent(process)[1]
        seen = json.loads(client.stdout.readline())
        seconds, after = time.monotonic() - began_s, spent(process)[0]
        cpu_s = [round(end - begin, 2) for begin, end in zip(before, after, strict=True)]
        time.sleep(2.0)
        requests = metric(page(health, "metrics", 30.0), "proxy_requests")
    return {
        "streams": streams,
        "workers": workers,
        "open_at_once": opened["open"],
        "streams_identical": seen["whole"],
        "requests_counted": requests,
        "chunks": seen["chunks"],
        "chunks_per_s": round(seen["chunks"] / seconds),
        "cpu_s": cpu_s,
        "cpu_s_per_million_chunks": round(sum(cpu_s) / max(seen["chunks"], 1) * 1e6, 1),
        "memory_mib": round(half_mib, 1),
        "memory_idle_mib": round(idle_mib, 1),
        "kib_per_stream": round((half_mib - idle_mib) * 1_024 / streams, 1),
        "machine": {"cores": os.cpu_count(), "load_1m": round(os.getloadavg()[0], 2)},
    }


def main(options: dict[str, Any]) -> None:
    """One of the three roles, by the options."""
    raise_descriptors()
    if options.pop("engine", False):
        uvloop.run(_serve(**options))
    elif "ask" in options:
        uvloop.run(ask(options["ask"], options["streams"]))
    else:
        print(json.dumps(measure(**options), indent=2))


async def _serve(**options: Any) -> None:
    await Engine(**options).serve()


if __name__ == "__main__":
    main(json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}"))
