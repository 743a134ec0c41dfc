"""A mock engine for ``bench`` of the proxy, in a process of its own: every request is answered by a paced stream.

Each token holds the moment it was written, on the machine's monotonic clock, which every process here shares. Before
``[DONE]`` an event holds the SHA-256 of every byte of the body so far, so that a client can tell that nothing changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
from dataclasses import dataclass
from typing import cast

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Pace:
    """``tokens`` per stream, the first after ``first_ms``, one every ``gap_ms`` then; 0: as fast as it goes."""

    tokens: int
    first_ms: float
    gap_ms: float


def chunk(data: bytes) -> bytes:
    """One chunk of the transfer encoding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def token(sent_ns: int) -> bytes:
    """One event as vLLM writes them, with the moment in its text."""
    return (
        b'data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,'
        b'"model":"mock","choices":[{"index":0,"delta":{"content":"@%d"},"logprobs":null,"finish_reason":null}]}\n\n'
        % sent_ns
    )


def last_events(tokens: int) -> bytes:
    """The finish and the usage, as chunks."""
    finish = b'data: {"model":"mock","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
    usage = b'data: {"model":"mock","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":%d}}\n\n' % tokens
    return chunk(finish) + chunk(usage)


class Answering(asyncio.Protocol):
    """One connection; requests have a Content-Length."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._read = b""
        self._sent = 0
        self._began_s = 0.0
        self._digest = hashlib.sha256()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, mark, body = self._read.partition(b"\r\n\r\n")
        if not mark or len(body) < length_of(head):
            return
        self._read = body[length_of(head) :]
        self._began_s = self._loop.time()
        self._sent = 0
        self._digest = hashlib.sha256()
        assert self._transport is not None
        self._transport.write(HEAD)
        self._loop.call_at(self._began_s + self._pace.first_ms / 1_000, self._next)

    def _next(self) -> None:
        if self._transport is None:
            return
        if self._sent == self._pace.tokens:
            self._write(last_events(self._sent))
            digest = b'data: {"digest":"%b"}\n\n' % self._digest.hexdigest().encode()
            self._transport.write(chunk(digest) + chunk(b"data: [DONE]\n\n") + END)
            return
        self._write(chunk(token(time.monotonic_ns())))
        self._sent += 1
        due_s = self._began_s + (self._pace.first_ms + self._sent * self._pace.gap_ms) / 1_000
        self._loop.call_at(due_s, self._next)

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._digest.update(data)
        self._transport.write(data)


def length_of(head: bytes) -> int:
    """The announced length of a request's body; 0 without one."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def serve(pace: Pace) -> None:
    """Serve until killed; the first line of standard output is the port."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answering(pace), "127.0.0.1", 0, backlog=1_024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    from fleetpulse.proxy import run_on_fast_loop

    run_on_fast_loop(serve(Pace(**json.loads(sys.argv[1]))))
