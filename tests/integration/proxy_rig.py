"""A proxy on loopback between scripted engines and raw clients: what goes over each wire stands in the tests."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
import uvloop

from producers.proxy.server import ProxyServer
from runtime.counters import COUNTERS
from runtime.proxy_config import ProxyConfig, UpstreamConfig

CHAT = b"/v1/chat/completions"
KEY = b"sk-secret-of-a-customer"


@dataclass
class Got:
    """One request as an engine saw it."""

    head: bytes
    body: bytes
    connection: int

    @property
    def line(self) -> bytes:
        return self.head.partition(b"\r\n")[0]

    def header(self, name: str) -> bytes | None:
        for line in self.head.split(b"\r\n")[1:]:
            told, _, value = line.partition(b":")
            if told.strip().lower() == name.encode().lower():
                return value.strip()
        return None


Script = Callable[[Got, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Engine:
    """Reads requests and lets the script write whatever bytes it likes; ``closed`` counts connections that ended."""

    script: Script
    got: list[Got] = field(default_factory=list)
    connections: int = 0
    writers: dict[int, asyncio.StreamWriter] = field(default_factory=dict)
    """By number of the connection."""
    closed: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self.writers[number] = writer
        try:
            while True:
                got = await read_request(reader, number)
                self.got.append(got)
                await self._answer(got, reader, writer)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self.closed += 1
            writer.close()

    async def _answer(self, got: Got, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Run the script; stop it when the proxy closes the connection."""
        work = asyncio.ensure_future(self.script(got, writer))
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        for task in (work, gone):
            task.cancel()
        ended, _ = await asyncio.gather(work, gone, return_exceptions=True)
        if not work.cancelled() and isinstance(ended, Exception):
            raise ended
        if work.cancelled():
            raise ConnectionResetError


async def read_request(reader: asyncio.StreamReader, number: int) -> Got:
    head = await reader.readuntil(b"\r\n\r\n")
    got = Got(head, b"", number)
    length = got.header("content-length")
    if length is not None:
        got.body = await reader.readexactly(int(length))
    elif got.header("transfer-encoding") is not None:
        got.body = await read_chunked(reader)
    return got


async def read_chunked(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    while await reader.readline() != b"\r\n":
        pass
    return body


@dataclass
class Rig:
    """A running proxy. ``rows`` are the events of requests that ended."""

    server: ProxyServer
    rows: list[dict[str, Any]]
    clients: list[asyncio.StreamWriter] = field(default_factory=list)

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=2**26)
        self.clients.append(writer)
        return reader, writer

    async def ask(self, request: bytes) -> bytes:
        """Everything that comes back until the proxy closes; the request should ask it to."""
        reader, writer = await self.client()
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 60)

    async def rows_after(self, count: int = 1) -> list[dict[str, Any]]:
        """The rows, when there are so many; fails where they do not come."""
        await until(lambda: len(self.rows) >= count)
        await asyncio.sleep(0.02)  # one too many would come at once
        assert len(self.rows) == count
        return self.rows


async def until(holds: Callable[[], object], within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110  # what is waited for knows no event
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def engines_of(*scripts: Script) -> AsyncIterator[list[Engine]]:
    engines = [Engine(script) for script in scripts]
    servers = [await asyncio.start_server(engine.serve, "127.0.0.1", 0, limit=2**26) for engine in engines]
    for engine, server in zip(engines, servers, strict=True):
        engine.port = server.sockets[0].getsockname()[1]
    try:
        yield engines
    finally:
        for server in servers:
            server.close()


@contextlib.asynccontextmanager
async def proxy_to(*urls: str, **limits: Any) -> AsyncIterator[Rig]:
    """The proxy before these engines; it passes on every path. Bodies pass untouched unless ``ask_usage`` is set."""
    rows: list[dict[str, Any]] = []
    weights, counters = limits.pop("weights", [1] * len(urls)), limits.pop("counters", COUNTERS)
    tracer, claims = limits.pop("tracer", None), limits.pop("claims", None)
    upstreams = tuple(UpstreamConfig(url=url, weight=weight) for url, weight in zip(urls, weights, strict=True))
    config = ProxyConfig(
        port=0, upstreams=upstreams, **{"grace_s": 0, "drain_s": 0.2, "ask_usage": False, "paths": ("*",), **limits}
    )
    names: dict[str, Any] = {
        "host": "h-1",
        "tenant_secret": b"secret",
        "counters": counters,
        "tracer": tracer,
        "claims": claims,
    }
    server = ProxyServer(config, rows.append, **names)
    await server.start()
    rig = Rig(server, rows)
    try:
        yield rig
    finally:
        for writer in rig.clients:
            writer.close()
        await server.stop()
        await asyncio.sleep(0.01)
        assert server.held.bytes == 0
        assert all(upstream.open == 0 for upstream in server.choice.upstreams)


@contextlib.asynccontextmanager
async def rig_of(script: Script, **limits: Any) -> AsyncIterator[tuple[Rig, Engine]]:
    async with engines_of(script) as (engine,), proxy_to(engine.url, **limits) as rig:
        yield rig, engine


# Requests and answers


def post(body: bytes, path: bytes = CHAT, headers: bytes = b"Connection: close\r\n") -> bytes:
    """A POST as the simplest client writes it."""
    return b"POST %b HTTP/1.1\r\nHost: proxy\r\n%bContent-Length: %d\r\n\r\n%b" % (path, headers, len(body), body)


def chat(*, stream: bool = True, **more: Any) -> bytes:
    return orjson.dumps(
        {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "my secret"}], **more}
    )


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else orjson.dumps(value)) + b"\n\n"


def token(text: str, finish: str | None = None) -> bytes:
    return event({"model": "m-1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
DONE = event(b"[DONE]")
EVENTS = (token("a"), token("b"), token("c", "stop"))
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM = b"".join(map(chunk, (*EVENTS, USAGE, DONE))) + b"0\r\n\r\n"


def whole(body: bytes, headers: bytes = b"") -> bytes:
    """An answer that is no stream."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n%b" % (
        headers,
        len(body),
        body,
    )


ANSWER = orjson.dumps(
    {
        "model": "m-1",
        "choices": [{"index": 0, "message": {"content": "abc"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }
)


def says(*parts: bytes, close: bool = False, pause_s: float = 0.0) -> Script:
    """A script that writes these bytes, part by part, with a pause between two."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        for number, part in enumerate(parts):
            if number and pause_s:
                await asyncio.sleep(pause_s)
            writer.write(part)
            await writer.drain()
        if close:
            writer.close()

    return script


streams = says(STREAM_HEAD, *map(chunk, (*EVENTS, USAGE, DONE)), b"0\r\n\r\n")
answers = says(whole(ANSWER))


def parts_of(raw: bytes) -> tuple[bytes, bytes]:
    """Head and body of an answer."""
    head, _, body = raw.partition(b"\r\n\r\n")
    return head, body


def error_of(raw: bytes) -> tuple[int, dict[str, Any]]:
    """Status and OpenAI's error object."""
    head, body = parts_of(raw)
    error = orjson.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return int(head.split()[1]), error


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def on_both_loops(module: dict[str, Any]) -> None:
    """Let every asynchronous test of a module run on asyncio's own loop and on uvloop."""
    for name, test in list(module.items()):
        if name.startswith("test_") and inspect.iscoroutinefunction(test):
            module[name] = _on_both(test)


def _on_both(test: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(loop_name: str, **arguments: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
            runner.run(test(**arguments))

    told = inspect.signature(test)
    added = inspect.Parameter("loop_name", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = told.replace(parameters=[*told.parameters.values(), added])  # type: ignore[attr-defined]
    return pytest.mark.parametrize("loop_name", LOOPS)(run)
